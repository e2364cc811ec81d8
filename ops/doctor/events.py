"""Could events be delivered to each sink of [events]? Asked without delivering any."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from labferry.alert_sinks import aws_client, region_of
from labferry.broker import queue_names
from labferry.celery_events import events_broker, open_connection
from labferry.ledger.server import without_password
from labferry.settings import Settings
from labferry.settings_events import EventSettings
from ops.doctor.finding import Area, Finding
from ops.flower_access import is_loopback

EVENTS = Area("events")
_TIMEOUT_S = 5.0
_PORTS = {"http": 80, "https": 443}
_MAY_STILL_SEND = "Allow it to be looked at, or see `labferry status` after the first event."


def look_at_events(settings: Settings) -> Iterator[Finding]:
    """Yield what is right and wrong with each sink; nothing where none is set."""
    events = settings.events
    if events.celery_task:
        yield from _celery(settings)
    if events.webhook_url:
        yield from _webhook(events, events.webhook_url)
    if events.command:
        yield _command(events.command[0])
    for service, call, arguments in _aws_calls(events):
        yield _aws(service, call, arguments, settings.store.region)


def _celery(settings: Settings) -> Iterator[Finding]:
    address = events_broker(settings)
    url = without_password(address.url)
    queue = settings.events.celery_queue
    if settings.events.celery_broker_url is None and queue in queue_names(settings):
        yield EVENTS.bad(
            "celery queue",
            f"{queue} is a queue of labferry's own workers",
            "Name a queue of yours in [events] celery_queue.",
        )
    try:
        with closing(open_connection(address)) as connection:
            connection.ensure_connection(max_retries=1, timeout=int(_TIMEOUT_S))
    except Exception as error:  # noqa: BLE001  each transport of kombu has errors of its own
        why = f"{url}: {type(error).__name__}: {error}"
        yield EVENTS.unknown("celery", why, "Start that broker, or set [events] celery_broker_url.")
    else:
        yield EVENTS.good("celery", f"{url} answers; queue {queue}")


def _webhook(events: EventSettings, url: str) -> Iterator[Finding]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    if not events.webhook_secret.get_secret_value():
        yield EVENTS.warning(
            "webhook secret",
            "what is sent is not signed: anybody who knows the address can forge an event",
            "Set LABFERRY_EVENTS__WEBHOOK_SECRET, also at the receiver.",
        )
    if parts.scheme == "http" and not is_loopback(host):
        yield EVENTS.warning(
            "webhook", f"{host} is reached without TLS", "Use an https:// address."
        )
    try:
        socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
    except OSError as error:
        yield EVENTS.unknown(
            "webhook", f"{host}:{port}: {error}", "Start it, or set [events] webhook_url."
        )
    else:
        yield EVENTS.good("webhook", f"{host}:{port} can be reached")


def _command(program: str) -> Finding:
    if shutil.which(program) is None:
        return EVENTS.bad(
            "command",
            f"{program} is not here, or cannot be run",
            "Set [events] command to a program that every host with a sweep has.",
        )
    return EVENTS.good("command", f"{program} can be run on this host")


def _aws_calls(events: EventSettings) -> Iterator[tuple[str, str, dict[str, Any]]]:
    if events.sqs_queue_url:
        asked = {"QueueUrl": events.sqs_queue_url, "AttributeNames": ["QueueArn"]}
        yield "sqs", "get_queue_attributes", asked
    if events.sns_topic_arn:
        yield "sns", "get_topic_attributes", {"TopicArn": events.sns_topic_arn}
    if events.eventbridge_bus:
        yield "events", "describe_event_bus", {"Name": events.eventbridge_bus}


def _aws(service: str, call: str, arguments: dict[str, Any], region: str) -> Finding:
    name = str(next(iter(arguments.values())))
    try:
        client = aws_client(service, region_of(name, region), 2 * _TIMEOUT_S)
        getattr(client, call)(**arguments)
    except (ClientError, BotoCoreError) as error:
        return EVENTS.warning(service, f"{name}: {error}", _MAY_STILL_SEND)
    return EVENTS.good(service, f"{name} is there")

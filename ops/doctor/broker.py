"""Can wake-ups be published, and does somebody take them?"""

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from labferry.broker import make_app, queue_names
from labferry.broker_address import has_control, scheme_of
from labferry.ledger.server import without_password
from labferry.refusals import RIGHTS, mend_of
from labferry.settings import Settings
from ops.doctor import rights
from ops.doctor.finding import Area, Finding

BROKER = Area("broker")
WORKERS = Area("workers")
#: SQS takes no dots in a queue's name, and no more characters; Celery writes `-` for each dot.
SQS_NAME_MAX = 80
PING_TIMEOUT_S = 2.0


def look_at_broker(settings: Settings) -> Iterator[Finding]:
    """Yield what is right and wrong with the server of [broker] url."""
    if _same_database(settings):
        yield BROKER.bad(
            "database",
            "it is the ledger's own: who flushes the broker would flush the record of every file",
            "Give [broker] url another database or server.",
        )
    if scheme_of(settings.broker.url) == "sqs":
        yield from unfit_for_sqs(queue_names(settings))
    try:
        with closing(make_app(settings).connection_for_write()) as connection:
            connection.ensure_connection(max_retries=1, timeout=5)
            yield BROKER.good("answer", f"{without_password(settings.broker.url)} answers")
            if connection.transport.driver_type == "redis":
                # The stubs know of no transport's own channel.
                client: Any = connection.default_channel.client  # type: ignore[attr-defined]
                yield _eviction(client)
                yield _rights(client, settings)
    except Exception as error:  # noqa: BLE001  each transport of kombu has errors of its own
        seen = f"{without_password(settings.broker.url)}: {type(error).__name__}: {error}"
        if mend := mend_of(error, "[broker] url"):
            yield BROKER.bad("answer", seen, mend)
        else:
            yield BROKER.unknown("answer", seen, "Start it, or set [broker] url.")


def look_at_workers(settings: Settings) -> Iterator[Finding]:
    """Yield whether every queue has somebody who takes from it. A broker away is told already."""
    if not has_control(settings.broker.url):
        yield WORKERS.warning(
            "answer",
            "Celery cannot ask workers anything over this broker: Flower stays empty",
            "Use `labferry status`, or Redis or RabbitMQ as the broker.",
        )
        return
    logging.getLogger("kombu").setLevel(logging.ERROR)
    try:
        asked = make_app(settings).control.inspect(timeout=PING_TIMEOUT_S).active_queues()
    except Exception:  # noqa: BLE001  each transport of kombu has errors of its own
        return
    yield _served(asked or {}, settings)


def _same_database(settings: Settings) -> bool:
    ledger, broker = (_place(url) for url in (settings.ledger.url, settings.broker.url))
    return ledger == broker


def _place(url: str) -> tuple[str, str, str, str]:
    """Return hosts, database and primary; who comes there, and how it is proven, are left out."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    query = dict(parse_qsl(parts.query))
    # Of a socket the path is a file, and kombu has another word for its database than redis-py.
    database = query.get("db") or query.get("virtual_host") or "0"
    return hosts, parts.path.rstrip("/") or "/0", database, query.get("master", "")


def unfit_for_sqs(queues: Sequence[str]) -> Iterator[Finding]:
    """Yield that SQS would take two of these queues for one, or not at all."""
    names = [name.replace(".", "-") for name in queues]
    unfit = [
        queue
        for queue, name in zip(queues, names, strict=True)
        if len(name) > SQS_NAME_MAX or names.count(name) > 1
    ]
    if unfit:
        yield BROKER.bad(
            "queues",
            f"SQS cannot tell these queues apart, or takes no such name: {', '.join(unfit)}",
            "Name instruments so that they differ in more than `.` and `-`, and shorter.",
        )


def _eviction(client: Any) -> Finding:
    policy = str(client.info("memory").get("maxmemory_policy"))
    if policy != "noeviction":
        return BROKER.warning(
            "eviction",
            f"`maxmemory-policy {policy}`: queued messages may vanish, and are sent again later",
            "Set `maxmemory-policy noeviction`.",
        )
    return BROKER.good("eviction", "noeviction")


def _rights(client: Any, settings: Settings) -> Finding:
    database = client.get_connection_kwargs().get("db", 0)
    if refused := rights.refused(client, rights.of_broker(settings, database)):
        return BROKER.bad("rights", rights.sentence(refused), RIGHTS)
    return BROKER.good("rights", "Celery may do all it needs")


def _served(answers: Mapping[str, Iterable[Mapping[str, Any]]], settings: Settings) -> Finding:
    if not answers:
        return WORKERS.warning("answer", "no worker answers", "Start one: labferry worker.")
    served = {queue["name"] for queue in itertools.chain(*answers.values())}
    unserved = [name for name in queue_names(settings) if name not in served]
    if unserved:
        return WORKERS.warning(
            "queues",
            f"nobody takes from {', '.join(unserved)}",
            "Start a worker on a host that can see the instrument's share.",
        )
    return WORKERS.good("queues", f"{len(answers)} answer, and every queue is served")

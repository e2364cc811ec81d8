"""Where do events go: a webhook, a command, SQS, SNS, EventBridge? Celery is in celery_events.

Each delivery ends within its time; whether an unanswered one arrived is said to be unknown.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
)

from labferry.alert_sinks import Command, Webhook, aws_client, region_of
from labferry.errors import NotDelivered
from labferry.s3.translate import retry_after_s
from labferry.settings import Settings

_FIFO = ".fifo"
_BASE64_SECRET = "whsec_"  # noqa: S105  how such a secret begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One event as it is given to a sink; `kind`, `id` and `run` are the event's."""

    kind: str
    id: str
    run: str
    body: bytes
    sent_ms: int

    @property
    def mark(self) -> str:
        """The same letters and digits for the same event, where an id must have no others."""
        return _mark(self.id)


class EventSink(Protocol):
    """Where events go; `is_repeatable` where the same one given twice arrives once."""

    name: str
    is_repeatable: bool

    def deliver(self, parcel: Parcel) -> None:
        """Give one event, within the time set for it. Raises: NotDelivered."""
        ...

    def has(self, parcel: Parcel) -> bool:
        """Whether it is known to have arrived; asked before what is unknown is repeated."""
        ...


class CannotTell:
    """A sink that cannot be asked what arrived."""

    def has(self, _: Parcel) -> bool:
        """Say no: it may have arrived all the same."""
        return False


def open_event_sinks(settings: Settings) -> Iterator[EventSink]:
    """Yield the sinks that the settings name, but for Celery."""
    events, region = settings.events, settings.store.region
    if events.webhook_url:
        secret = events.webhook_secret.get_secret_value()
        asks = events.webhook_asks
        yield SignedWebhook(Webhook(events.webhook_url, events.timeout_s), secret, asks=asks)
    if events.command:
        yield EventCommand(Command(events.command, events.timeout_s))
    if events.sqs_queue_url:
        yield SqsQueue(events.sqs_queue_url, region, events.timeout_s)
    if events.sns_topic_arn:
        yield SnsEvents(events.sns_topic_arn, events.timeout_s)
    if events.eventbridge_bus:
        yield EventBridge(events.eventbridge_bus, region, events.timeout_s)


class SignedWebhook:
    """POSTs an event, signed as https://www.standardwebhooks.com describes it."""

    name = "webhook"
    is_repeatable = False

    def __init__(self, webhook: Webhook, secret: str, *, asks: bool = False) -> None:
        self._webhook = webhook
        self._secret = secret
        self._asks = asks

    def deliver(self, parcel: Parcel) -> None:
        """POST one event. Raises: NotDelivered."""
        self._webhook.deliver(parcel.body, self._headers(parcel, parcel.body))

    def has(self, parcel: Parcel) -> bool:
        """Ask by a GET with the event's `webhook-id`, where the receiver is set to know that."""
        return self._asks and self._webhook.knows(self._headers(parcel, b""))

    def _headers(self, parcel: Parcel, body: bytes) -> dict[str, str]:
        headers = {"webhook-id": parcel.mark, "webhook-timestamp": str(parcel.sent_ms // 1000)}
        if self._secret:
            headers["webhook-signature"] = signature(self._secret, headers, body)
        return headers


def signature(secret: str, headers: dict[str, str], body: bytes) -> str:
    """Return the header `webhook-signature` of a body and its other two headers."""
    key = secret.encode()
    if secret.startswith(_BASE64_SECRET):
        key = base64.b64decode(secret.removeprefix(_BASE64_SECRET))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


class EventCommand(CannotTell):
    """Runs a program with an event's JSON on its standard input; it must exit with 0."""

    name = "command"
    is_repeatable = False

    def __init__(self, command: Command) -> None:
        self._command = command

    def deliver(self, parcel: Parcel) -> None:
        """Run it for one event. Raises: NotDelivered."""
        self._command.deliver(parcel.body)


class _Aws(CannotTell):
    """A service of AWS, with credentials of the AWS chain and one attempt a call."""

    service = name = ""

    def __init__(self, region: str, timeout_s: float) -> None:
        self._region = region
        self._timeout_s = timeout_s

    def deliver(self, parcel: Parcel) -> None:
        """Give one event. Raises: NotDelivered."""
        try:
            self._send(aws_client(self.service, self._region, self._timeout_s), parcel)
        except ClientError as error:
            meta = error.response.get("ResponseMetadata", {})
            raise NotDelivered(
                sink=self.name,
                why=str(error),
                retry_after_s=retry_after_s(meta.get("HTTPHeaders", {})),
            ) from error
        except BotoCoreError as error:
            never = isinstance(error, EndpointConnectionError | ConnectTimeoutError)
            answered = never or not isinstance(error, HTTPClientError)
            raise NotDelivered(sink=self.name, why=str(error), answered=answered) from error

    def _send(self, client: Any, parcel: Parcel) -> None:
        raise NotImplementedError


class SqsQueue(_Aws):
    """Sends an event to an SQS queue; a FIFO queue takes the same one once in five minutes."""

    service = name = "sqs"

    def __init__(self, queue_url: str, region: str, timeout_s: float) -> None:
        super().__init__(region_of(queue_url, region), timeout_s)
        self._queue_url = queue_url
        self.is_repeatable = queue_url.endswith(_FIFO)

    def _send(self, client: Any, parcel: Parcel) -> None:
        client.send_message(
            QueueUrl=self._queue_url,
            MessageBody=parcel.body.decode(),
            MessageAttributes=_attributes(parcel),
            **(_fifo(parcel) if self.is_repeatable else {}),
        )


class SnsEvents(_Aws):
    """Publishes an event to an SNS topic; a FIFO topic takes the same one once in five minutes."""

    service = name = "sns"

    def __init__(self, topic_arn: str, timeout_s: float) -> None:
        super().__init__(region_of(topic_arn, ""), timeout_s)
        self._topic_arn = topic_arn
        self.is_repeatable = topic_arn.endswith(_FIFO)

    def _send(self, client: Any, parcel: Parcel) -> None:
        client.publish(
            TopicArn=self._topic_arn,
            Message=parcel.body.decode(),
            MessageAttributes=_attributes(parcel),
            **(_fifo(parcel) if self.is_repeatable else {}),
        )


class EventBridge(_Aws):
    """Puts an event on an EventBridge bus: source `labferry`, the event's kind as detail type."""

    service, name = "events", "eventbridge"
    is_repeatable = False

    def __init__(self, bus: str, region: str, timeout_s: float) -> None:
        super().__init__(region_of(bus, region), timeout_s)
        self._bus = bus

    def _send(self, client: Any, parcel: Parcel) -> None:
        entry = {
            "Source": "labferry",
            "DetailType": parcel.kind,
            "Detail": parcel.body.decode(),
            "EventBusName": self._bus,
        }
        answer = client.put_events(Entries=[entry])
        if answer.get("FailedEntryCount"):
            refused = answer["Entries"][0]
            why = f"{refused.get('ErrorCode')}: {refused.get('ErrorMessage')}"
            raise NotDelivered(sink=self.name, why=why)


def _attributes(parcel: Parcel) -> dict[str, dict[str, str]]:
    return {"event": {"DataType": "String", "StringValue": parcel.kind}}


def _fifo(parcel: Parcel) -> dict[str, str]:
    """Return what keeps the events of a run in order, and the same one from arriving twice."""
    return {"MessageGroupId": _mark(parcel.run), "MessageDeduplicationId": parcel.mark}


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""What do the settings say of what follows completion: who is told, and what is signed?"""

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from labferry.broker_address import check_transport
from labferry.events import EventKind
from labferry.settings_trouble import Section


class EventSettings(Section):
    """[events] who is told of completed runs; every sweep has to have the same."""

    kinds: tuple[EventKind, ...] = Field(
        (EventKind.COMPLETED, EventKind.GENERATION),
        description="what is told; also run.incomplete, file.dead_lettered",
    )
    celery_task: str | None = Field(
        None, description="name of your Celery task that gets the event"
    )
    celery_queue: str = Field("celery", min_length=1, description="queue of that task")
    celery_broker_url: str | None = Field(
        None, description="your Celery's broker; unset means [broker] url"
    )
    webhook_url: str | None = Field(
        None, pattern="^https?://", description="is sent each event as JSON, by POST"
    )
    webhook_secret: SecretStr = Field(
        SecretStr(""), description="signs what the webhook is sent; only in the environment"
    )
    webhook_asks: bool = Field(
        False, description="it is asked by GET, with its webhook-id, before an unknown is repeated"
    )
    command: tuple[str, ...] = Field((), description="program and arguments; JSON on its input")
    sqs_queue_url: str | None = Field(
        None, pattern="^https?://", description="SQS queue that gets the JSON"
    )
    sns_topic_arn: str | None = Field(
        None, pattern="^arn:[^:]+:sns:[^:]+:[^:]*:.+", description="SNS topic that gets the JSON"
    )
    eventbridge_bus: str | None = Field(
        None, min_length=1, description="EventBridge bus, its name or ARN"
    )
    timeout_s: float = Field(30, gt=0, description="longest time one delivery may take")
    attempts: int = Field(1000, ge=1, description="failed tries before an event is parked")
    elapsed_s: float = Field(259_200, gt=0, description="age before an event is parked")
    on_unknown: Literal["repeat", "park"] = Field(
        "repeat", description="what follows when nobody knows whether an event arrived"
    )

    @field_validator("celery_broker_url")
    @classmethod
    def _reachable(cls, url: str | None) -> str | None:
        if url is not None:
            check_transport(url)
        return url


class StatementSettings(Section):
    """[statements] how a statement that a run may be deleted is signed."""

    key: SecretStr = Field(
        SecretStr(""), description="signs it (HMAC-SHA256); only in the environment"
    )

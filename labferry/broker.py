"""How does labferry use Celery? One app, configured so that a message is a disposable wake-up.

Messages are acknowledged early and never prefetched; leases in the ledger decide who works.
Source of each value: research on Celery 5.7 over Redis, in docs/decisions/0002.
"""

from collections.abc import Sequence
from functools import cached_property

from celery import Celery
from celery.events import EventReceiver
from kombu import Producer, Queue
from kombu.exceptions import (  # type: ignore[attr-defined]  # the stubs are older
    BatchPublishError,
    OperationalError,
)
from redis.exceptions import RedisError

from labferry import messages
from labferry.broker_transport import guard_transports
from labferry.celery_address import celery_address
from labferry.errors import BrokerUnavailable
from labferry.identity import RunKey
from labferry.records import Bundle, Lane
from labferry.settings import Settings

_TRANSPORT = {
    "visibility_timeout": 300,  # of SQS: on Redis nothing is noted as handed out
    "socket_timeout": 5,  # without it a half-open connection hangs for ever
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 5,
    "retry_on_timeout": False,
    "queue_order_strategy": "round_robin",
    "priority_steps": [0],
}

_CONFIG = {
    "result_backend": None,
    "task_ignore_result": True,
    "task_acks_late": False,
    "task_reject_on_worker_lost": False,
    "task_acks_on_failure_or_timeout": True,
    "worker_disable_prefetch": True,
    "worker_prefetch_multiplier": 1,
    "task_time_limit": None,
    "task_soft_time_limit": None,
    "worker_enable_soft_shutdown_on_idle": False,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "worker_pool": "prefork",
    "worker_consumer": "labferry.broker_consumer:Consumer",
    "worker_max_tasks_per_child": 5000,
    "worker_max_memory_per_child": 400_000,  # KiB
    "broker_connection_retry_on_startup": True,
    "broker_connection_retry": True,
    "broker_connection_max_retries": None,
    "broker_connection_timeout": 4,
    "broker_pool_limit": 10,
    "broker_pool_acquire_timeout": 10,
    "task_create_missing_queues": False,
    "task_default_queue": messages.CONTROL_QUEUE,
    "task_serializer": "json",
    "accept_content": ["json"],
    "event_serializer": "json",
    "task_protocol": 2,
    "worker_send_task_events": True,
    "task_send_sent_event": False,
    "task_track_started": False,
    "worker_eta_task_limit": 10,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "timezone": "UTC",
    "enable_utc": True,
}


class _App(Celery):
    """Celery's own, but for the worker, which no producer imports."""

    @cached_property
    def Worker(self) -> type:  # noqa: N802  Celery's name
        return self.subclass_with_self("labferry.broker_worker:Worker")  # type: ignore[arg-type]


def make_app(settings: Settings) -> Celery:
    """Return the Celery app; tasks are registered by workers.app, which no producer imports."""
    address = celery_address(settings.broker.url)
    guard_transports()
    app = _App("labferry", broker=address.url, set_as_current=False)
    app.conf.update(
        _CONFIG,
        broker_transport_options=_TRANSPORT | address.options,
        broker_use_ssl=address.tls,
        task_queues=[Queue(name) for name in queue_names(settings)],
        worker_soft_shutdown_timeout=settings.worker.soft_shutdown_s,
    )
    return app


def workers_are_heard(settings: Settings, within_s: float) -> bool:
    """Whether a Celery worker's event comes in so much time; none does while the broker is away.

    Over a new connection, as kombu's pools belong to the whole process: an old one may be half
    open, and then nobody seems to be there.
    """
    app = make_app(settings)
    try:
        with app.connection_for_read() as connection:
            events = EventReceiver(connection, handlers={"*": _ignore}, app=app)
            events.capture(limit=1, timeout=within_s, wakeup=False)
    except (OperationalError, RedisError, OSError):  # a timeout, too
        return False
    return True


def _ignore(_event: object) -> None:
    pass


def queue_names(settings: Settings, *lanes: Lane) -> list[str]:
    """Return the queues of these lanes (all without any), and the control queue with small ones."""
    chosen = lanes or tuple(Lane)
    names = [messages.upload_queue(name, lane) for name in settings.instruments for lane in chosen]
    return [*names, messages.CONTROL_QUEUE] if Lane.SMALL in chosen else names


class CeleryWakeups:
    """The Wakeups port. Raises BrokerUnavailable; what was not published, the sweep sends again."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def upload(self, bundles: Sequence[Bundle]) -> None:
        """Publish one message a bundle."""
        if not bundles:
            return
        try:
            pool = self._app.producer_pool
            with (
                pool.acquire(block=True, timeout=10) as producer,
                producer.batch(),  # type: ignore[attr-defined]  # the stubs are older
            ):
                for bundle in bundles:
                    self._send(bundle, producer)
        except (OperationalError, BatchPublishError, RedisError, OSError) as error:
            raise BrokerUnavailable(why=f"{type(error).__name__}: {error}") from error

    def _send(self, bundle: Bundle, producer: Producer) -> None:
        message = messages.UploadMessage(run=bundle.run, bundle=bundle.number, paths=bundle.paths)
        self._app.send_task(
            messages.UPLOAD,
            args=[message.to_payload()],
            task_id=messages.task_id(bundle),
            queue=messages.upload_queue(bundle.run.instrument, bundle.lane),
            argsrepr=messages.describe(bundle),
            kwargsrepr="",
            shadow=f"upload {bundle.run.instrument}",
            retries=bundle.attempt,
            producer=producer,
            retry=False,
        )

    def complete(self, run: RunKey) -> None:
        """Publish the wake-up to complete a run."""
        self._control(messages.COMPLETE, run)

    def reasons(self, run: RunKey) -> None:
        """Publish the wake-up to tell the bucket of a run's dead letters."""
        self._control(messages.REASONS, run)

    def put_away(self, run: RunKey) -> None:
        """Publish the wake-up to put a complete run's records away."""
        self._control(messages.PUT_AWAY, run)

    def take_back(self, run: RunKey) -> None:
        """Publish the wake-up to take a run's records back."""
        self._control(messages.TAKE_BACK, run)

    def _control(self, task: str, run: RunKey) -> None:
        try:
            self._app.send_task(
                task,
                args=[messages.run_payload(run)],
                queue=messages.CONTROL_QUEUE,
                argsrepr=str(run),
                kwargsrepr="",
                shadow=f"{task.rpartition('.')[2]} {run.instrument}",
                retry=False,
            )
        except (OperationalError, RedisError, OSError) as error:
            raise BrokerUnavailable(why=f"{type(error).__name__}: {error}") from error

"""How do events reach a Celery task of the user's own, and a consumer that takes its place?"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from celery import Celery
from kombu import Connection, Consumer, Queue
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from labferry.broker_address import scheme_of
from labferry.celery_address import CeleryAddress, celery_address
from labferry.errors import BrokerUnavailable, NotDelivered
from labferry.event_sinks import Parcel
from labferry.settings import Settings

#: Messages of a queue that are looked at for one.
_LOOKED_AT = 10_000
#: Errors of a broker, whichever it is.
_FAULTS = (OperationalError, RedisError, OSError)
#: kombu's own, which note a message until it is acknowledged; `guard_transports`, in a process that
#: also publishes wake-ups, puts others in their places.
_KEEPING = {
    "redis": "kombu.transport.redis:Transport",
    "rediss": "kombu.transport.redis:Transport",
    "sentinel": "kombu.transport.redis:SentinelTransport",
}
#: A broker that does not answer is not waited for any longer.
_TRANSPORT: dict[str, object] = {
    "socket_timeout": 10,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
}


class CeleryTask:
    """Publishes an event as the one argument of a task; its id names the event."""

    name = "celery"
    is_repeatable = False

    def __init__(self, settings: Settings) -> None:
        self._task = str(settings.events.celery_task)
        self._queue = settings.events.celery_queue
        address = events_broker(settings)
        self._app = Celery("labferry-events", broker=address.url, set_as_current=False)
        self._app.conf.update(
            task_serializer="json",
            task_ignore_result=True,
            result_backend=None,
            broker_connection_timeout=4,
            broker_transport_options=address.options,
            broker_use_ssl=address.tls,
        )

    def deliver(self, parcel: Parcel) -> None:
        """Publish one event. Raises: NotDelivered."""
        try:
            with self._app.producer_pool.acquire(block=True, timeout=10) as producer:
                self._reach(producer.connection)
                self._publish(producer, parcel)
        except _FAULTS as error:
            why = f"{type(error).__name__}: {error}"
            raise NotDelivered(sink=self.name, why=why, answered=False) from error

    def has(self, parcel: Parcel) -> bool:
        """Whether its message still lies in the queue; only a Redis broker shows that."""
        try:
            with self._app.connection_for_write() as connection:
                if connection.transport.driver_type != "redis":
                    return False
                client: Any = connection.default_channel  # the stubs know of no channel's own
                lying = client.client.lrange(self._queue, 0, _LOOKED_AT - 1)
        except _FAULTS:
            return False
        return any(parcel.mark.encode() in message for message in lying)

    def _reach(self, connection: Any) -> None:
        """Connect before anything is sent: what fails here was not delivered for certain."""
        try:
            connection.ensure_connection(max_retries=1, interval_start=0.1)
        except _FAULTS as error:
            why = f"{type(error).__name__}: {error}"
            raise NotDelivered(sink=self.name, why=why) from error

    def _publish(self, producer: Any, parcel: Parcel) -> None:
        self._app.send_task(
            self._task,
            args=[json.loads(parcel.body)],
            task_id=parcel.mark,
            queue=self._queue,
            argsrepr=parcel.id,
            kwargsrepr="",
            producer=producer,
            retry=False,
        )


#: Takes the event of a message; once it returns, the message is acknowledged.
Take = Callable[[object], None]


class CeleryQueue:
    """Takes the events of a queue in the place of a Celery worker."""

    def __init__(self, settings: Settings, *, wait_s: float = 1.0) -> None:
        """`wait_s` is how long one look waits for a message."""
        self._address = events_broker(settings)
        self._queue = settings.events.celery_queue
        self._wait_s = wait_s
        self._connection: Connection | None = None
        self._take: Take = _refuse
        self._came = False

    def look(self, take: Take) -> bool:
        """Hand on what is there or comes soon; return whether anything was.

        What `take` raises leaves the message where it was. Raises: BrokerUnavailable.
        """
        self._take, self._came = take, False
        try:
            self._open().drain_events(timeout=self._wait_s)
        except TimeoutError:
            return self._came
        except _FAULTS as error:
            self.close()
            raise BrokerUnavailable(why=f"{type(error).__name__}: {error}") from error
        return self._came

    def _open(self) -> Connection:
        if self._connection is None:
            connection = open_connection(self._address)
            connection.ensure_connection(max_retries=1)
            Consumer(
                connection,
                queues=[Queue(self._queue)],
                callbacks=[self._on_message],
                accept=["json"],
                prefetch_count=1,
            ).consume()
            self._connection = connection
        return self._connection

    def _on_message(self, body: object, message: Any) -> None:
        self._came = True
        self._take(_argument(body))
        message.ack()

    def close(self) -> None:
        """Let go of the broker; what was not acknowledged comes again."""
        if self._connection is not None:
            self._connection.release()
            self._connection = None


def _refuse(_: object) -> None:
    raise BrokerUnavailable(why="a message came before anybody asked for it")


def _argument(body: object) -> object:
    """Return the one argument of a task's message, or the whole body where it is none."""
    if isinstance(body, list) and body and isinstance(body[0], list) and body[0]:
        return body[0][0]
    return body


def events_broker(settings: Settings) -> CeleryAddress:
    """Return the broker that events go to."""
    address = celery_address(settings.events.celery_broker_url or settings.broker.url)
    if address.url.startswith(("amqp", "pyamqp")):
        return replace(address, options={"confirm_publish": True})
    return replace(address, options=_TRANSPORT | address.options)


def open_connection(address: CeleryAddress) -> Connection:
    """Return a connection, which nothing was sent over yet."""
    return Connection(
        address.url,
        transport=_KEEPING.get(scheme_of(address.url)),
        ssl=address.tls or False,
        transport_options=address.options,
    )

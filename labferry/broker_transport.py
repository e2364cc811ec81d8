"""How does a worker take messages from Redis, so that little is done for each and work goes on?

A message is handed out for good: the ledger knows what was to be done, and the sweep asks for it
again. Were it noted until it is acknowledged, as kombu 5.7 does, that would be two more round trips
each, and an answer of Redis that is lost would keep one place from the worker until it ends. What
is no message at all ends a worker of Celery 5.7, and what others write into the broker's database
could end one after the other: it is told and dropped.
"""

import logging
import traceback
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as kombu_redis

from labferry.telemetry import emit

#: What kombu raises over JSON, base64 and fields that are not those of a message.
_NO_MESSAGE = (ValueError, TypeError, KeyError, RecursionError)


class _Guarded:
    """A channel that outlives what is no message, hands it out for good, and keeps its client."""

    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        """Return the channel's client, or a new one for what is waited for.

        kombu makes one for each publish and each acknowledgement, which takes longer than to send
        either. Safe in threads, as its pool is.
        """
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[misc]  # as below
        pool = self.pool  # type: ignore[attr-defined]  # another one once connections were lost
        if self._kept is None or self._kept.connection_pool is not pool:
            self._kept = super()._create_client()  # type: ignore[misc]
        return self._kept

    def basic_consume(self, queue: str, *args: Any, **options: Any) -> Any:
        """Let messages of a queue come; none is noted as handed out."""
        options["no_ack"] = True
        return super().basic_consume(queue, *args, **options)  # type: ignore[misc]

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Acknowledge a message; there is nothing to do for one that came by `basic_consume`."""

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Drop a message; what it asks for, the sweep asks for again.

        But for one that came after its queue was left: kombu notes it, to give it back at once.
        """
        if delivery_tag in self.qos._delivered:  # type: ignore[attr-defined]  # as below
            super().basic_reject(delivery_tag, requeue=requeue)  # type: ignore[misc]

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # of the channel beside it
        except _NO_MESSAGE as error:
            emit(
                "message.unreadable",
                level=logging.ERROR,
                why=f"{type(error).__name__}: {error}"[:500],
                where="".join(traceback.format_tb(error.__traceback__)[-3:]),
            )
            raise Empty from error


class Channel(_Guarded, kombu_redis.Channel):
    """Of one server."""


class Transport(kombu_redis.Transport):
    """Of one server."""

    Channel = Channel


class SentinelChannel(_Guarded, kombu_redis.SentinelChannel):
    """Of the server that sentinels name."""


class SentinelTransport(kombu_redis.SentinelTransport):
    """Of the server that sentinels name."""

    Channel = SentinelChannel


def guard_transports() -> None:
    """Let kombu use these for Redis, and ours for SQS, from now on. May be called twice."""
    own = {"redis": Transport, "rediss": Transport, "sentinel": SentinelTransport}
    for scheme, transport in own.items():
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{transport.__name__}"
    TRANSPORT_ALIASES["sqs"] = "labferry.broker_sqs:Transport"  # imports what SQS alone needs

"""Which alerts are on record, and what of them was delivered where?"""

from typing import Any

from labferry.alerts import Alert, Undelivered
from labferry.ledger.keys import (
    ALERT_COUNTS,
    ALERT_FAULTS,
    ALERT_LOG,
    ALERT_SINKS,
    ALERTS,
    alerts_due,
)
from labferry.ledger.section import Section
from labferry.ledger.server import Key, to_ms


class AlertRecords(Section):
    """The part of the ledger that keeps alerts, each with a list of its own for every sink."""

    def alert(self, key: str, text: str, count: int = 1) -> bool:
        """Record an alert, once a key."""
        keys: list[Key] = [ALERTS, ALERT_COUNTS, ALERT_LOG]
        return bool(self._server.script("alert", keys, [key, text, count]))

    def alerts(self) -> list[Alert]:
        """Return all alerts on record, oldest first."""
        return self._read(self._server.ask(self._server.client.lrange, ALERT_LOG, 0, -1))

    def enlist(self, sink: str, *, gather_ms: int, new_ms: int) -> None:
        """Put the alerts that a sink was not given yet among its due ones."""
        keys: list[Key] = [ALERT_LOG, ALERT_SINKS, ALERTS, alerts_due(sink)]
        self._server.script("enlist", keys, [sink, gather_ms, new_ms])

    def due_alerts(self, sink: str, limit: int) -> list[Alert]:
        """Return what is to be delivered to a sink now."""
        ask, client = self._server.ask, self._server.client
        now_ms = to_ms(ask(client.time))
        key = alerts_due(sink)
        return self._read(ask(client.zrangebyscore, key, "-inf", now_ms, start=0, num=limit))

    def delivered(self, sink: str, key: str) -> None:
        """Take an alert off what is to be delivered to a sink."""

        def fill(pipe: Any) -> None:
            pipe.zrem(alerts_due(sink), key)
            pipe.hdel(ALERT_FAULTS, sink)

        self._server.pipeline(fill)

    def not_delivered(self, sink: str, key: str, *, why: str, again_ms: int) -> None:
        """Put off the delivery of an alert to a sink, and record why."""
        now_ms = to_ms(self._server.ask(self._server.client.time))

        def fill(pipe: Any) -> None:
            pipe.hset(ALERT_FAULTS, sink, why)
            pipe.zadd(alerts_due(sink), {key: now_ms + again_ms}, xx=True)

        self._server.pipeline(fill)

    def undelivered(self) -> list[Undelivered]:
        """Return the sinks that alerts wait for."""
        ask, client = self._server.ask, self._server.client
        sinks = sorted(sink.decode() for sink in ask(client.hkeys, ALERT_SINKS))
        faults = ask(client.hgetall, ALERT_FAULTS)

        def fill(pipe: Any) -> None:
            for sink in sinks:
                pipe.zcard(alerts_due(sink))

        waiting = self._server.pipeline(fill) if sinks else []
        return [
            Undelivered(sink=sink, waiting=count, why=faults.get(sink.encode(), b"").decode())
            for sink, count in zip(sinks, waiting, strict=True)
            if count
        ]

    def _read(self, keys: list[bytes]) -> list[Alert]:
        if not keys:
            return []
        ask, client = self._server.ask, self._server.client
        values, counts = ask(client.hmget, ALERTS, keys), ask(client.hmget, ALERT_COUNTS, keys)
        found = []
        for key, value, count in zip(keys, values, counts, strict=True):
            at_ms, _, text = (value or b"0 ").partition(b" ")
            found.append(
                Alert(key=key.decode(), text=text.decode(), at_ms=int(at_ms), count=int(count or 0))
            )
        return found

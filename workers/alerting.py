"""How does each alert reach each sink, at least once, whatever else is down?

Every sink has rounds of its own: one that hangs or fails keeps neither the others nor the sweep
from their work. What was not delivered waits in the ledger.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial

from labferry.alert_sinks import open_sinks
from labferry.alerts import Alert, payload, wait_ms
from labferry.clock import SystemClock
from labferry.condition_port import AlertSink
from labferry.errors import NotDelivered
from labferry.ports import Clock, Ledger
from labferry.settings import Settings
from labferry.settings_trouble import AlertSettings
from labferry.telemetry import emit
from workers.rounds import Rounds, keep_s

#: Alerts of one round.
_ROUND = 20
#: A sink that is new to the ledger is not told of what is older.
_NEW_MS = 24 * 3_600_000


class Courier:
    """Delivers to one sink."""

    def __init__(
        self, ledger: Ledger, sink: AlertSink, clock: Clock, settings: AlertSettings
    ) -> None:
        self._ledger = ledger
        self._sink = sink
        self._clock = clock
        self._gather_ms = int(settings.gather_s * 1000)
        self._round_s = settings.timeout_s
        self._failed = 0
        self._rests_until_s = float("-inf")

    def round(self) -> None:
        """Deliver what is due; after a failure the sink rests, longer and longer.

        Raises: LedgerUnavailable.
        """
        name, began_s = self._sink.name, self._clock.mono_s()
        self._ledger.enlist(name, gather_ms=self._gather_ms, new_ms=_NEW_MS)
        if began_s < self._rests_until_s:
            return
        for alert in self._ledger.due_alerts(name, _ROUND):
            if not self._deliver(alert) or self._clock.mono_s() - began_s > self._round_s:
                return

    def _deliver(self, alert: Alert) -> bool:
        name = self._sink.name
        try:
            self._sink.deliver(payload(alert))
        except NotDelivered as error:
            self._failed += 1
            again_ms = wait_ms(self._failed)
            self._rests_until_s = self._clock.mono_s() + again_ms / 1000
            self._ledger.not_delivered(name, alert.key, why=str(error), again_ms=again_ms)
            emit("alert.undelivered", level=logging.WARNING, alert=alert.key, error=str(error))
            return False
        self._failed = 0
        self._ledger.delivered(name, alert.key)
        emit("alert.delivered", alert=alert.key, sink=name)
        return True


def alert_rounds(settings: Settings) -> Iterator[Rounds]:
    """Yield what is to be done again and again for each sink of the settings."""
    for sink in open_sinks(settings.alerts):
        yield Rounds(
            name=f"alerts:{sink.name}",
            make=partial(_courier, sink, settings.alerts),
            keep_s=keep_s(settings.alerts.timeout_s),
        )


def _courier(sink: AlertSink, settings: AlertSettings, ledger: Ledger) -> Callable[[], None]:
    return Courier(ledger, sink, SystemClock(), settings).round

"""What follows from a message: a run's next step, and more messages for its instrument?"""

import logging
from collections.abc import Sequence

from labferry.errors import BrokerUnavailable
from labferry.feed import top_up
from labferry.identity import RunKey
from labferry.ports import Clock, Ledger
from labferry.records import RunFacts
from labferry.settings import Settings
from labferry.telemetry import emit
from labferry.wakeup_port import Wakeups
from workers.advance import advance

#: A worker that died while it topped up stops others for no longer than this.
FEED_LOCK_S = 5.0
#: So many messages are not done in so short a time, by however many workers: one ledger carries
#: some thousand a second. If they were, the sweep would take the step.
_MANY, _MOMENT_S = 100, 0.05


class Afterwards:
    """What one process does once the files of a message are at rest."""

    def __init__(self, ledger: Ledger, wakeups: Wakeups, clock: Clock, settings: Settings) -> None:
        self._ledger = ledger
        self._wakeups = wakeups
        self._clock = clock
        self._settings = settings
        self._half = settings.broker.window_messages / 2

    def take(self, run: RunKey, sent: int, seen_s: float) -> None:
        """Take a run's next step and fill the window, where either may be due.

        `sent` messages of the run were not claimed yet at `seen_s`. Raises: LedgerUnavailable.
        """
        is_news = self._clock.mono_s() - seen_s < _MOMENT_S
        if is_news and sent >= max(self._half, _MANY):
            return  # it neither ends nor needs messages
        facts = self._ledger.find_facts(run)
        if facts is None:
            return
        try:
            advance(facts, self._ledger, self._wakeups, self._settings)
            # A cap is free again with each file that ends, for any run of the instrument.
            is_capped = self._settings.cap(run.instrument) is not None
            if is_capped or (any(facts.ready.values()) and facts.sent < self._half):
                self._top_up(run.instrument)
        except BrokerUnavailable as error:
            emit("worker.broker_unavailable", level=logging.WARNING, error=str(error))

    def _top_up(self, instrument: str) -> None:
        """Refill the instrument's window; one worker at a time, or it would be overfilled."""
        lock = self._ledger.leadership(f"feed:{instrument}", keep_s=FEED_LOCK_S)
        if not lock.keep():
            return
        try:
            top_up(self._ledger, self._wakeups, self._runs_of(instrument), self._settings)
        finally:
            lock.release()

    def _runs_of(self, instrument: str) -> Sequence[RunFacts]:
        runs = [run for run in self._ledger.active_runs() if run.instrument == instrument]
        return self._ledger.facts_of(runs)

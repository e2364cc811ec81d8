"""Which dead letters wait for a person for too long? Said again in each period until none does."""

from datetime import UTC, datetime

from labferry.alerts import reminder_key, reminder_text
from labferry.identity import RunKey
from labferry.ports import Clock, Ledger
from labferry.states import State

#: Looks per period: so late a reminder is at most.
_LOOKS = 10
_LONGEST_PAUSE_S = 600.0


class Reminders:
    """Looks over all runs, now and then."""

    def __init__(self, ledger: Ledger, clock: Clock, remind_s: float) -> None:
        self._ledger = ledger
        self._clock = clock
        self._period_ms = int(remind_s * 1000)
        self._pause_s = min(remind_s / _LOOKS, _LONGEST_PAUSE_S)
        self._next_s = clock.mono_s()

    def tend(self) -> None:
        """Look if it is time to. Raises: LedgerUnavailable."""
        if self._clock.mono_s() < self._next_s:
            return
        self._next_s = self._clock.mono_s() + self._pause_s
        for facts in self._ledger.facts_of(self._ledger.runs()):
            if dead := facts.counts[State.QUARANTINED]:
                self._remind(facts.run, dead, facts.now_ms)

    def _remind(self, run: RunKey, count: int, now_ms: int) -> None:
        oldest_ms = min((one.since_ms for one in self._ledger.dead_files(run)), default=now_ms)
        periods = (now_ms - oldest_ms) // self._period_ms
        if periods:
            since = datetime.fromtimestamp(oldest_ms / 1000, UTC).isoformat(" ", "minutes")
            key = reminder_key(run, oldest_ms, periods)
            self._ledger.alert(key, reminder_text(run, count, since), 0)

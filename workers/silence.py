"""Which instrument's share does nobody see, so that a person is to hear of it? Once a silence.

An instrument that is switched off and one that nobody looks at are equally quiet; the agents' own
words, and their silence, tell them apart.
"""

from collections.abc import Iterable

from labferry.alerts import away_key, away_text, unwatched_key, unwatched_text
from labferry.passes import SILENT_S, Watch, watch_of
from labferry.ports import Clock, Ledger

#: Between two looks at what agents told.
_PAUSE_S = 30.0


class Silence:
    """Looks, now and then, whether agents look."""

    def __init__(self, ledger: Ledger, clock: Clock, instruments: Iterable[str]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._instruments = frozenset(instruments)
        self._next_s = clock.mono_s()

    def tend(self) -> None:
        """Look if it is time to. Raises: LedgerUnavailable."""
        if self._clock.mono_s() < self._next_s:
            return
        self._next_s = self._clock.mono_s() + _PAUSE_S
        now_ms, passes = self._ledger.now_ms(), self._ledger.passes()
        for instrument in sorted(self._instruments):
            watch, said = watch_of(passes, instrument, now_ms)
            if said is None:
                continue
            if watch is Watch.UNWATCHED:
                self._ledger.alert(unwatched_key(said), unwatched_text(said), 0)
            # A mount that is back soon is not worth a word.
            if watch is Watch.AWAY and now_ms - said.away_ms > SILENT_S * 1000:
                self._ledger.alert(away_key(said), away_text(said), 0)

"""Counters in memory; a part of MemoryLedger."""

from collections import Counter
from collections.abc import Mapping, Sequence

from labferry.tallies import BEYOND, BOUNDS_S, MOVES, Tallies, Tally, What


class MemoryTallies:
    """The counters of the TallyLedger port in memory."""

    clock_ms: int

    def __init__(self) -> None:
        super().__init__()
        self._tallies: Counter[Tally] = Counter()
        self._moved: dict[str, int] = {}

    def tally(self, counts: Mapping[Tally, int], arrivals: Mapping[str, Sequence[int]]) -> None:
        self._tallies.update(counts)
        found = [(name, since_ms) for name, times in arrivals.items() for since_ms in times]
        for instrument, since_ms in found:
            waited = max(self.clock_ms - since_ms, 0)
            bound = next((one for one in BOUNDS_S if waited <= one * 1000), BEYOND)
            self._tallies[Tally(instrument, What.WAIT, code=str(bound))] += 1
            self._tallies[Tally(instrument, What.WAITED_MS)] += waited
        for tally in counts:
            if tally.what in MOVES:
                self._moved[tally.instrument] = self.clock_ms

    def tallies(self) -> Tallies:
        return Tallies(counts=dict(self._tallies), moved_ms=dict(self._moved))

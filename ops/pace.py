"""How fast does a run go, and when will it be done? Observations in, rate and time out."""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.states import State

#: A rate is taken over this long, so that it neither jumps nor lags.
WINDOW_S = 10.0
#: States whose files are not part of the work.
_LEFT_OUT = (State.SKIPPED, State.DISCARDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far a run is. `eta_s` is None while nothing moves."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    bytes_per_s: float
    files_per_s: float
    eta_s: float | None

    @property
    def share(self) -> float:
        """Return how much is done, from 0 to 1; bytes and files count alike."""
        shares = [
            done / total
            for done, total in (
                (self.files_done, self.files_total),
                (self.bytes_done, self.bytes_total),
            )
            if total
        ]
        return sum(shares) / len(shares) if shares else 0.0


class Pacer:
    """Keeps what was observed of one run."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()

    def observe(self, facts: RunFacts, under_way: int, now_s: float) -> Pace:
        """Take in the run's counts at a moment of a clock that only grows.

        `under_way` are bytes acknowledged of files that are not verified yet.
        """
        files, size = facts.counts[State.VERIFIED], facts.sizes[State.VERIFIED] + under_way
        self._seen.append((now_s, files, size))
        while now_s - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        then_s, files_then, size_then = self._seen[0]
        elapsed_s = now_s - then_s
        files_per_s = (files - files_then) / elapsed_s if elapsed_s else 0.0
        bytes_per_s = (size - size_then) / elapsed_s if elapsed_s else 0.0
        files_total = sum(n for state, n in facts.counts.items() if state not in _LEFT_OUT)
        bytes_total = sum(n for state, n in facts.sizes.items() if state not in _LEFT_OUT)
        return Pace(
            files_done=files,
            files_total=files_total,
            bytes_done=size,
            bytes_total=bytes_total,
            bytes_per_s=bytes_per_s,
            files_per_s=files_per_s,
            eta_s=_eta_s((files_total - files, files_per_s), (bytes_total - size, bytes_per_s)),
        )


class Pacers:
    """Keeps what was observed of many runs."""

    def __init__(self) -> None:
        self._pacers: defaultdict[RunKey, Pacer] = defaultdict(Pacer)

    def observe(
        self, ledger: Ledger, runs: Iterable[RunFacts], now_s: float
    ) -> list[tuple[RunFacts, Pace]]:
        """Return each run with its pace."""
        paces = []
        for facts in runs:
            working = facts.counts[State.UPLOADING]
            under_way = ledger.bytes_under_way(facts.run) if working else 0
            paces.append((facts, self._pacers[facts.run].observe(facts, under_way, now_s)))
        return paces


def _eta_s(*ways: tuple[int, float]) -> float | None:
    """Return the longest of what is left, each at its own rate; None when one does not move."""
    left = [(remaining, rate) for remaining, rate in ways if remaining]
    if any(rate <= 0 for _, rate in left):
        return None
    return max((remaining / rate for remaining, rate in left), default=0.0)

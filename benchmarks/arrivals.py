"""How long does a file take that comes now, until it is verified, on a site with one to watch?

A file's time runs from when it is there (a rename, or its own write), or from when the ledger dates
it settled, until the ledger dates it verified. The settle window is 0 and the root is scanned every
0.5 s: what waits on purpose is left out. Runs stay open. All else is the default.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks.loads import KIB, make_files
from benchmarks.waiting import await_facts
from labferry.identity import RunKey
from labferry.ledger import RedisLedger
from labferry.states import State

SIZE = 4 * KIB
FIELDS = {"quiet_s": 3600, "settle_window_s": 0, "scan_interval_s": 0.5}


@dataclass(frozen=True, slots=True)
class Times:
    """What one file took, in seconds."""

    since_there_s: float
    since_settled_s: float


class Arrivals:
    """Lets runs come to one instrument."""

    def __init__(self, instrument: str, ledger: RedisLedger, root: Path, scratch: Path) -> None:
        self._instrument, self._ledger = instrument, ledger
        self._root, self._scratch = root, scratch

    def together(self, run: str, count: int) -> list[Times]:
        """Let a run of files appear at once; return how long each took."""
        make_files(self._scratch / run, (SIZE,) * count)
        at_ms = time.time() * 1000
        (self._scratch / run).rename(self._root / run)
        return self._times(run, {}, at_ms, count)

    def in_turn(self, run: str, count: int, spacing_s: float) -> list[Times]:
        """Write files one by one; return how long each took."""
        folder, at_ms = self._root / run, dict[str, float]()
        folder.mkdir()
        for number in range(count):
            name = f"{number:04}.dat"
            (folder / name).write_bytes(bytes(SIZE))
            at_ms[name] = time.time() * 1000
            time.sleep(spacing_s)
        return self._times(run, at_ms, 0, count)

    def _times(self, run: str, at_ms: dict[str, float], default_ms: float, n: int) -> list[Times]:
        key = RunKey(self._instrument, run)
        await_facts(self._ledger, key, "all verified", lambda it: it.counts[State.VERIFIED] == n)
        return [
            Times(
                (record.verified_ms - at_ms.get(path, default_ms)) / 1000,
                (record.verified_ms - record.settled_ms) / 1000,
            )
            for path, record in dict(self._ledger.records(key)).items()
        ]


def p50_p99(values: list[float]) -> tuple[float, float]:
    """Return the median, and what one in a hundred is above."""
    return median(values), quantiles(values, n=100, method="inclusive")[98]

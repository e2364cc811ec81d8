"""Limits in memory; a part of MemoryLedger."""

import math
import threading
from collections.abc import Callable, Mapping

from labferry.audit import Act
from labferry.identity import RunKey
from labferry.limits import AHEAD_MOST_MS, Limit


class MemoryLimits:
    """The LimitLedger port in memory; every call is made under the ledger's lock."""

    lock: threading.RLock
    clock_ms: int
    record_act: Callable[[RunKey | None, Act], None]

    def __init__(self) -> None:
        self._limits: dict[str, Limit] = {}
        self._reserved: dict[str, tuple[float, int]] = {}
        super().__init__()

    def limits(self) -> dict[str, Limit]:
        with self.lock:
            return dict(sorted(self._limits.items()))

    def set_limit(self, name: str, limit: Limit | None, act: Act) -> None:
        with self.lock:
            self._limits.pop(name, None)
            if limit is not None:
                self._limits[name] = limit
            self.record_act(None, act)

    def reserve(self, rates: Mapping[str, int], size: int) -> float:
        with self.lock:
            wait_ms = 0.0
            for name, bytes_per_s in rates.items():
                ends_ms, rate = self._reserved.get(name, (0.0, bytes_per_s))
                takes_ms = size * 1000 / bytes_per_s
                ahead_ms = max(ends_ms - self.clock_ms, 0) / max(bytes_per_s / rate, 1)
                if ahead_ms > max(AHEAD_MOST_MS, 100 * takes_ms):
                    ahead_ms = 0
                self._reserved[name] = self.clock_ms + ahead_ms + takes_ms, bytes_per_s
                wait_ms = max(wait_ms, ahead_ms)
            return math.ceil(wait_ms) / 1000

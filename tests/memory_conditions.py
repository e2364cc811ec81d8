"""Breakers, paces and alerts in memory; a part of MemoryLedger."""

import threading
from collections import Counter
from dataclasses import replace
from typing import TypeVar

from labferry.alerts import Alert, Undelivered
from labferry.breakers import Breaker, Conditions
from labferry.throttle import Pace

Condition = TypeVar("Condition", Breaker, Pace)


class MemoryConditions:
    """The ConditionLedger port in memory; every call is made under the ledger's lock."""

    clock_ms: int
    lock: threading.RLock

    def __init__(self) -> None:
        super().__init__()
        self._breakers: dict[str, Breaker] = {}
        self._paces: dict[str, Pace] = {}
        self._alerts: dict[str, Alert] = {}
        self._counts = Counter[str]()
        self._given: dict[str, int] = {}
        self._due: dict[str, dict[str, int]] = {}
        self._faults: dict[str, str] = {}

    def conditions(self) -> Conditions:
        return Conditions(
            now_ms=self.clock_ms,
            breakers=tuple(one for _, one in sorted(self._breakers.items())),
            paces=tuple(one for _, one in sorted(self._paces.items())),
        )

    def swap_breaker(
        self, seen: Breaker | None, new: Breaker | None, alert: tuple[str, str] | None = None
    ) -> bool:
        with self.lock:
            done = _swap(self._breakers, seen, new)
            if done and alert is not None:
                self.alert(*alert, count=0)
        return done

    def swap_pace(self, seen: Pace | None, new: Pace | None) -> bool:
        with self.lock:
            return _swap(self._paces, seen, new)

    def alert(self, key: str, text: str, count: int = 1) -> bool:
        self._counts[key] += count
        is_new = key not in self._alerts
        self._alerts.setdefault(key, Alert(key=key, text=text, at_ms=self.clock_ms))
        return is_new

    def alerts(self) -> list[Alert]:
        return [replace(one, count=self._counts[one.key]) for one in self._alerts.values()]

    def enlist(self, sink: str, *, gather_ms: int, new_ms: int) -> None:
        due = self._due.setdefault(sink, {})
        for one in list(self._alerts.values())[self._given.get(sink, 0) :]:
            if sink in self._given or self.clock_ms - one.at_ms <= new_ms:
                due[one.key] = one.at_ms + gather_ms
        self._given[sink] = len(self._alerts)

    def due_alerts(self, sink: str, limit: int) -> list[Alert]:
        due = self._due.get(sink, {})
        keys = sorted((at, key) for key, at in due.items() if at <= self.clock_ms)[:limit]
        return [replace(self._alerts[key], count=self._counts[key]) for _, key in keys]

    def delivered(self, sink: str, key: str) -> None:
        self._due.get(sink, {}).pop(key, None)
        self._faults.pop(sink, None)

    def not_delivered(self, sink: str, key: str, *, why: str, again_ms: int) -> None:
        self._faults[sink] = why
        if key in self._due.get(sink, {}):
            self._due[sink][key] = self.clock_ms + again_ms

    def undelivered(self) -> list[Undelivered]:
        return [
            Undelivered(sink=sink, waiting=len(due), why=self._faults.get(sink, ""))
            for sink, due in sorted(self._due.items())
            if due
        ]


def _swap(known: dict[str, Condition], seen: Condition | None, new: Condition | None) -> bool:
    one = new or seen
    if one is None:
        return True
    before = known.get(one.name)
    if (before.revision if before else 0) != (seen.revision if seen else 0):
        return False
    if new is None:
        known.pop(one.name, None)
    else:
        known[new.name] = replace(new, revision=(seen.revision if seen else 0) + 1)
    return True

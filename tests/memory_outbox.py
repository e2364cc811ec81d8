"""Events and their deliveries in memory; a part of MemoryLedger."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labferry.identity import RunKey
from labferry.outbox import Delivery, Waiting

LONGEST_CALL_MS = 60_000


class MemoryOutbox:
    """The OutboxLedger port in memory."""

    clock_ms: int
    lock: threading.RLock
    data: Any

    def __init__(self) -> None:
        super().__init__()
        self.outboxes: defaultdict[RunKey, list[str]] = defaultdict(list)
        self._open_outboxes: dict[RunKey, int] = {}
        self._sinks: dict[str, int] = {}
        self._places: defaultdict[RunKey, dict[str, Delivery]] = defaultdict(dict)

    def tell(self, run: RunKey, events: Sequence[str]) -> None:
        with self.lock:
            if events:
                self.outboxes[run] += events
                self._open_outboxes[run] = self.clock_ms

    def told(self, run: RunKey) -> list[str]:
        return list(self.outboxes[run])

    def open_outboxes(self) -> list[tuple[RunKey, int]]:
        return sorted(self._open_outboxes.items(), key=lambda one: (one[1], str(one[0])))

    def close_outbox(self, run: RunKey) -> None:
        with self.lock:
            if self.clock_ms - self._open_outboxes.get(run, self.clock_ms) >= LONGEST_CALL_MS:
                del self._open_outboxes[run]

    def sink_since(self, sink: str) -> int:
        return self._sinks.setdefault(sink, self.clock_ms)

    def event_sinks(self) -> list[str]:
        return sorted(self._sinks)

    def waiting_events(self, sink: str, runs: Sequence[RunKey]) -> list[Waiting]:
        return [self._next_of(run, sink, self._places[run].get(sink, Delivery())) for run in runs]

    def _next_of(self, run: RunKey, sink: str, place: Delivery) -> Waiting:
        events = self.outboxes[run]
        event = events[place.position] if place.position < len(events) else ""
        return Waiting(run=run, sink=sink, delivery=place, count=len(events), event=event)

    def swap_delivery(self, run: RunKey, sink: str, seen: Delivery, new: Delivery) -> bool:
        with self.lock:
            known = self._places[run].get(sink, Delivery())
            if known.revision != seen.revision:
                return False
            if seen.parked and not new.parked:
                self._open_outboxes[run] = self.clock_ms
            self._places[run][sink] = replace(new, revision=seen.revision + 1)
            return True

    def parked_deliveries(self) -> list[Waiting]:
        return [
            self._next_of(run, sink, place)
            for run, _ in self.open_outboxes()
            for sink, place in sorted(self._places[run].items())
            if place.parked
        ]

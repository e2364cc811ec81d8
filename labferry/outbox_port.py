"""What does labferry ask of the ledger about events that others are to be told?"""

from collections.abc import Sequence
from typing import Protocol

from labferry.identity import RunKey
from labferry.outbox import Delivery, Waiting


class OutboxLedger(Protocol):
    """The part of the ledger that holds each run's events, and each sink's place among them.

    `complete` adds the event of a marker.
    """

    def tell(self, run: RunKey, events: Sequence[str]) -> None:
        """Add events, JSON text, to a run's outbox; told twice, they are there twice."""
        ...

    def told(self, run: RunKey) -> list[str]:
        """Return all events of a run, oldest first."""
        ...

    def open_outboxes(self) -> list[tuple[RunKey, int]]:
        """Return the runs of which somebody may be told something yet, and when each was told of
        last, the oldest first."""
        ...

    def close_outbox(self, run: RunKey) -> None:
        """Leave a run out of `open_outboxes` until something is told of it again. Does nothing
        where something was in the last minute: that may be underway still."""
        ...

    def sink_since(self, sink: str) -> int:
        """Return since when a sink is on record, from now on if it never was, in ms."""
        ...

    def event_sinks(self) -> list[str]:
        """Return the sinks on record, sorted."""
        ...

    def waiting_events(self, sink: str, runs: Sequence[RunKey]) -> list[Waiting]:
        """Return what a sink was given of each run, and the event that is next."""
        ...

    def swap_delivery(self, run: RunKey, sink: str, seen: Delivery, new: Delivery) -> bool:
        """Put a sink's place in the place of the one that was seen; False where another is."""
        ...

    def parked_deliveries(self) -> list[Waiting]:
        """Return the deliveries that wait for a person, of all runs and sinks."""
        ...

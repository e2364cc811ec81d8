"""What does labferry ask of the ledger about what stands in the way, and whom it told?"""

from typing import Protocol

from labferry.alerts import Alert, Undelivered
from labferry.breakers import Breaker, Conditions
from labferry.throttle import Pace


class ConditionLedger(Protocol):
    """The part of the ledger that all workers share about endpoint, hosts and alerts."""

    def conditions(self) -> Conditions:
        """Return all breakers and paces on record, over or not, by name."""
        ...

    def swap_breaker(
        self, seen: Breaker | None, new: Breaker | None, alert: tuple[str, str] | None = None
    ) -> bool:
        """Put a breaker in the place of the one that was seen, of the same name; None is none.

        An alert, key and text, is recorded in the same step, if there was none of that key.
        Return False, and do nothing, where another is on record by now.
        """
        ...

    def swap_pace(self, seen: Pace | None, new: Pace | None) -> bool:
        """Put a pace in the place of the one that was seen, as `swap_breaker`."""
        ...

    def alert(self, key: str, text: str, count: int = 1) -> bool:
        """Record an alert and return True, or return False where there is one of that key.

        `count` is how many more files it is about.
        """
        ...

    def alerts(self) -> list[Alert]:
        """Return all alerts on record, oldest first."""
        ...

    def enlist(self, sink: str, *, gather_ms: int, new_ms: int) -> None:
        """Put the alerts that a sink was not given yet among its due ones.

        Each is due so long after it came, with what is counted by then. A sink that was never
        heard of gets none that is older than `new_ms`.
        """
        ...

    def due_alerts(self, sink: str, limit: int) -> list[Alert]:
        """Return what is to be delivered to a sink now, the longest due first."""
        ...

    def delivered(self, sink: str, key: str) -> None:
        """Take an alert off what is to be delivered to a sink, which works."""
        ...

    def not_delivered(self, sink: str, key: str, *, why: str, again_ms: int) -> None:
        """Put off the delivery of an alert to a sink, and record why."""
        ...

    def undelivered(self) -> list[Undelivered]:
        """Return the sinks that alerts wait for, by name."""
        ...


class AlertSink(Protocol):
    """Where alerts go."""

    name: str

    def deliver(self, payload: bytes) -> None:
        """Send one alert, JSON, within the time set for it. Raises: NotDelivered."""
        ...

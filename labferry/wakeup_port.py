"""What does labferry ask of the broker?"""

from collections.abc import Sequence
from typing import Protocol

from labferry.identity import RunKey
from labferry.records import Bundle


class Wakeups(Protocol):
    """The broker, as far as labferry asks of it: publish a wake-up."""

    def upload(self, bundles: Sequence[Bundle]) -> None:
        """Publish one message a bundle."""
        ...

    def complete(self, run: RunKey) -> None:
        """Publish the wake-up to complete a run."""
        ...

    def reasons(self, run: RunKey) -> None:
        """Publish the wake-up to tell the bucket of a run's dead letters."""
        ...

    def put_away(self, run: RunKey) -> None:
        """Publish the wake-up to put a complete run's records away."""
        ...

    def take_back(self, run: RunKey) -> None:
        """Publish the wake-up to take a run's records back."""
        ...

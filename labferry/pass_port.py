"""What does labferry ask of the ledger about the looks at the instruments' shares?"""

from collections.abc import Sequence
from typing import Protocol

from labferry.passes import Pass, Waiting


class PassLedger(Protocol):
    """The part of the ledger that agents tell what they looked at."""

    def tell_pass(self, told: Pass) -> None:
        """Record a pass over what this host told of the instrument before, but for its runs."""
        ...

    def tell_waiting(self, instrument: str, host: str, waiting: Sequence[Waiting]) -> None:
        """Record why runs are not done, over what this host told of the instrument before."""
        ...

    def passes(self) -> list[Pass]:
        """Return what was told last, by instrument and host."""
        ...

    def forget_pass(self, instrument: str, host: str) -> None:
        """Forget what a host told of an instrument."""
        ...

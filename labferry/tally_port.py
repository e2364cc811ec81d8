"""What does labferry ask of the ledger about how much was done, and how long it waits?"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from labferry.identity import RunKey
from labferry.tallies import Tallies, Tally


class TallyLedger(Protocol):
    """The part of the ledger that metrics and named conditions are read from."""

    def tally(self, counts: Mapping[Tally, int], arrivals: Mapping[str, Sequence[int]]) -> None:
        """Add to counters, count times until now, and date what moved.

        `arrivals` are of files that were just verified: when each settled, by instrument.

        The one call that must not run twice: an answer that is lost can count twice. Rates may be
        a little wrong; nothing is decided by them.
        """
        ...

    def tallies(self) -> Tallies:
        """Return all counters."""
        ...

    def waiting_since(self, runs: Sequence[RunKey]) -> int:
        """Return when the file settled that waits longest for a worker in any of the runs; 0 where
        none waits.

        Of each bundle the first file stands for all.
        """
        ...

    def dead_since(self, runs: Sequence[RunKey]) -> int:
        """Return since when the oldest dead letter of any of the runs is one; 0 without any."""
        ...

    def is_led(self, name: str) -> bool:
        """Whether somebody holds the leadership of that name."""
        ...

"""What does labferry ask of the ledger about limits: what was said, and who may read how much?"""

from collections.abc import Mapping
from typing import Protocol

from labferry.audit import Act
from labferry.limits import Limit


class LimitLedger(Protocol):
    """The part of the ledger by which all workers hold a limit together."""

    def limits(self) -> dict[str, Limit]:
        """Return what operators said, by instrument or limits.OVERALL, over or not."""
        ...

    def set_limit(self, name: str, limit: Limit | None, act: Act) -> None:
        """Record a limit, or take it off, and append the act, in one step."""
        ...

    def reserve(self, rates: Mapping[str, int], size: int) -> float:
        """Take so many bytes of each named limit, at its rate in bytes a second; return in how
        many seconds they may be read. Whoever comes next gets what follows."""
        ...

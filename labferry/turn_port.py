"""What does labferry ask of the ledger about whose turn it is?"""

from collections.abc import Mapping
from typing import Protocol

from labferry.turns import Turn


class TurnLedger(Protocol):
    """The part of the ledger in which the sweep tells what all instruments have to send."""

    def tell_turns(self, turns: Mapping[str, Turn]) -> None:
        """Record what each instrument has to send, for half a minute."""
        ...

    def turns(self) -> dict[str, Turn]:
        """Return what was told last, by instrument; nothing where that is too old."""
        ...

"""Turns in memory; a part of MemoryLedger."""

from collections.abc import Mapping

from labferry.turns import Turn

KEEP_MS = 30_000


class MemoryTurns:
    """The TurnLedger port in memory."""

    clock_ms: int

    def __init__(self) -> None:
        self._turns: tuple[int, dict[str, Turn]] = (0, {})
        super().__init__()

    def tell_turns(self, turns: Mapping[str, Turn]) -> None:
        self._turns = (self.clock_ms, dict(turns))

    def turns(self) -> dict[str, Turn]:
        at_ms, turns = self._turns
        return turns if self.clock_ms - at_ms < KEEP_MS else {}

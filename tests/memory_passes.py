"""What agents tell of their passes, in memory; a part of MemoryLedger."""

from collections.abc import Sequence
from dataclasses import replace

from labferry.passes import Pass, Waiting


class MemoryPasses:
    """The PassLedger port in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._passes: dict[tuple[str, str], Pass] = {}
        self._waiting: dict[tuple[str, str], tuple[Waiting, ...]] = {}

    def tell_pass(self, told: Pass) -> None:
        self._passes[told.instrument, told.host] = told

    def tell_waiting(self, instrument: str, host: str, waiting: Sequence[Waiting]) -> None:
        self._waiting[instrument, host] = tuple(waiting)

    def passes(self) -> list[Pass]:
        return [
            replace(told, waiting=self._waiting.get(key, ()))
            for key, told in sorted(self._passes.items())
        ]

    def forget_pass(self, instrument: str, host: str) -> None:
        self._passes.pop((instrument, host), None)
        self._waiting.pop((instrument, host), None)

"""Time that a test moves, and dice that it holds."""

from labferry.ports import Clock


class ManualClock(Clock):
    """Clock port; waiting moves the time."""

    def __init__(self, *, dice: float = 0.0) -> None:
        self.now_s = 1000.0
        self.dice = dice
        self.waits: list[float] = []

    def mono_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds

    def uniform(self) -> float:
        return self.dice

"""What time is it, and what do the dice say? The only module that asks the machine."""

import random
import time


class SystemClock:
    """The machine's monotonic clock and random numbers; stored instants are the ledger's."""

    def mono_s(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Return what this machine takes for Unix time; only to compare with another's clock."""
        return time.time()

    def sleep_s(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def uniform(self) -> float:
        """Return a random number in [0, 1)."""
        return random.random()  # noqa: S311  jitter, not secrecy

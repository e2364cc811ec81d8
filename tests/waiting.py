"""How does a test wait for what it wants to see? For the condition, with a deadline."""

import time
from collections.abc import Callable

POLL_S = 0.02


def eventually(condition: Callable[[], object], within_s: float = 20) -> None:
    """Return once the condition holds. Raises: AssertionError when the time is up."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(POLL_S)

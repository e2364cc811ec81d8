"""How does a test wait for what it wants to see? For the condition, with a deadline."""

import time
from collections.abc import Callable

import psutil

POLL_S = 0.02
#: Longer than anything takes on a busy machine: a deadline is there to end a test that hangs.
PATIENCE_S = 600


def eventually(condition: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Return once the condition holds. Raises: AssertionError when the time is up."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(POLL_S)


def is_gone(pid: int) -> bool:
    """Whether a process ended, though nobody may have asked for its exit code."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True

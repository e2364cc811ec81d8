"""How does a check that people run tell what it saw? A line each; the first not so ends it."""

import sys
import time
from collections.abc import Callable

POLL_S = 1.0
#: With what a build or a start may take on a busy machine.
WITHIN_S = 600


def seen(what: str) -> None:
    """Print what was seen."""
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def demand(condition: object, what: str) -> None:
    """Print what was seen; exit where it was not."""
    if not condition:
        sys.exit(f"not so: {what}")
    seen(what)


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for something, print it and how long it took; exit where it does not come."""
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() > began_s + WITHIN_S:
            sys.exit(f"not within {WITHIN_S} s: {what}")
        time.sleep(POLL_S)
    seen(f"{what}, after {time.monotonic() - began_s:.0f} s")

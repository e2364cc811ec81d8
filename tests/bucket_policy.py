"""What may not be written? The real server is told so by its bucket's policy."""

from collections.abc import Iterator
from contextlib import contextmanager

from ops.demo_inject import allow_puts, deny_puts
from ops.embedded import Weed


@contextmanager
def denied(weed: Weed, prefix: str) -> Iterator[None]:
    """Deny writing below a prefix, '' for all of the bucket."""
    deny_puts(weed, prefix)
    try:
        yield
    finally:
        allow_puts(weed)

"""How is something fetched from one server while another one is asked?"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def begun(items: Iterator[T], goes_on: threading.Event) -> Iterator[Iterator[T]]:
    """Lend an iterator whose first item is made at once, in a thread of its own.

    For one that has most of its work before its first item, as what sorts has. What `items` is
    made of asks `goes_on`, which ends with the block: a thread that nobody waits for any more
    does nothing more then. Raises where it is iterated, what the thread met.
    """
    found: SimpleQueue[T | BaseException | None] = SimpleQueue()

    def begin() -> None:
        try:
            found.put(next(items, None))
        except BaseException as error:  # noqa: BLE001  raised again where it is waited for
            found.put(error)

    def rest() -> Iterator[T]:
        first = found.get()
        if isinstance(first, BaseException):
            raise first
        if first is not None:
            yield first
            yield from items

    goes_on.set()
    threading.Thread(target=begin, name="ahead", daemon=True).start()
    try:
        yield rest()
    finally:
        goes_on.clear()

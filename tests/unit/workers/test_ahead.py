"""Is something fetched while nobody asks for it yet, and no longer than somebody does?"""

import threading
from collections.abc import Iterator

import pytest

from workers.ahead import begun

WAIT_S = 30


def test_the_first_item_is_made_before_it_is_asked_for() -> None:
    made = threading.Event()

    def items() -> Iterator[int]:
        made.set()
        yield from (1, 2, 3)

    with begun(items(), threading.Event()) as found:
        assert made.wait(WAIT_S)
        assert list(found) == [1, 2, 3]


def test_nothing_is_an_end_and_no_item() -> None:
    with begun(iter(()), threading.Event()) as found:
        assert list(found) == []


def test_what_goes_wrong_is_raised_where_it_is_waited_for() -> None:
    def items() -> Iterator[int]:
        raise OSError("away")
        yield 1

    with begun(items(), threading.Event()) as found, pytest.raises(OSError, match="away"):
        next(found)


def test_a_thread_that_nobody_waits_for_is_told_to_end() -> None:
    goes_on, ended, is_over = threading.Event(), threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        assert is_over.wait(WAIT_S)
        if not goes_on.is_set():
            ended.set()
        yield 1

    with pytest.raises(KeyError), begun(items(), goes_on):
        raise KeyError
    is_over.set()
    assert ended.wait(WAIT_S)

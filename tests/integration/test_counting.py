"""Is what happens to files counted, once, on the real ledger?"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from labferry.errors import StoreError
from labferry.settings import StoreSettings
from labferry.states import State
from labferry.tallies import Tally, What
from tests.dock import MIB, RUN, Dock, Meddling
from tests.memory_store import MemoryStore

NAME = RUN.instrument


@pytest.fixture
def dock(tmp_path: Path, ledger_url: str) -> Dock:
    settings = StoreSettings(bucket="bucket", single_put_max_bytes=6 * MIB, part_size_bytes=5 * MIB)
    return Dock(tmp_path, ledger_url, MemoryStore(), store_settings=settings)


def counts(dock: Dock) -> dict[Tally, int]:
    """What was counted, without the bounds of times to verified."""
    dock.counters.send()
    found = dock.ledger.tallies().counts
    return {tally: count for tally, count in found.items() if tally.what is not What.WAITED_MS}


def failing(dock: Dock, code: str, status: int | None = None) -> Any:
    """The store, but the first Put of either kind fails."""

    def fail() -> None:
        raise StoreError(operation="PutObject", key="k", code=code, status=status)

    return Meddling(Meddling(dock.store, "put_fast", fail), "put_absent", fail)


def test_verified_files_are_counted_with_their_bytes_and_their_times(dock: Dock) -> None:
    dock.write("small", b"12345")
    dock.write("large", b"x" * (11 * MIB))
    dock.ferried("small", "large")
    size = 5 + 11 * MIB
    assert counts(dock) == {
        Tally(NAME, What.ATTEMPT, State.VERIFIED): 2,
        Tally(NAME, What.VERIFIED_BYTES): size,
        Tally(NAME, What.SENT_BYTES): size,
        Tally(NAME, What.WAIT, code="10"): 2,
    }
    assert dock.ledger.tallies().moved_ms[NAME] > 0


def test_parts_show_that_a_large_file_moves_before_it_is_done(dock: Dock) -> None:
    dock.write("large", b"x" * (11 * MIB))

    def look() -> None:
        assert counts(dock) == {Tally(NAME, What.SENT_BYTES): 11 * MIB}

    dock.ferried("large", store=Meddling(dock.store, "complete_upload", look))


def test_an_attempt_is_counted_by_the_state_it_leaves_and_the_code_of_its_failure(
    dock: Dock,
) -> None:
    dock.write("f")
    dock.ferried("f", store=failing(dock, "RequestTimeout", 400))
    dock.finish()
    found = counts(dock)
    assert found[Tally(NAME, What.ATTEMPT, State.FAILED, "RequestTimeout")] == 1
    assert found[Tally(NAME, What.ATTEMPT, State.VERIFIED)] == 1


def test_the_time_to_verified_goes_on_while_a_file_is_held(dock: Dock) -> None:
    dock.write("f")
    dock.settle("f")
    settled_ms = dock.record("f").settled_ms

    dock.ferry(store=failing(dock, "EndpointConnectionError"))
    assert dock.state("f") is State.HELD
    waits: list[int] = []
    send = dock.counters.arrived

    def arrived(instrument: str, since_ms: Iterable[int]) -> None:
        waits.extend(times := list(since_ms))
        send(instrument, times)

    dock.counters.arrived = arrived  # type: ignore[method-assign]
    dock.finish()
    assert waits == [settled_ms]


def test_a_lease_that_was_lost_is_counted_and_its_attempt_is_not(dock: Dock) -> None:
    dock.write("f")
    dock.settle("f")
    dock.ferry(store=Meddling(dock.store, "put_fast", dock.lapse, when="after"))
    assert counts(dock)[Tally(NAME, What.LEASE_LOST)] == 1
    assert Tally(NAME, What.ATTEMPT, State.VERIFIED) not in counts(dock)
    assert dock.state("f") is State.FAILED

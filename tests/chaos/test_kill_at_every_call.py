"""Does a transfer that dies, or loses an answer, at any call of any port still end well?

Each case breaks one call, before its effect or after it with the answer lost, and then lets sweep
and workers go on. The case before the first that breaks nothing is the last.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NoReturn

import pytest
import redis

from labferry.errors import LedgerUnavailable, StoreError
from labferry.records import Proof
from labferry.settings import StoreSettings
from labferry.states import Event, State
from tests.dock import MIB, PROVEN, RUN, UNPROVEN, Dock
from tests.memory_store import Breaking, Died, MemoryStore

PARTS = 3
BODIES = {
    "empty": b"",
    "small": b"small",
    "d/e/Größe #1": b"named",
    "large": os.urandom((PARTS - 1) * MIB + 1),
}
When = Literal["before", "after"]
Make = Callable[[], tuple[Dock, MemoryStore]]


class Losing(Breaking):
    """A store whose nth call gets no answer."""

    def _break(self) -> NoReturn:
        operations = {
            "find_object": "HeadObject",
            "read": "GetObject",
            "create_upload": "CreateMultipartUpload",
            "put_part": "UploadPart",
            "complete_upload": "CompleteMultipartUpload",
            "find_uploads": "ListMultipartUploads",
        }
        operation = operations.get(self.calls[-1], "PutObject")
        raise StoreError(operation=operation, key="k", code="ReadTimeoutError")


@pytest.fixture
def make(tmp_path: Path, ledger_url: str) -> Make:
    """Makes a fresh dock for each case."""
    settings = StoreSettings(bucket="bucket", single_put_max_bytes=MIB, complete_timeout_s=0.02)
    numbers = iter(range(10_000))

    def fresh() -> tuple[Dock, MemoryStore]:
        with redis.Redis.from_url(ledger_url) as client:
            client.flushdb()
        store = MemoryStore(min_part_bytes=1)
        folder = tmp_path / str(next(numbers))
        dock = Dock(folder, ledger_url, store, store_settings=settings)
        dock.tune("store", part_size_bytes=MIB)
        dock.tune("worker", small_threads=2, part_threads=1)
        for name, body in BODIES.items():
            dock.write(name, body)
        dock.settle(*BODIES)
        return dock, store

    return fresh


def ended_well(dock: Dock, store: MemoryStore, case: str) -> None:
    """One good object a file, verified, no open upload, nothing left on record."""
    for name, body in BODIES.items():
        assert dock.state(name) is State.VERIFIED, case
        assert dock.stored(name) == body, case
        assert dock.ledger.find_upload(RUN.file(name)) is None, case
    assert len(store.objects) == len(BODIES), case
    assert store.uploads == {}, case


def cost(dock: Dock) -> tuple[int, int, int]:
    """Attempts, workers and rounds lost over all files."""
    records = [dock.record(name) for name in BODIES]
    return (
        sum(record.attempt for record in records),
        max(record.lost for record in records),
        sum(record.rounds for record in records),
    )


@pytest.mark.parametrize("proof", [PROVEN, UNPROVEN], ids=["proven", "unproven"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("port", ["store", "ledger"])
def test_a_death_at_any_call_costs_no_attempt(
    make: Make, port: str, when: When, proof: Proof
) -> None:
    nth = 0
    while True:
        nth += 1
        dock, store = make()
        first = Breaking(store, nth if port == "store" else 0, when)
        ledger = Breaking(dock.ledger, nth if port == "ledger" else 0, when)
        broken = first if port == "store" else ledger
        case = f"call {nth} {when}"
        try:
            dock.ferry(store=first, ledger=ledger, proof=proof)
        except Died:
            case = f"{case}: {broken.calls[-1]}"
        else:
            break
        counting = Breaking(store)
        dock.finish(store=counting, proof=proof)
        ended_well(dock, store, case)
        attempts, lost, rounds = cost(dock)
        assert (attempts, rounds) == (0, 0), case
        assert lost <= 1, case
        for name in BODIES:
            assert {event for event, _ in dock.codes(name)} <= {Event.EXPIRE}, case
        assert (first.calls + counting.calls).count("put_part") <= PARTS + 1, case
    assert nth > 10


@pytest.mark.parametrize("proof", [PROVEN, UNPROVEN], ids=["proven", "unproven"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_of_the_store_at_any_call_costs_one_attempt_at_most(
    make: Make, when: When, proof: Proof
) -> None:
    calls, nth = 10_000, 0
    while nth < calls:
        nth += 1
        dock, store = make()
        broken = Losing(store, nth, when)
        dock.ferry(store=broken, proof=proof)
        calls = len(broken.calls)
        case = f"call {nth} {when}: {broken.calls[nth - 1] if nth <= calls else 'none'}"
        dock.finish(proof=proof)
        ended_well(dock, store, case)
        attempts, lost_workers, rounds = cost(dock)
        assert attempts <= 1, case
        assert (lost_workers, rounds) == (0, 0), case


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_of_the_ledger_at_any_call_costs_nothing(make: Make, when: When) -> None:
    nth = 0
    while True:
        nth += 1
        dock, store = make()
        claims = dock.claim()
        away = LedgerUnavailable(url="redis://x", why="gone")
        broken = Breaking(dock.ledger, nth, when, error=away)
        dock.ferry(claims, ledger=broken)
        if nth > len(broken.calls):
            break
        case = f"call {nth} {when}: {broken.calls[nth - 1]}"
        dock.finish()
        ended_well(dock, store, case)
        assert cost(dock) == (0, 0, 0), case

"""Is a loss in the bucket noticed and told once, and what was released left in peace?"""

from typing import Any

import pytest

from labferry.audit import read_line
from labferry.errors import StoreError
from labferry.identity import RunKey
from labferry.ports import ObjectStore
from labferry.records import Completion
from labferry.stored import StoredObject
from ops.custody import Custody, Fault, Found
from ops.exits import Exit
from tests.bucket_by_hand import BODIES, LAYOUT, RUN, complete_bucket
from tests.ledger_world import ACT, PRINT
from tests.manual_clock import ManualClock
from tests.memory_ledger import MemoryLedger
from tests.memory_store import MemoryStore, StoredBody

OTHER = RunKey("scope", "r2")
A_KEY = LAYOUT.raw(RUN.file("a.txt"))


def complete(ledger: MemoryLedger, run: RunKey, generation: int = 1) -> None:
    ledger.discover(run, [("a.txt", PRINT)])
    ledger.complete(
        run,
        Completion(
            generation=generation,
            file_count=9,
            manifest_key="m",
            manifest_digest="d",
            marker_key="k",
            event="e",
        ),
    )


@pytest.fixture
def ledger() -> MemoryLedger:
    found = MemoryLedger()
    for run in (RUN, OTHER):
        complete(found, run)
    return found


@pytest.fixture
def store() -> MemoryStore:
    return complete_bucket(run=OTHER, store=complete_bucket())


def look(
    ledger: MemoryLedger, store: ObjectStore, clock: ManualClock | None = None, **options: Any
) -> Found:
    given: dict[str, Any] = {"sample": 0, "per_second": 10, "budget_s": 3600, **options}
    return Custody(
        ledger=ledger, store=store, layout=LAYOUT, clock=clock or ManualClock(), **given
    ).look(ledger.runs())


def test_what_is_as_it_was_proven_is_no_incident(ledger: MemoryLedger, store: MemoryStore) -> None:
    found = look(ledger, store)
    assert (found.runs, found.objects, found.incidents) == (2, 2 * len(BODIES), [])
    assert found.exit_code == Exit.DONE
    assert ledger.alerts() == []


@pytest.mark.parametrize("fault", Fault)
def test_a_loss_or_a_change_is_told_once(
    ledger: MemoryLedger, store: MemoryStore, fault: Fault
) -> None:
    if fault is Fault.GONE:
        store.delete(A_KEY)
    else:
        store.objects[A_KEY] = StoredBody(b"aleph", store.objects[A_KEY].etag, "t")
    for _ in range(2):
        found = look(ledger, store)
        assert [(one.run, one.key, one.fault) for one in found.incidents] == [(RUN, A_KEY, fault)]
        assert found.exit_code == Exit.PARTIAL
    (alert,) = ledger.alerts()
    assert A_KEY in alert.text
    assert "--release" in alert.text


@pytest.mark.parametrize("document", ["manifest", "marker"])
def test_a_lost_document_is_an_incident(
    ledger: MemoryLedger, store: MemoryStore, document: str
) -> None:
    key = getattr(LAYOUT, document)(RUN, 1)
    store.delete(key)
    assert [one.key for one in look(ledger, store).incidents] == [key]


def test_a_sample_is_of_chance_and_paced(ledger: MemoryLedger, store: MemoryStore) -> None:
    chosen = set()

    class Asked(MemoryStore):
        def find_object(self, key: str) -> StoredObject | None:
            chosen.add(key)
            return super().find_object(key)

    asked = Asked()
    asked.objects = store.objects
    for dice in (0.0, 0.4, 0.7, 0.99):
        clock = ManualClock(dice=dice)
        found = look(ledger, asked, clock, sample=1, per_second=2)
        assert found.objects == 2
        assert clock.waits == [0.5] * 4, "a marker and a file of each run"
    assert len({key for key in chosen if key.startswith(LAYOUT.raw_prefix(RUN))}) > 1


def test_what_was_released_is_not_looked_for_until_it_is_to_stay_again(
    ledger: MemoryLedger, store: MemoryStore
) -> None:
    store.delete(A_KEY)
    ledger.end_custody(RUN, ACT)
    found = look(ledger, store)
    assert (found.incidents, found.released, found.exit_code) == ([], 1, Exit.DONE)
    assert read_line(list(ledger.audit(RUN))[-1]).act == ACT
    ledger.resume_custody(RUN, ACT)
    assert look(ledger, store).incidents
    assert ledger.out_of_custody() == {}


def test_a_run_without_a_marker_is_not_in_custody(store: MemoryStore) -> None:
    ledger = MemoryLedger()
    ledger.discover(RUN, [("a.txt", PRINT)])
    assert look(ledger, store).runs == 0


def test_a_bucket_that_does_not_answer_is_no_incident(
    ledger: MemoryLedger, store: MemoryStore
) -> None:
    class Down(MemoryStore):
        def find_object(self, key: str) -> StoredObject | None:
            raise StoreError(operation="HeadObject", key=key, code="AccessDenied", status=403)

    down = Down()
    down.objects = store.objects
    found = look(ledger, down)
    assert (found.incidents, len(found.unread), found.exit_code) == ([], 2, Exit.UNAVAILABLE)


def test_the_time_given_ends_it(ledger: MemoryLedger, store: MemoryStore) -> None:
    found = look(ledger, store, per_second=0.1, budget_s=15)
    assert found.unread
    assert found.objects < 2 * len(BODIES)

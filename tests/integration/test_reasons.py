"""The bucket tells of every dead letter: on the real ledger, with a bucket that can be broken."""

import json
from typing import Any

import pytest

from labferry.audit import Act
from labferry.errors import StoreError
from labferry.events import read_event
from labferry.identity import Layout, RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.ports import Ledger, ObjectStore
from labferry.records import Fingerprint, Note, Step
from labferry.settings import LedgerSettings
from labferry.states import Event
from tests.dock import Meddling
from tests.memory_store import Breaking, Died, MemoryStore
from workers.reasons import Reasons

RUN = RunKey("seq", "r 1#ü")
LAYOUT = Layout("lab")
ACT = Act(actor="ada@lab", reason="LIMS-7", what="discard")
DENIED = StoreError(operation="PutObject", key="k", code="AccessDenied", status=403)
DOWN = StoreError(operation="PutObject", key="k", code="EndpointConnectionError")


class Refusing(MemoryStore):
    """A store that takes no document."""

    asked = 0

    def put_document(self, key: str, body: bytes) -> None:
        self.asked += 1
        raise DENIED


@pytest.fixture
def ledger(ledger_url: str) -> RedisLedger:
    return open_ledger(LedgerSettings(url=ledger_url))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def bury(ledger: RedisLedger, *paths: str) -> None:
    ledger.discover(RUN, [(path, Fingerprint(5, 1, 2, 3)) for path in paths])
    note = Note(event=Event.REFUSE, kind="permanent", code="bad_name", message="no key holds it")
    ledger.move(RUN, Event.REFUSE, [Step(path=path, note=note) for path in paths])


def act(ledger: RedisLedger, event: Event, path: str) -> None:
    note = Note(event=event, kind="operator", code=event, message="LIMS-7", worker="ada@lab")
    ledger.act(RUN, event, [Step(path=path, note=note)], ACT)


def write(ledger: Ledger, store: ObjectStore) -> int:
    return Reasons(ledger=ledger, store=store, layout=LAYOUT).write(RUN)


def document(store: MemoryStore, path: str) -> dict[str, Any]:
    body = store.objects[LAYOUT.reason(RUN.file(path))].body
    fields: dict[str, Any] = json.loads(body)
    return fields


def test_each_dead_letter_has_a_document_with_all_that_is_known(
    ledger: RedisLedger, store: MemoryStore
) -> None:
    paths = ["a b/ü.txt", "x" * 300, *(f"f{number}" for number in range(500))]
    bury(ledger, *paths)
    assert write(ledger, store) == len(paths)
    assert {document(store, path)["file"] for path in paths} == {f"{RUN}/{p}" for p in paths}
    told = document(store, "a b/ü.txt")
    assert (told["labferry_reason"], told["status"], told["code"]) == (1, "dead", "bad_name")
    assert told["attempts"][0]["message"] == "no key holds it"
    assert write(ledger, store) == 0


@pytest.mark.parametrize(
    ("event", "status"),
    [(Event.REPLAY, "replayed"), (Event.REVISE, "replayed"), (Event.DISCARD, "discarded")],
)
def test_its_end_is_told_too_with_who_and_why(
    ledger: RedisLedger, store: MemoryStore, event: Event, status: str
) -> None:
    bury(ledger, "a")
    write(ledger, store)
    act(ledger, event, "a")
    assert write(ledger, store) == 1
    told = document(store, "a")
    assert told["status"] == status
    assert told["acts"][0] == {**told["acts"][0], "actor": "ada@lab", "reason": "LIMS-7"}
    assert told["attempts"][0]["code"] == "bad_name"


def test_what_changes_while_it_is_written_is_written_again(
    ledger: RedisLedger, store: MemoryStore
) -> None:
    bury(ledger, "a")
    meddling = Meddling(store, "put_document", lambda: act(ledger, Event.DISCARD, "a"))
    assert write(ledger, meddling) == 2
    assert document(store, "a")["status"] == "discarded"


def test_a_document_that_is_refused_keeps_no_other_back(
    ledger: RedisLedger, store: MemoryStore
) -> None:
    bury(ledger, *(f"f{number:03}" for number in range(300)))
    broken = Breaking(store, 3, method="put_document", error=DENIED)
    with pytest.raises(StoreError, match="AccessDenied"):
        write(ledger, broken)
    assert len(store.objects) == 299
    [left] = ledger.reasons_due(RUN, 0, 999)
    assert write(ledger, store) == 1
    assert document(store, left[0])["status"] == "dead"


def test_an_endpoint_that_is_down_is_not_asked_for_each(
    ledger: RedisLedger, store: MemoryStore
) -> None:
    bury(ledger, *(f"f{number:03}" for number in range(900)))
    broken = Breaking(store, 1, method="put_document", error=DOWN)
    with pytest.raises(StoreError):
        write(ledger, broken)
    assert len(broken.calls) < 100
    assert write(ledger, store) == 901 - len(broken.calls)


def test_where_none_can_be_written_no_more_are_tried(
    ledger: RedisLedger, store: MemoryStore
) -> None:
    bury(ledger, *(f"f{number:03}" for number in range(900)))
    refusing = Refusing()
    with pytest.raises(StoreError, match="AccessDenied"):
        write(ledger, refusing)
    assert refusing.asked < 100
    assert write(ledger, store) == 900


def test_two_writers_at_once_write_once(ledger: RedisLedger, store: MemoryStore) -> None:
    bury(ledger, "a")
    counts: list[int] = []
    meddling = Meddling(store, "put_document", lambda: counts.append(write(ledger, store)))
    assert write(ledger, meddling) == 1
    assert counts == [0]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_that_dies_at_any_call_is_made_up_for(ledger_url: str, when: Any) -> None:
    nth = 0
    while True:
        nth += 1
        ledger, store = open_ledger(LedgerSettings(url=ledger_url)), MemoryStore()
        ledger._server.client.flushdb()
        bury(ledger, "a", "b")
        act(ledger, Event.DISCARD, "b")
        broken = Breaking(ledger, nth, when)
        try:
            write(broken, store)
        except Died:
            ledger._server.client.delete(f"labferry:leader:reasons:{RUN}")  # it ends by itself
            write(ledger, store)
            assert document(store, "a")["status"] == "dead"
            assert document(store, "b")["status"] == "discarded"
            assert ledger.reasons_due(RUN, 0, 9) == []
        else:
            break
    assert nth > 8


def test_raw_data_is_never_written_over(ledger: RedisLedger, store: MemoryStore) -> None:
    bury(ledger, "a")
    raw = LAYOUT.raw(RUN.file("a"))
    store.put_fast(raw, b"bytes", "t")
    write(ledger, store)
    assert store.objects[raw].body == b"bytes"
    assert {key for key in store.objects if key != raw} == {LAYOUT.reason(RUN.file("a"))}


def test_others_are_told_of_each_dead_letter_once_its_document_is_written(
    ledger: RedisLedger, store: MemoryStore
) -> None:
    bury(ledger, "a", "b")
    with pytest.raises(StoreError):
        write(ledger, Refusing())
    assert ledger.told(RUN) == []
    write(ledger, store)
    told = [read_event(line) for line in ledger.told(RUN)]
    assert sorted(one["file"] for one in told) == [f"{RUN}/a", f"{RUN}/b"]
    assert told[0]["event"] == "file.dead_lettered"
    assert told[0]["reason"] in store.objects
    act(ledger, Event.DISCARD, "a")
    write(ledger, store)
    assert len(ledger.told(RUN)) == 2, "giving up is no new dead letter"


def test_nobody_is_told_of_dead_letters_where_that_is_not_wanted(
    ledger: RedisLedger, store: MemoryStore
) -> None:
    bury(ledger, "a")
    Reasons(ledger=ledger, store=store, layout=LAYOUT, tells=False).write(RUN)
    assert ledger.told(RUN) == []


def test_what_was_begun_of_a_file_that_is_given_up_is_ended_in_the_bucket(
    ledger: RedisLedger, store: MemoryStore
) -> None:
    bury(ledger, "kept", "given up")
    for path in ("kept", "given up"):
        store.create_upload(LAYOUT.raw(RUN.file(path)), "token")
    assert write(ledger, store) == 2
    assert len(store.uploads) == 2, "a replay goes on with what was sent"
    act(ledger, Event.DISCARD, "given up")
    assert write(ledger, store) == 1
    assert [upload.key for upload in store.uploads.values()] == [LAYOUT.raw(RUN.file("kept"))]

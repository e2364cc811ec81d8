"""What becomes of a run when a dead letter of it is sent in again: on the real ledger."""

import os
from pathlib import Path

import pytest

from labferry.audit import Act
from labferry.completion import RunState, run_state
from labferry.manifest import read_marker
from labferry.records import Note, RunFacts, Step
from labferry.settings import StoreSettings
from labferry.states import Event, State
from tests.dock import MIB, RUN, Dock, fingerprint
from tests.memory_store import Breaking, MemoryStore
from workers.complete import Completer

PART = 5 * MIB
ACT = Act(actor="ada@lab", reason="LIMS-7", what="replay")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def dock(tmp_path: Path, ledger_url: str, store: MemoryStore) -> Dock:
    settings = StoreSettings(bucket="bucket", single_put_max_bytes=MIB, part_size_bytes=PART)
    return Dock(tmp_path, ledger_url, store, store_settings=settings)


def facts(dock: Dock) -> RunFacts:
    found = dock.ledger.find_facts(RUN)
    assert found is not None
    return found


def act(dock: Dock, event: Event, name: str) -> None:
    step = Step(path=name, fingerprint=fingerprint(dock.source(name)))
    dock.ledger.act(RUN, event, [step], ACT)


def bury(dock: Dock, name: str, event: Event, code: str = "c") -> None:
    note = Note(event=event, kind="source", code=code, message="m")
    token = dock.record(name).token if event is Event.QUARANTINE else 0
    dock.ledger.move(RUN, event, [Step(path=name, token=token, note=note)])
    assert dock.state(name) is State.QUARANTINED


def complete(dock: Dock, store: MemoryStore) -> bool:
    return Completer(ledger=dock.ledger, store=store, layout=dock.layout).complete(RUN)


def test_a_sealed_run_goes_on_to_complete_once_its_dead_letter_is_verified(
    dock: Dock, store: MemoryStore
) -> None:
    dock.write("a")
    dock.write("b")
    dock.ferried("a")
    dock.settle("b")
    dock.claim()
    bury(dock, "b", Event.QUARANTINE)
    assert dock.ledger.seal(RUN, [], 2)
    assert run_state(facts(dock)) is RunState.INCOMPLETE
    assert not complete(dock, store)

    act(dock, Event.REPLAY, "b")
    assert run_state(facts(dock)) is RunState.SEALED
    assert not complete(dock, store)
    dock.ferry()
    assert complete(dock, store)
    assert dock.ledger.markers(RUN) == {1}
    marker = read_marker(store.objects[dock.layout.marker(RUN, 1)].body)
    assert (marker.files, marker.total_files) == (2, 2)


def test_a_complete_run_gets_a_new_generation_and_keeps_its_first_marker(
    dock: Dock, store: MemoryStore
) -> None:
    for name in ("a", "b"):
        dock.write(name)
    dock.ferried("a", "b")
    assert dock.ledger.seal(RUN, [], 2)
    assert complete(dock, store)
    first = store.objects[dock.layout.marker(RUN, 1)].body
    bury(dock, "b", Event.CONFLICT)
    assert run_state(facts(dock)) is RunState.COMPLETE

    act(dock, Event.REPLAY, "b")
    assert run_state(facts(dock)) is RunState.SEALED
    dock.ferry()
    assert complete(dock, store)
    assert dock.ledger.markers(RUN) == {1, 2}
    assert store.objects[dock.layout.marker(RUN, 1)].body == first
    assert read_marker(store.objects[dock.layout.marker(RUN, 2)].body).generation == 2
    assert dock.stored("b") == b"bytes"


def test_a_changed_source_settles_first_and_undoes_the_seal(dock: Dock, store: MemoryStore) -> None:
    dock.write("a")
    dock.settle("a")
    dock.claim()
    bury(dock, "a", Event.QUARANTINE)
    assert dock.ledger.seal(RUN, [], 1)
    dock.write("a", b"other bytes")
    act(dock, Event.REVISE, "a")
    assert run_state(facts(dock)) is RunState.OPEN
    assert dock.ferry() == {}
    dock.settle("a")
    dock.ferry()
    assert dock.stored("a") == b"other bytes"
    assert dock.ledger.seal(RUN, [], 1)
    assert complete(dock, store)


def half_sent(dock: Dock, store: MemoryStore) -> str:
    """Let a large file die with two of its parts sent; return the upload's id."""
    dock.tune("worker", part_threads=1)
    dock.write("f", os.urandom(3 * PART))
    dock.settle("f")
    claims = dock.claim()
    dock.ferry(claims, store=Breaking(store, 3, method="put_part", error=OSError("broken")))
    if dock.state("f") is not State.QUARANTINED:
        dock.claim()
        bury(dock, "f", Event.QUARANTINE)
    [upload_id] = store.uploads
    assert len(store.uploads[upload_id].parts) == 2
    return upload_id


def test_a_replay_goes_on_with_the_parts_that_were_sent(dock: Dock, store: MemoryStore) -> None:
    half_sent(dock, store)
    act(dock, Event.REPLAY, "f")
    asked = Breaking(store)
    dock.ferry(store=asked)
    assert dock.state("f") is State.VERIFIED
    assert asked.calls.count("put_part") == 1
    assert asked.calls.count("create_upload") == 0


def test_a_replay_of_a_changed_source_ends_the_old_upload(dock: Dock, store: MemoryStore) -> None:
    upload_id = half_sent(dock, store)
    dock.write("f", os.urandom(3 * PART + 1))
    act(dock, Event.REVISE, "f")
    dock.settle("f")
    asked = Breaking(store)
    dock.ferry(store=asked)
    assert dock.state("f") is State.VERIFIED
    assert asked.calls.count("put_part") == 4
    assert upload_id not in store.uploads
    assert store.uploads == {}
    assert dock.stored("f") == dock.source("f").read_bytes()

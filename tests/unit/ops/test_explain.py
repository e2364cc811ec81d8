"""Does explain say of a file in any state what moves it next, and what happened?"""

import json
from typing import Any

import pytest

from labferry.errors import NotFound
from labferry.identity import MAX_KEY_BYTES, Layout
from labferry.records import Note, Part, Upload
from labferry.states import Event, State
from ops.explain import Explanation, explain
from ops.explain_view import note_line
from tests.ledger_world import PRINT, RUN, World, memory_world
from tests.no_records import no_records

FILE = RUN.file("Data/a b.bcl")


@pytest.fixture
def world() -> World:
    return memory_world()


def explained(world: World) -> Explanation:
    return explain(world.ledger, Layout("lab"), FILE, no_records)


@pytest.mark.parametrize("state", State)
def test_every_state_names_what_moves_the_file_next(world: World, state: State) -> None:
    world.bring(state, FILE.path)
    explanation = explained(world)
    assert explanation.record.state is state
    assert len(explanation.next_step) > 10
    shown = json.loads(json.dumps(explanation.to_json()))
    assert shown["state"] == state
    assert shown["next"] == explanation.next_step
    assert shown["object_key"] == f"lab/raw/{FILE}"
    assert shown["source"]["size"] == PRINT.size


def test_a_lease_is_shown_with_its_end(world: World) -> None:
    world.bring(State.UPLOADING, FILE.path)
    explanation = explained(world)
    assert explanation.due_ms is not None
    assert "until " in explanation.next_step
    assert "(in 60 s)" in explanation.next_step


def test_a_retry_is_shown_with_its_due_time(world: World) -> None:
    token = world.upload(FILE.path)
    note = Note(event=Event.FAIL, kind="transient", code="SlowDown", message="wait", worker="w1")
    world.move(Event.FAIL, FILE.path, token=token, delay_ms=30_000, note=note)
    explanation = explained(world)
    assert "(in 30 s)" in explanation.next_step
    world.pass_ms(31_000)
    assert "(any moment)" in explained(world).next_step
    assert note_line(explanation.history[0]) == "fail SlowDown by w1: wait"
    shown: Any = explanation.to_json()
    assert shown["history"][0]["code"] == "SlowDown"
    assert shown["failed_attempts"] == 1


def test_the_evidence_of_a_verified_file_is_shown(world: World) -> None:
    world.verify(FILE.path)
    evidence: Any = explained(world).to_json()["evidence"]
    assert evidence["level"] == "A"
    assert evidence["crc64nvme"] == "f" * 16


def test_the_worker_under_whose_lease_it_is_is_named(world: World) -> None:
    holder = world.ledger.register("host:17")
    world.settle(FILE.path)
    (bundle,) = world.take()
    world.claim(FILE.path, bundle=bundle.number, holder=holder)
    assert explained(world).to_json()["worker"] == "host:17"


def test_parts_that_are_acknowledged_are_counted(world: World) -> None:
    token = world.upload(FILE.path)
    upload = Upload(attempt_token="t", part_size=1024, fingerprint=PRINT, upload_id="u")
    world.ledger.save_upload(FILE, token, upload)
    world.ledger.save_parts(FILE, token, {1: Part(1, 1024, "etag"), 2: Part(2, 1024)})
    shown = explained(world).to_json()["upload"]
    assert shown == {"upload_id": "u", "part_size": 1024, "parts_acknowledged": 1}


def test_a_file_whose_name_no_key_can_hold_is_explained_too(world: World) -> None:
    path = "/".join(["d" * 200] * (MAX_KEY_BYTES // 200 + 1))
    world.discover(path)
    assert (
        explain(world.ledger, Layout(), RUN.file(path), no_records).to_json()["object_key"] is None
    )


def test_a_file_that_is_not_on_record_is_not_found(world: World) -> None:
    with pytest.raises(NotFound, match=r"the run .* is not known"):
        explained(world)
    world.discover("other")
    with pytest.raises(NotFound, match=r"the file .* is not known"):
        explained(world)

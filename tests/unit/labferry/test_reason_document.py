"""Is a dead letter read back from its document as it was, and nothing else taken for one?"""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.dead_letter import DeadLetter, reason_document
from labferry.errors import MalformedMessage
from labferry.identity import FileKey, RunKey
from labferry.reason_document import read_reason
from labferry.records import Fingerprint, Note
from labferry.states import Event, State
from tests.unit.labferry.records_by_hand import record

FILE = FileKey(RunKey("scope", "run 1"), "d/ü%25.x")
TOLD = sorted(
    event
    for event in Event
    if event in {Event.FAIL, Event.EXPIRE, Event.ABANDON, Event.QUARANTINE, Event.SUPERSEDE}
)
ACTS = (Event.REPLAY, Event.REVISE, Event.DISCARD)
numbers = st.integers(0, 2**40)


def attempt(event: Event, at_ms: int, **fields: Any) -> Note:
    return Note(event=event, kind="transient", code="500", message="no", at_ms=at_ms, **fields)


notes = st.lists(
    st.builds(
        attempt,
        st.sampled_from(TOLD),
        st.just(0),
        worker=st.text(max_size=9),
        token=numbers,
        attempt=numbers,
        series=st.integers(0, 3),
        bytes_sent=numbers,
        upload_id=st.text(max_size=9),
        duration_ms=numbers,
        decision=st.text(max_size=9),
        version=st.text(max_size=9),
        bundle=numbers,
    )
    | st.builds(
        lambda event, who, why: Note(
            event=event, kind="operator", code=event, message=why, worker=who
        ),
        st.sampled_from(ACTS),
        st.text(max_size=9),
        st.text(max_size=9),
    ),
    max_size=6,
)


@given(notes, st.sampled_from([State.QUARANTINED, State.DISCARDED]), st.integers(0, 3))
def test_a_letter_comes_back_as_it_was(told: list[Note], state: State, series: int) -> None:
    dated = tuple(replace(note, at_ms=1_800_000_000_000 + n) for n, note in enumerate(told))
    letter = DeadLetter(
        file=FILE,
        at_ms=1_800_000_000_000,
        record=record(state, series=series, fingerprint=Fingerprint(4, -5, 6, -7)),
        notes=dated,
    )
    found = read_reason(reason_document(letter))
    assert (found.file, found.at_ms, found.notes) == (FILE, letter.at_ms, dated)
    assert (found.record.state, found.record.series) == (state, series)
    assert found.record.fingerprint == letter.record.fingerprint
    assert reason_document(found) == reason_document(letter)


def test_its_counters_are_those_of_its_last_series() -> None:
    events = [Event.FAIL, Event.FAIL, Event.EXPIRE, Event.ABANDON, Event.QUARANTINE]
    told = [attempt(event, n, series=1) for n, event in enumerate(events)]
    told.insert(0, attempt(Event.FAIL, 0, series=0))
    letter = DeadLetter(
        file=FILE, at_ms=9, record=record(State.QUARANTINED, series=1), notes=tuple(told)
    )
    found = read_reason(reason_document(letter)).record
    assert (found.attempt, found.lost, found.rounds) == (3, 1, 1)


def document(**changes: Any) -> bytes:
    letter = DeadLetter(
        file=FILE,
        at_ms=5,
        record=record(State.QUARANTINED),
        notes=(attempt(Event.QUARANTINE, 5),),
    )
    return json.dumps(json.loads(reason_document(letter)) | changes).encode()


def test_one_that_was_sent_in_again_is_no_dead_letter() -> None:
    assert read_reason(document(status="replayed")).record.state is State.ELIGIBLE


@pytest.mark.parametrize(
    "changes",
    [
        {"labferry_reason": 2},
        {"file": "scope/run/../../etc/passwd"},
        {"file": "scope"},
        {"file": 7},
        {"at": "yesterday"},
        {"series": -1},
        {"series": True},
        {"source": None},
        {"source": {"size": -1, "mtime_ns": 0, "inode": 0, "ctime_ns": 0}},
        {"source": {"size": 2**70, "mtime_ns": 0, "inode": 0, "ctime_ns": 0}},
        {"attempts": None},
        {"attempts": [{"event": "explode"}]},
        {"acts": [{"act": "replay", "at": "2026-11-29T00:00:00Z", "actor": 1, "reason": ""}]},
    ],
)
def test_what_is_no_document_of_a_letter_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        read_reason(document(**changes))


@given(st.binary(max_size=60) | st.just(b"[" * 100_000) | st.just(b"{}") | st.just(b"null"))
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_reason(content)

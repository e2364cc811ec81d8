"""Is a line of history read as it was written?"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labferry.errors import MalformedMessage
from labferry.ledger.notes import pack_note, unpack_note
from labferry.records import Note
from labferry.states import Event

NOTE = Note(event=Event.FAIL, kind="transient", code="SlowDown", message="wait")
#: Also the lone surrogates that a quoted name may hold.
texts = st.text(st.characters(exclude_categories=()), max_size=30)
numbers = st.integers(0, 2**60)

notes = st.builds(
    Note,
    event=st.sampled_from(Event),
    kind=texts,
    code=texts,
    message=texts,
    worker=texts,
    token=numbers,
    attempt=numbers,
    series=numbers,
    bytes_sent=numbers,
    upload_id=texts,
    duration_ms=numbers,
    at_ms=numbers,
    decision=texts,
    version=texts,
    bundle=numbers,
)


def line(note: Note) -> bytes:
    """Return the line that the ledger keeps of a note at its instant."""
    return f"{note.at_ms} {pack_note(note)}".encode()


@settings(deadline=None, max_examples=300)
@given(notes)
def test_a_note_is_read_as_it_was_written(note: Note) -> None:
    assert unpack_note(line(note)) == note


def test_a_note_is_dated_by_the_ledger() -> None:
    assert unpack_note(b"77 " + pack_note(NOTE).encode()).at_ms == 77


def test_no_note_is_no_text() -> None:
    assert pack_note(None) == ""


def test_what_is_as_in_a_new_note_is_left_out() -> None:
    assert json.loads(pack_note(NOTE)) == {
        "form": 1,
        "event": "fail",
        "kind": "transient",
        "code": "SlowDown",
        "message": "wait",
    }


def test_fields_of_a_later_version_of_the_same_form_are_tolerated() -> None:
    fields = {**json.loads(pack_note(NOTE)), "mood": "calm"}
    assert unpack_note(b"0 " + json.dumps(fields).encode()) == NOTE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0 ",
        "0 {",
        "0 []",
        "0 7",
        "0 null",
        '0 "x"',
        "0 {}",
        "x " + pack_note(NOTE),
        pack_note(NOTE),
        "0 " + pack_note(NOTE).replace('"form": 1', '"form": 2'),
        "0 " + pack_note(NOTE).replace('"fail"', '"explode"'),
        "0 " + pack_note(NOTE).replace('"wait"', "5"),
        "0 " + pack_note(NOTE).replace('"wait"', "null"),
        "0 " + pack_note(NOTE).replace('"wait"', '"wait", "attempt": "one"'),
        "0 " + pack_note(NOTE).replace('"wait"', '"wait", "attempt": true'),
    ],
)
def test_a_line_that_is_no_note_is_said_to_be_none(text: str) -> None:
    with pytest.raises(MalformedMessage, match="a note"):
        unpack_note(text.encode())


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_other_bytes_are_said_to_be_no_note(value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        unpack_note(value)

"""Does a dead letter tell everything that is on record of a file that stopped?"""

import json
from dataclasses import replace

import pytest

from labferry.dead_letter import (
    DeadFile,
    DeadLetter,
    dead_letter,
    find_letter,
    iso,
    reason_document,
)
from labferry.failure_table import ANSWERS, ERRNOS, OWN
from labferry.failures import Kind
from labferry.identity import RunKey
from labferry.messages import UploadMessage
from labferry.records import Evidence, Level, Note
from labferry.states import MOVE_OF, Actor, Event, State
from labferry.suggestions import suggestion
from tests.unit.labferry.records_by_hand import record

RUN = RunKey("seq", "r 1")
FILE = RUN.file("d/ü.txt")
FAIL = Note(
    event=Event.FAIL,
    kind="transient",
    code="InternalError",
    message="it failed",
    worker="host:1",
    token=3,
    attempt=1,
    bytes_sent=9,
    upload_id="u",
    duration_ms=12,
    decision="attempt 1 of 2 failed",
    version="1.2",
    bundle=17,
    at_ms=1_800_000_000_123,
)
LAST = replace(FAIL, event=Event.QUARANTINE, attempt=2, token=4, at_ms=1_800_000_001_000)
REPLAY = Note(
    event=Event.REPLAY, kind="operator", code="replay", message="mended", worker="ada@lab", at_ms=5
)
AGAIN = replace(LAST, series=1, code="AccessDenied", kind="permanent", at_ms=1_800_000_002_000)


def letter(*notes: Note, state: State = State.QUARANTINED) -> DeadLetter:
    found = find_letter(FILE, record(state, series=1), notes)
    assert found is not None
    return found


def test_the_cause_is_what_put_it_into_quarantine_last() -> None:
    assert letter(FAIL, LAST).code == "InternalError"
    again = letter(FAIL, LAST, REPLAY, AGAIN)
    assert (again.kind, again.code, again.at_ms) == ("permanent", "AccessDenied", AGAIN.at_ms)
    assert letter(FAIL, LAST, REPLAY).code == "InternalError"


def test_every_attempt_of_every_series_is_told_and_acts_stand_apart() -> None:
    whole = letter(FAIL, LAST, REPLAY, AGAIN)
    assert whole.attempts == [FAIL, LAST, AGAIN]
    assert whole.acts == [REPLAY]


@pytest.mark.parametrize("event", [Event.YIELD, Event.SKIP, Event.REAPPEAR])
def test_what_is_no_error_is_no_attempt(event: Event) -> None:
    assert letter(replace(FAIL, event=event), LAST).attempts == [LAST]


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (State.QUARANTINED, "dead"),
        (State.DISCARDED, "discarded"),
        (State.ELIGIBLE, "replayed"),
        (State.VERIFIED, "replayed"),
    ],
)
def test_a_letter_says_what_became_of_it(state: State, status: str) -> None:
    assert letter(LAST, state=state).to_json()["status"] == status


def test_a_file_that_never_was_a_dead_letter_is_none() -> None:
    assert find_letter(FILE, record(State.FAILED), [FAIL]) is None
    assert find_letter(FILE, record(State.VERIFIED), []) is None


def test_a_quarantined_file_without_a_reason_on_record_is_a_letter_all_the_same() -> None:
    found = find_letter(FILE, record(State.QUARANTINED, changed_ms=7), [])
    assert found is not None
    assert (found.code, found.kind, found.at_ms) == ("untold", "unknown", 7)


def test_a_letter_of_the_index_is_dated_by_the_index() -> None:
    dead = DeadFile(path="a", since_ms=9, record=record(State.QUARANTINED), notes=(LAST,))
    found = dead_letter(RUN, dead)
    assert (str(found.file), found.at_ms, found.code) == ("seq/r 1/a", 9, "InternalError")


def test_the_object_has_all_the_facts() -> None:
    evidence = Evidence(level=Level.A, crc64=255, etag="e" * 32)
    kept = record(State.QUARANTINED, evidence=evidence, series=2)
    found = find_letter(FILE, kept, [FAIL, LAST])
    assert found is not None
    fields = found.to_json()
    assert fields["file"] == "seq/r 1/d/ü.txt"
    assert fields["at"] == "2027-01-15T08:00:01.000Z" == iso(LAST.at_ms)
    assert fields["source"] == {"size": 10, "mtime_ns": 1, "inode": 2, "ctime_ns": 3}
    assert fields["checksums"] == {"crc64nvme": "00000000000000ff", "etag": "e" * 32}
    assert fields["fingerprint"] == found.fingerprint
    assert fields["suggestion"] == suggestion("transient", "InternalError")
    assert fields["series"] == 2
    assert isinstance(fields["attempts"], list)
    assert fields["attempts"][0] == {
        "at": "2027-01-15T08:00:00.123Z",
        "event": "fail",
        "series": 0,
        "attempt": 1,
        "worker": "host:1",
        "version": "1.2",
        "token": 3,
        "bundle": 17,
        "kind": "transient",
        "code": "InternalError",
        "message": "it failed",
        "decision": "attempt 1 of 2 failed",
        "bytes_sent": 9,
        "upload_id": "u",
        "duration_ms": 12,
    }


def test_the_payload_is_a_message_that_can_be_read() -> None:
    read = UploadMessage.from_payload(letter(FAIL, LAST).to_json()["payload"])
    assert (read.run, read.bundle, read.paths) == (RUN, 17, ("d/ü.txt",))


def test_an_act_is_told_with_who_and_why() -> None:
    assert letter(LAST, REPLAY).to_json()["acts"] == [
        {"at": iso(5), "act": "replay", "actor": "ada@lab", "reason": "mended"}
    ]


def test_the_document_is_the_letter_with_a_version() -> None:
    found = letter(replace(LAST, message="\udcff µ"))
    fields = json.loads(reason_document(found))
    assert fields.pop("labferry_reason") == 1
    assert fields == json.loads(json.dumps(found.to_json()))


def test_every_failure_of_the_tables_has_a_suggestion() -> None:
    rows = [*ANSWERS, *ERRNOS, *(row for _, row in OWN)]
    for row in rows:
        for code in row.codes or {""}:
            assert suggestion(row.kind, code).endswith(".")
    assert {suggestion(kind, "") for kind in Kind if suggestion(kind, "")}
    assert suggestion("no such kind", "") == suggestion(Kind.UNKNOWN, "")


def test_every_way_into_quarantine_has_a_suggestion_of_its_own() -> None:
    codes = ["bad_name", "changed_after_verified", "object_missing", "lease_expired"]
    assert len({suggestion(Kind.PERMANENT, code) for code in codes}) == len(codes)


def test_acts_are_the_operators_events() -> None:
    for event, move in MOVE_OF.items():
        note = replace(FAIL, event=event)
        is_act = note in letter(LAST, note).acts
        assert is_act == (move.actor is Actor.OPERATOR)

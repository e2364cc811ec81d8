"""What follows in a batch from what became of its files? Every case as a row."""

from dataclasses import replace

import pytest

from labferry.audit import Act
from labferry.batch import (
    MOST_UNDER_WAY,
    Batch,
    Cause,
    Item,
    Setback,
    Stage,
    after_sending,
    before_sending,
    is_unsent,
    left_because,
    room,
)
from labferry.identity import RunKey
from labferry.records import FileRecord, Fingerprint
from labferry.states import State
from tests.unit.labferry import records_by_hand

FILE = RunKey("seq", "r1").file("a")
ITEM = Item(file=FILE, cause=0, order=0, series=2, state=State.QUARANTINED)
SENT = ITEM.end(Stage.SENT)
CAUSE = Cause(fingerprint="aaaa", code="AccessDenied", count=200)
PROVEN = replace(CAUSE, proven=True)
SAME = Setback(fingerprint="aaaa", code="AccessDenied", is_final=True)
OTHER = Setback(fingerprint="bbbb", code="SlowDisk", is_final=True)
BATCH = Batch(
    id="1", act=Act(actor="ada", reason="why", what="replay"), created_ms=0, causes=(CAUSE,)
)


def record(state: State, series: int) -> FileRecord:
    return records_by_hand.record(state, series=series)


@pytest.mark.parametrize(
    ("state", "series", "stage"),
    [
        (State.QUARANTINED, 2, Stage.SENT),
        (State.DISCARDED, 2, Stage.LEFT),
        (State.VERIFIED, 2, Stage.NO_OP),
        (State.VERIFIED, 3, Stage.NO_OP),
        (State.QUARANTINED, 3, Stage.NO_OP),
        (State.UPLOADING, 3, Stage.NO_OP),
        (State.ELIGIBLE, 2, Stage.NO_OP),
    ],
)
def test_a_waiting_file_is_sent_only_as_it_was_chosen(
    state: State, series: int, stage: Stage
) -> None:
    assert before_sending(ITEM, record(state, series)).stage is stage


def test_a_discarded_file_that_was_chosen_as_such_is_sent() -> None:
    chosen = replace(ITEM, state=State.DISCARDED)
    assert before_sending(chosen, record(State.DISCARDED, 2)).stage is Stage.SENT


def test_a_file_whose_series_cannot_grow_is_left() -> None:
    item = replace(ITEM, series=255)
    assert before_sending(item, record(State.QUARANTINED, 255)).stage is Stage.LEFT


def test_a_file_that_is_gone_from_the_record_is_left() -> None:
    assert before_sending(ITEM, None).stage is Stage.LEFT
    assert after_sending(SENT, None, [], CAUSE) == (
        SENT.end(Stage.LEFT, "it is not on record any more"),
        CAUSE,
    )


@pytest.mark.parametrize(
    ("state", "series", "expected"),
    [
        (State.QUARANTINED, 2, True),
        (State.QUARANTINED, 3, False),
        (State.ELIGIBLE, 2, False),
    ],
)
def test_what_was_noted_and_not_done_is_told_by_its_series(
    state: State, series: int, expected: bool
) -> None:
    assert is_unsent(SENT, record(state, series)) is expected


@pytest.mark.parametrize(
    ("state", "setbacks", "cause", "stage", "stopped", "proven"),
    [
        (State.VERIFIED, [], CAUSE, Stage.VERIFIED, False, True),
        (State.VERIFIED, [SAME], CAUSE, Stage.VERIFIED, False, True),
        (State.UPLOADING, [], CAUSE, Stage.SENT, False, False),
        (State.FAILED, [OTHER], CAUSE, Stage.SENT, False, False),
        # The canary's first failure of the same kind is told before its retries are used up.
        (State.FAILED, [replace(SAME, is_final=False)], CAUSE, Stage.FAILED, True, False),
        (State.QUARANTINED, [SAME], CAUSE, Stage.FAILED, True, False),
        (State.QUARANTINED, [OTHER], CAUSE, Stage.FAILED, True, False),
        # Once one was verified, a passing failure is none of the batch's business.
        (State.FAILED, [replace(SAME, is_final=False)], PROVEN, Stage.SENT, False, True),
        (State.QUARANTINED, [SAME], PROVEN, Stage.FAILED, True, True),
        (State.QUARANTINED, [OTHER], PROVEN, Stage.FAILED, False, True),
        (State.DISCARDED, [], CAUSE, Stage.LEFT, False, False),
    ],
)
def test_what_became_of_a_file_decides_about_its_cause(
    state: State,
    setbacks: list[Setback],
    cause: Cause,
    stage: Stage,
    stopped: bool,
    proven: bool,
) -> None:
    item, after = after_sending(SENT, record(state, 3), setbacks, cause)
    assert (item.stage, bool(after.stopped), after.proven) == (stage, stopped, proven)


def test_another_error_stops_a_cause_when_a_second_file_has_it() -> None:
    dead = record(State.QUARANTINED, 3)
    _, once = after_sending(SENT, dead, [OTHER], PROVEN)
    _, again = after_sending(SENT, dead, [OTHER], once)
    assert not again.stopped, "the same file, seen twice"
    second = replace(SENT, file=RunKey("seq", "r1").file("b"))
    assert after_sending(second, dead, [OTHER], once)[1].stopped


@pytest.mark.parametrize(
    ("cause", "under_way", "of_cause", "since_ms", "expected"),
    [
        (CAUSE, 0, 0, 0, 1),
        (CAUSE, 1, 1, 60_000, 0),
        (CAUSE, MOST_UNDER_WAY, 0, 0, 1),
        (PROVEN, 0, 0, 1000, 10),
        (PROVEN, 0, 0, 99, 0),
        (PROVEN, 0, 0, 3_600_000, 50),
        (PROVEN, MOST_UNDER_WAY - 3, 5, 5000, 3),
        (PROVEN, MOST_UNDER_WAY + 3, 5, 5000, 0),
        (replace(PROVEN, stopped="why"), 0, 0, 1000, 0),
    ],
)
def test_one_goes_first_and_the_others_at_the_pace(
    cause: Cause, under_way: int, of_cause: int, since_ms: int, expected: int
) -> None:
    batch = replace(BATCH, per_second=10, sent_ms=1000)
    found = room(batch, cause, under_way=under_way, of_cause=of_cause, now_ms=1000 + since_ms)
    assert found == expected


def test_nothing_of_a_cancelled_batch_is_sent() -> None:
    batch = replace(BATCH, cancelled="ada: enough")
    assert room(batch, CAUSE, under_way=0, of_cause=0, now_ms=1) == 0
    assert left_because(batch, CAUSE) == "cancelled by ada: enough"
    assert left_because(BATCH, CAUSE) == ""


def test_a_file_whose_source_changed_settles_first() -> None:
    assert ITEM.event == "replay"
    assert replace(ITEM, revised=Fingerprint(1, 2, 3, 4)).event == "revise"

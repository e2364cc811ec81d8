"""Is a lost, cut or wrong answer of S3 neither taken for success nor for failure?

Numbers are those of research's 25 tests (docs/proof.md).
"""

import os

import pytest

from labferry.states import Event, State
from tests.dock import RUN
from tests.faults import (
    HTML,
    Answer,
    Delay,
    DropAfter,
    DropBefore,
    Duplicate,
    Fault,
    ResetMid,
    Truncate,
    rule,
)
from tests.memory_store import Breaking, Died
from tests.quay import ABORT, COMPLETE, CREATE, PART_PUT, PUT, SINGLE_MAX, Quay

#: One part: how many there are is not the question here.
BODY = os.urandom(SINGLE_MAX + 1)
PARTS = 1

#: What an answer to a write can be instead of itself, and whether the write was done.
ANSWERS = [
    pytest.param(DropBefore(), False, id="dropped before"),
    pytest.param(DropAfter(), True, id="dropped after"),
    pytest.param(ResetMid(50), False, id="cut in the request"),
    pytest.param(Truncate(30), True, id="cut in the answer"),
    pytest.param(Truncate(0), True, id="cut before the answer's body"),
    *[
        pytest.param(
            Answer(status, code, body, applied=applied),
            applied,
            id=f"{name}, {'done' if applied else 'not done'}",
        )
        for name, status, code, body in (
            ("error in a success", 200, "InternalError", b""),
            ("empty", 200, "", b""),
            ("HTML", 200, "", HTML),
            ("cut XML", 200, "", b"<CompleteMultipartUploadResult><ETa"),
            ("500", 500, "InternalError", b""),
            ("bare 503", 503, "", b""),
        )
        for applied in (False, True)
    ],
]


@pytest.mark.parametrize(("fault", "applied"), ANSWERS)
def test_whatever_the_answer_to_a_put_a_small_file_is_verified_and_sent_no_more_than_needed(
    quay: Quay, fault: Fault, applied: bool
) -> None:
    """Tests 5 and 7: HEAD decides, also after 412 for what is our own."""
    quay.write("f", b"small")
    quay.ferry(rule(fault, on=PUT, nth=1))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(PUT) == (1 if applied else 2)


@pytest.mark.parametrize(("fault", "applied"), ANSWERS)
def test_whatever_the_answer_to_complete_it_is_neither_false_success_nor_false_failure(
    quay: Quay, fault: Fault, applied: bool
) -> None:
    """Tests 4 and 5: decided by HEAD; sent again only after it was waited for."""
    quay.write("f", BODY)
    quay.ferry(rule(fault, on=COMPLETE, nth=1))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(COMPLETE) == (1 if applied else 2)
    assert quay.proxy.count(PART_PUT) == PARTS
    assert quay.proxy.count(CREATE) == 1
    assert quay.proxy.count(ABORT) == 0


@pytest.mark.parametrize(
    "fault",
    [Answer(404, "NoSuchUpload", applied=True), Answer(412, "PreconditionFailed", applied=True)],
    ids=["forgotten", "412"],
)
def test_a_refusal_of_what_was_done_is_no_failure(quay: Quay, fault: Fault) -> None:
    """Test 4: a server that replays nothing says NoSuchUpload for what it completed."""
    quay.write("f", BODY)
    quay.ferry(rule(fault, on=COMPLETE))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(COMPLETE) == 1
    assert quay.proxy.count(ABORT) == 0


@pytest.mark.parametrize("name", [PUT, PART_PUT, COMPLETE, CREATE])
@pytest.mark.parametrize("hears", [0, 1])
def test_a_request_delivered_twice_does_no_harm(quay: Quay, name: str, hears: int) -> None:
    """Test 7: the second delivery is told 412, or does the work again."""
    quay.write("f", b"small" if name == PUT else BODY)
    quay.ferry(rule(Duplicate(hears), on=name))
    quay.verified("f")
    quay.untouched("f")


@pytest.mark.parametrize(("fault", "orphans"), [(DropBefore(), 0), (DropAfter(), 1)], ids=str)
def test_a_lost_answer_to_create_leaves_one_upload_in_use_and_no_orphan(
    quay: Quay, fault: Fault, orphans: int
) -> None:
    """Test 2."""
    quay.write("f", BODY)
    quay.ferry(rule(fault, on=CREATE, nth=1))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(CREATE) == 2
    assert quay.proxy.count(ABORT) == orphans


def test_an_upload_whose_id_was_never_recorded_is_ended_by_the_next_owner(quay: Quay) -> None:
    """Test 3."""
    quay.write("f", BODY)
    with pytest.raises(Died):
        quay.dock.ferry(ledger=Breaking(quay.dock.ledger, 2, method="save_upload"))
    (orphan,) = quay.uploads("f")
    quay.finish()
    quay.verified("f")
    assert quay.proxy.count(ABORT) == 1
    assert orphan not in quay.uploads("f")


def test_a_complete_that_ends_after_it_was_given_up_is_neither_repeated_nor_aborted(
    quay: Quay,
) -> None:
    """Test 6."""
    quay.lose_patience(complete_timeout_s=0.4)
    quay.dock.tune("store", complete_timeout_s=60)
    quay.write("f", BODY)
    quay.ferry(rule(Delay(before_s=1), on=COMPLETE))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(COMPLETE) == 1
    assert quay.proxy.count(ABORT) == 0


def test_a_complete_still_under_way_is_waited_for_by_the_next_owner_too(quay: Quay) -> None:
    """Test 6: the one who sent it died."""
    quay.lose_patience(complete_timeout_s=0.4)
    quay.dock.tune("store", complete_timeout_s=60)
    quay.write("f", BODY)
    quay.proxy.script(rule(Delay(before_s=1), on=COMPLETE))
    with pytest.raises(Died):
        quay.dock.ferry(store=Breaking(quay.dock.store, 2, method="find_object"))
    quay.dock.finish()
    quay.verified("f")
    assert quay.proxy.count(COMPLETE) == 1
    assert quay.proxy.count(ABORT) == 0
    assert quay.dock.record("f").attempt == 0


def test_after_a_conflict_between_puts_the_file_is_put_again(quay: Quay) -> None:
    """Test 8."""
    quay.write("f", b"small")
    quay.ferry(rule(Answer(409, "ConditionalRequestConflict"), on=PUT, nth=1))
    quay.verified("f")
    assert quay.proxy.count(PUT) == 2


def test_after_a_conflict_between_completes_a_new_upload_is_made(quay: Quay) -> None:
    """Test 8."""
    quay.write("f", BODY)
    quay.ferry(rule(Answer(409, "ConditionalRequestConflict"), on=COMPLETE, nth=1))
    quay.verified("f")
    assert quay.proxy.count(CREATE) == 2
    assert quay.proxy.count(PART_PUT) == 2 * PARTS
    assert quay.proxy.count(ABORT) == 1


def test_conflicts_without_end_cost_attempts_and_end_in_a_dead_letter(quay: Quay) -> None:
    """Test 8: the budget is finite."""
    quay.dock.tune("retry", attempts=2)
    quay.write("f", b"small")
    quay.finish(rule(Answer(409, "ConditionalRequestConflict"), on=PUT, key="*/f"))
    assert quay.dock.state("f") is State.QUARANTINED
    assert [event for event, _ in quay.dock.codes("f")] == [Event.FAIL, Event.QUARANTINE]
    quay.absent("f")


def test_a_complete_that_never_works_is_no_endless_loop(quay: Quay) -> None:
    """Tests 5 and 6: each attempt sends two at most, and waits for each."""
    quay.dock.tune("retry", attempts=2)
    quay.dock.tune("store", complete_timeout_s=0.2)
    quay.write("f", BODY)
    quay.finish(rule(Answer(503), on=COMPLETE, key="*/f"))
    assert quay.dock.state("f") is State.QUARANTINED
    assert quay.proxy.count(COMPLETE) == 4
    assert quay.proxy.count(PART_PUT) == PARTS
    quay.absent("f")
    upload = quay.dock.ledger.find_upload(RUN.file("f"))
    assert upload is not None
    assert quay.uploads("f") == [upload.upload_id]

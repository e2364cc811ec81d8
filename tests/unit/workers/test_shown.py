"""What does Flower show of a message whose files are not all verified?"""

import pickle
from datetime import UTC, datetime

import pytest
from celery.exceptions import Ignore, Retry

from labferry.failures import Failure, Kind
from labferry.states import State
from labferry.word import Word
from workers.attempt import Result, not_claimed
from workers.shown import FileFailed, FileHeld, FileQuarantined, FileReturned, shown

DUE = datetime(2026, 11, 30, 8, 15, tzinfo=UTC)
LATER = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


def ended(path: str, state: State, code: str = "", due: datetime | None = None) -> Result:
    failure = Failure(kind=Kind.UNKNOWN, code=code, message=f"{path} was refused.")
    due_ms = int(due.timestamp() * 1000) if due else 0
    return Result(path, state, failure if code else None, due_ms=due_ms)


VERIFIED = [ended(f"v{number}", State.VERIFIED) for number in range(3)]
DEAD = ended("d/dead", State.QUARANTINED, "AccessDenied")
FAILED = ended("d/failed", State.FAILED, "SlowAnswer", LATER)
HELD = ended("d/held", State.HELD, "ExpiredToken", DUE)


def retry(results: list[Result]) -> Retry:
    with pytest.raises(Retry) as caught:
        shown(results)
    found: Retry = pickle.loads(pickle.dumps(caught.value))  # as Celery's own processes do
    return found


def test_a_message_whose_files_are_all_verified_is_a_success() -> None:
    assert shown(VERIFIED[:1]) == "1 verified"
    assert shown(VERIFIED) == "3 verified"


@pytest.mark.parametrize("states", [[], [State.UPLOADING, State.UPLOADED]])
def test_a_message_whose_files_another_delivery_works_on_leaves_its_row_to_that(
    states: list[State],
) -> None:
    with pytest.raises(Ignore):
        shown([ended("f", state) for state in states])


@pytest.mark.parametrize("state", sorted(set(State) - {State.VERIFIED}))
def test_no_state_but_verified_is_a_success(state: State) -> None:
    with pytest.raises((Retry, FileQuarantined)):
        shown([*VERIFIED, ended("f", state)])


def test_a_file_alone_shows_its_own_error() -> None:
    with pytest.raises(FileQuarantined) as caught:
        shown([DEAD])
    assert str(caught.value) == "AccessDenied: d/dead was refused."


def test_one_dead_letter_makes_its_bundle_a_failure_whatever_else_became_of_it() -> None:
    with pytest.raises(FileQuarantined) as caught:
        shown([*VERIFIED, FAILED, DEAD, HELD])
    assert str(caught.value) == (
        "1 failed, 1 held, 1 quarantined, 3 verified; "
        "first d/dead: AccessDenied: d/dead was refused."
    )


def test_a_parked_file_shows_its_error_and_the_next_try() -> None:
    found = retry([FAILED])
    assert (type(found.exc), found.when) == (FileFailed, LATER)
    said = "SlowAnswer: d/failed was refused. Next try: 2026-11-30 09:00:00 UTC."
    assert str(found.exc) == said
    assert said in str(found)


def test_a_held_file_is_not_called_quarantined() -> None:
    found = retry([HELD])
    assert (type(found.exc), found.when) == (FileHeld, DUE)
    assert "ExpiredToken" in str(found.exc)


def test_a_bundle_with_parked_files_shows_the_gravest_and_the_earliest_try() -> None:
    found = retry([HELD, *VERIFIED, FAILED])
    assert (type(found.exc), found.when) == (FileFailed, DUE)
    assert str(found.exc) == (
        "1 failed, 1 held, 3 verified; first d/failed: SlowAnswer: d/failed was refused. "
        "Next try: 2026-11-30 08:15:00 UTC."
    )


@pytest.mark.parametrize("state", [State.DISCOVERED, State.ELIGIBLE])
def test_what_was_not_done_and_is_not_parked_names_no_next_try(state: State) -> None:
    found = retry([ended("f", state)])
    assert (type(found.exc), found.when, str(found)) == (FileReturned, None, f"{state}.")


def test_a_run_that_an_operator_holds_says_who_and_why() -> None:
    found = retry([not_claimed("f", Word(actor="ada", reason="new disks", at_ms=1))])
    assert str(found) == "held_by_operator: ada: new disks. It comes again once it is released."

"""When is a run sealed, incomplete, complete, and what does it need next?"""

from dataclasses import replace
from typing import Any

import pytest

from labferry.completion import NextStep, RunState, next_step, run_state
from labferry.identity import RunKey
from labferry.records import Lane, RunFacts
from labferry.states import State


def facts(*, sealed: bool = True, completed: int = 0, sent: int = 0, **counts: int) -> RunFacts:
    return RunFacts(
        run=RunKey("seq", "r1"),
        generation=1,
        opened_ms=1,
        changed_ms=1,
        sealed_ms=2 if sealed else 0,
        completed=completed,
        marker="",
        counts={state: counts.get(state.value, 0) for state in State},
        sizes=dict.fromkeys(State, 0),
        ready=dict.fromkeys(Lane, 0),
        sent=sent,
        now_ms=3,
    )


MOVING = ["eligible", "uploading", "uploaded", "failed"]


def test_a_run_that_is_not_sealed_is_open_and_waits() -> None:
    assert run_state(facts(sealed=False, verified=3)) is RunState.OPEN
    assert next_step(facts(sealed=False, verified=3)) is NextStep.WAIT


@pytest.mark.parametrize("state", MOVING)
def test_a_sealed_run_waits_for_every_file_that_is_on_its_way(state: str) -> None:
    one: dict[str, Any] = {state: 1}
    assert run_state(facts(verified=3, **one)) is RunState.SEALED
    assert next_step(facts(verified=3, **one)) is NextStep.WAIT


@pytest.mark.parametrize("state", ["quarantined", "held", "discarded"])
def test_what_is_stuck_makes_a_sealed_run_incomplete_and_never_complete(state: str) -> None:
    one: dict[str, Any] = {state: 1}
    assert run_state(facts(verified=3, **one)) is RunState.INCOMPLETE
    assert next_step(facts(verified=3, **one)) is NextStep.WAIT


def test_the_last_files_are_released_when_all_others_are_verified() -> None:
    assert next_step(facts(verified=3, discovered=1)) is NextStep.RELEASE_LAST
    assert next_step(facts(verified=3, discovered=1, failed=1)) is NextStep.WAIT


def test_a_sealed_run_of_verified_and_skipped_files_is_ready_to_complete() -> None:
    assert next_step(facts(verified=3, skipped=2)) is NextStep.COMPLETE


def test_a_message_still_under_way_does_not_hold_up_completion() -> None:
    assert next_step(facts(verified=3, sent=1)) is NextStep.COMPLETE


def test_a_complete_run_retires_only_when_nothing_moves() -> None:
    done = facts(completed=1, verified=3)
    assert run_state(done) is RunState.COMPLETE
    assert next_step(done) is NextStep.RETIRE
    assert next_step(replace(done, sent=1)) is NextStep.WAIT
    assert next_step(replace(done, reasons_due=1)) is NextStep.WAIT
    late = facts(completed=1, verified=3, discovered=1)
    assert next_step(late) is NextStep.WAIT


def test_a_newer_generation_makes_the_run_open_again() -> None:
    assert run_state(replace(facts(completed=1, sealed=False), generation=2)) is RunState.OPEN

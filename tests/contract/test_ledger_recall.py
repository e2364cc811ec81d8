"""Do dead letters come back into a ledger as they were, and into no file that is worked on?"""

from typing import Any

from labferry.dead_letter import DeadLetter
from labferry.records import Note, Outcome
from labferry.states import MOVE_OF, Event, State
from tests.ledger_world import PRINT, RUN, World
from tests.unit.labferry.records_by_hand import record

NOTES = tuple(
    Note(event=event, kind="transient", code="500", message="no", at_ms=at_ms, series=2)
    for event, at_ms in ((Event.FAIL, 1_700_000_000_000), (Event.QUARANTINE, 1_700_000_000_009))
)
SINCE_MS = 1_700_000_000_009


def letter(path: str, **counters: Any) -> DeadLetter:
    dead = record(
        State.QUARANTINED, **{"attempt": 3, "lost": 1, "rounds": 2, "series": 2} | counters
    )
    return DeadLetter(file=RUN.file(path), at_ms=SINCE_MS, record=dead, notes=NOTES)


def test_a_letter_is_back_with_its_counters_history_and_date(world: World) -> None:
    world.discover("a", "b")
    assert world.ledger.recall(RUN, [letter("a"), letter("b")], is_told=True) == [Outcome.DONE] * 2
    found = world.record("a")
    assert (found.attempt, found.lost, found.rounds, found.series) == (3, 1, 2, 2)
    assert found.fingerprint == PRINT
    assert world.ledger.history(RUN.file("a")) == list(NOTES)
    dead = {one.path: one for one in world.ledger.dead_files(RUN)}
    assert (dead["a"].since_ms, dead["a"].notes) == (SINCE_MS, NOTES)
    assert world.facts().counts[State.QUARANTINED] == 2


def test_the_bucket_is_told_of_what_it_does_not_tell_of(world: World) -> None:
    world.discover("told", "untold")
    world.ledger.recall(RUN, [letter("told")], is_told=True)
    assert world.ledger.reasons_due(RUN, 0, 9) == []
    world.ledger.recall(RUN, [letter("untold")], is_told=False)
    assert [path for path, _ in world.ledger.reasons_due(RUN, 0, 9)] == ["untold"]


def test_only_what_the_table_allows_is_recalled(world: World) -> None:
    for state in sorted(State, key=lambda one: one is State.ELIGIBLE):  # a take would take it
        world.bring(state, state)
    outcomes = world.ledger.recall(RUN, [letter(state) for state in State], is_told=True)
    for state, outcome in zip(State, outcomes, strict=True):
        allowed = state in MOVE_OF[Event.RECALL].sources or state is State.QUARANTINED
        assert outcome is (Outcome.DONE if allowed else Outcome.ILLEGAL), state
    assert world.ledger.history(RUN.file(State.QUARANTINED)) == []
    assert world.ledger.recall(RUN, [letter("never seen")], is_told=True) == [Outcome.MISSING]
    world.facts()


def test_twice_is_as_once(world: World) -> None:
    world.discover("a")
    world.ledger.recall(RUN, [letter("a")], is_told=True)
    again = [letter("a", attempt=9)]
    assert world.ledger.recall(RUN, again, is_told=True) == [Outcome.DONE]
    assert world.record("a").attempt == 3
    assert world.ledger.history(RUN.file("a")) == list(NOTES)


def test_what_was_queued_is_not_taken_once_it_is_a_letter(world: World) -> None:
    world.settle("a")
    world.ledger.recall(RUN, [letter("a")], is_told=True)
    assert world.take() == []

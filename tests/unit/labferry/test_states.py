"""Does the table of states hold together?"""

from itertools import product

import pytest

from labferry.ledger.effects import EFFECT_OF, PARKED
from labferry.states import (
    AT_REST,
    LEASED,
    MOVE_OF,
    MOVES,
    STATE_OF_WIRE,
    Actor,
    Event,
    State,
    advance,
    mermaid,
)


def reachable(*, without: frozenset[Actor] = frozenset()) -> dict[State, set[State]]:
    """Return from each state where moves lead, in any number of steps."""
    leads = {
        state: {
            move.target for move in MOVES if state in move.sources and move.actor not in without
        }
        for state in State
    }
    for _ in State:
        for state in State:
            leads[state] |= {far for near in leads[state] for far in leads[near]}
    return leads


def test_every_event_has_one_row() -> None:
    assert len(MOVES) == len(Event)
    assert MOVE_OF.keys() == set(Event)


def test_every_state_has_a_letter_of_its_own() -> None:
    assert {state.wire for state in State} == STATE_OF_WIRE.keys()
    assert len(STATE_OF_WIRE) == len(State)
    assert all(len(letter.encode()) == 1 for letter in STATE_OF_WIRE)
    assert all(STATE_OF_WIRE[state.wire] is state for state in State)


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_an_event_leads_to_its_target_from_its_sources_alone(state: State, event: Event) -> None:
    move = MOVE_OF[event]
    assert advance(state, event) is (move.target if state in move.sources else None)


def test_no_event_leads_back_to_where_it_came_from_but_a_change() -> None:
    assert [move.event for move in MOVES if move.target in move.sources] == [Event.CHANGE]


def test_a_token_is_demanded_of_the_holder_and_nobody_else() -> None:
    assert all(move.needs_token == (move.actor is Actor.HOLDER) for move in MOVES)


def test_a_holder_moves_only_what_is_leased() -> None:
    assert all(move.sources <= LEASED for move in MOVES if move.actor is Actor.HOLDER)


def test_a_lease_begins_with_a_claim_alone() -> None:
    begins = [move for move in MOVES if move.target in LEASED and not move.sources <= LEASED]
    assert [move.event for move in begins] == [Event.CLAIM]


def test_a_lease_is_ended_by_its_holder_or_the_sweep() -> None:
    ends = [move for move in MOVES if move.sources & LEASED and move.target not in LEASED]
    assert {move.actor for move in ends} == {Actor.HOLDER, Actor.SWEEPER}


def test_verified_is_reached_from_a_lease_by_verify_alone() -> None:
    assert [move.event for move in MOVES if move.target is State.VERIFIED] == [Event.VERIFY]
    assert MOVE_OF[Event.VERIFY].needs_token


def test_every_state_is_reached_from_discovery() -> None:
    first = MOVE_OF[Event.DISCOVER].target
    assert reachable()[first] | {first} == set(State)


@pytest.mark.parametrize("state", sorted(set(State) - AT_REST))
def test_a_file_that_is_not_at_rest_can_be_verified_without_an_operator(state: State) -> None:
    assert State.VERIFIED in reachable(without=frozenset({Actor.OPERATOR}))[state]


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_a_file_at_rest_is_moved_on_by_its_source_its_object_or_an_operator_alone(
    state: State,
) -> None:
    moved_by = {move.event for move in MOVES if state in move.sources}
    of_the_operator = {move.event for move in MOVES if move.actor is Actor.OPERATOR}
    of_the_source = {Event.CONFLICT, Event.SUPERSEDE, Event.RECHECK, Event.REAPPEAR}
    assert moved_by <= of_the_source | {Event.LOSE, Event.RECALL} | of_the_operator


def test_what_the_operator_gave_up_can_be_sent_in_again() -> None:
    assert advance(State.DISCARDED, Event.REPLAY) is State.ELIGIBLE


def test_a_parked_file_comes_back_by_a_retry() -> None:
    assert MOVE_OF[Event.RETRY].sources == PARKED


def test_every_event_that_move_takes_has_an_effect() -> None:
    own_call = {Event.DISCOVER, Event.CLAIM, Event.RETRY}
    assert EFFECT_OF.keys() == set(Event) - own_call


def test_what_becomes_eligible_by_a_move_is_queued() -> None:
    queued = {event for event, effect in EFFECT_OF.items() if effect.queues}
    assert queued == {e for e in EFFECT_OF if MOVE_OF[e].target is State.ELIGIBLE}


def test_evidence_is_demanded_for_verified_and_nothing_else() -> None:
    proves = {event for event, effect in EFFECT_OF.items() if effect.proves}
    assert proves == {e for e in EFFECT_OF if MOVE_OF[e].target is State.VERIFIED}


def test_what_has_to_settle_again_touches_the_run() -> None:
    touches = {event for event, effect in EFFECT_OF.items() if effect.touches}
    assert touches == {e for e in EFFECT_OF if MOVE_OF[e].target is State.DISCOVERED}


def test_the_diagram_shows_every_move() -> None:
    lines = mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) - 1 == sum(len(move.sources) or 1 for move in MOVES)
    assert "    [*] --> discovered: discover (producer)" in lines
    assert "    uploaded --> verified: verify (holder)" in lines

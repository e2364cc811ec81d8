"""Do the table of states and the ledgers agree on every state, event and token?

Every triple is tried on both ledgers: what the table allows lands where it says, everything else
is refused and changes nothing.
"""

import pytest

from labferry.records import Lane, Outcome, Step
from labferry.states import AT_REST, LEASED, MOVE_OF, Actor, Event, State, advance
from tests.ledger_world import EVIDENCE, PRINT, RUN, TTL_MS, World

#: Which token a caller shows, relative to the newest.
NEWEST, STALE, NONE = "newest", "stale", "none"
#: Each of these has a call of its own.
OWN_CALL = (Event.DISCOVER, Event.CLAIM, Event.RETRY)
BY_MOVE = [event for event in Event if event not in OWN_CALL]


def prepare(world: World) -> dict[State, int]:
    """Bring one file, named like it, to every state; return the tokens."""
    for state in State:
        if state not in {State.ELIGIBLE, State.DISCOVERED, State.SKIPPED}:
            _claim_before(world, state)
    for state in (State.DISCOVERED, State.SKIPPED, State.ELIGIBLE):
        world.bring(state, state)
    return {state: world.token(state) for state in State}


def _claim_before(world: World, state: State) -> None:
    """Let the file be claimed twice, so that there is a token that was the newest once."""
    world.upload(state)
    world.as_holder(Event.YIELD, state)
    (newest,) = world.claim(state)
    ways = {
        State.UPLOADING: (),
        State.UPLOADED: (Event.STORE,),
        State.VERIFIED: (Event.VERIFY,),
        State.FAILED: (Event.FAIL,),
        State.HELD: (Event.HOLD,),
        State.QUARANTINED: (Event.QUARANTINE,),
        State.DISCARDED: (Event.QUARANTINE, Event.DISCARD),
    }
    for event in ways[state]:
        token = newest if MOVE_OF[event].needs_token else 0
        done = world.move(event, state, token=token, evidence=EVIDENCE, delay_ms=0)
        assert done == [Outcome.DONE]
    assert world.record(state).state is state


def expected(state: State, event: Event, shown: int, newest: int) -> Outcome:
    """Return what the port promises of a move, on leases that have lapsed."""
    held_back = MOVE_OF[event].needs_token or shown
    if MOVE_OF[event].needs_token and shown == newest and state is MOVE_OF[event].target:
        return Outcome.DONE
    if held_back and shown != newest:
        return Outcome.FENCED
    if advance(state, event) is None:
        return Outcome.ILLEGAL
    if state in LEASED and not shown:
        return Outcome.FENCED
    return Outcome.DONE


def _shown(shows: str, newest: int) -> int:
    if shows == STALE:
        return newest - 1 if newest > 1 else newest + 1
    return newest if shows == NEWEST else 0


@pytest.mark.parametrize("shows", [NEWEST, STALE, NONE])
@pytest.mark.parametrize("event", BY_MOVE)
def test_every_move_lands_as_the_table_says_or_is_refused(
    world: World, event: Event, shows: str
) -> None:
    tokens = prepare(world)
    world.pass_ms(TTL_MS)
    before = {state: world.record(state) for state in State}
    shown = {state: _shown(shows, newest) for state, newest in tokens.items()}
    steps = [
        Step(
            path=state,
            token=shown[state],
            fingerprint=PRINT,
            lane=Lane.SMALL,
            evidence=EVIDENCE,
            delay_ms=0,
        )
        for state in State
    ]
    outcomes = dict(zip(State, world.apply(event, steps), strict=True))
    assert outcomes == {
        state: expected(state, event, shown[state], tokens[state]) for state in State
    }
    for state, outcome in outcomes.items():
        lands = outcome is Outcome.DONE and advance(state, event) is not None
        if lands:
            assert world.record(state).state is advance(state, event)
        else:
            assert world.record(state) == before[state]
    world.facts()


def test_discovery_moves_nothing_that_is_on_record(world: World) -> None:
    prepare(world)
    before = dict(world.ledger.records(RUN))
    assert world.discover(*State, "new", fingerprint=PRINT._replace(size=1)) == 1
    after = dict(world.ledger.records(RUN))
    assert after.pop("new").state is MOVE_OF[Event.DISCOVER].target
    assert after == before


def test_a_claim_moves_what_the_table_says(world: World) -> None:
    prepare(world)
    claims = world.claims(*State)
    assert {claim.path for claim in claims} == {
        state for state in State if advance(state, Event.CLAIM)
    }
    for state in State:
        assert world.record(state).state is (advance(state, Event.CLAIM) or state)
    world.facts()


def test_a_retry_moves_what_the_table_says(world: World) -> None:
    prepare(world)
    bundles = [*world.ledger.take_due(RUN, 100), *world.take(max_files=1)]
    retried = {state for state in State if advance(state, Event.RETRY)}
    assert {bundle.paths[0] for bundle in bundles} == {*retried, State.ELIGIBLE}
    for state in State:
        assert world.record(state).state is (advance(state, Event.RETRY) or state)
    world.facts()


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_one_thing_that_will_move_it(world: World, state: State) -> None:
    """A lease that can lapse, a due time, a message or its place in the queue, the next scan; or
    the file is at rest."""
    world.bring(state, "a")
    leased = bool(world.ledger.find_due(RUN.file("a"))) and state in LEASED
    parked = bool(world.ledger.find_due(RUN.file("a"))) and state not in LEASED
    queued = world.facts().ready[Lane.SMALL] > 0
    scanned = any(
        state in move.sources and move.actor is Actor.PRODUCER and move.event is Event.SETTLE
        for move in MOVE_OF.values()
    )
    assert [leased, parked, queued, scanned, state in AT_REST].count(True) == 1


@pytest.mark.parametrize("state", sorted(LEASED))
def test_a_leased_file_is_never_without_an_end_of_its_lease(world: World, state: State) -> None:
    world.bring(state, "a")
    ends = world.ledger.find_due(RUN.file("a"))
    assert ends is not None
    assert ends <= world.ledger.now_ms() + TTL_MS

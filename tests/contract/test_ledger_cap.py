"""Does every ledger keep an instrument's files under lease within its cap, whoever claims?"""

import threading
from concurrent.futures import ThreadPoolExecutor

from labferry.identity import RunKey
from labferry.records import Lane
from labferry.states import Event, State
from tests.ledger_indexes import indexes
from tests.ledger_world import EVIDENCE, OTHER, RUN, TTL_MS, World

SCOPE = RunKey("scope", "r1")


def claim(world: World, cap: int | None, *, run: RunKey = RUN, most: int = 1000) -> list[str]:
    """Claim what is sent in one message; return the paths."""
    (bundle,) = world.take(run=run, bundles=1, max_files=most)
    return [one.path for one in world.ledger.claim(run, bundle.number, bundle.paths, 1, cap)]


def test_all_runs_of_an_instrument_share_a_cap_and_other_instruments_have_their_own(
    world: World,
) -> None:
    for run in (RUN, OTHER, SCOPE):
        world.settle("a", "b", "c", run=run)
    assert claim(world, 4) == ["a", "b", "c"]
    assert claim(world, 4, run=OTHER) == ["a"]
    assert claim(world, 4, run=OTHER) == []
    assert claim(world, 4, run=SCOPE) == ["a", "b", "c"]
    world.as_holder(Event.VERIFY, "a", evidence=EVIDENCE)
    assert claim(world, 4, run=OTHER) == ["b"]


def test_what_is_above_the_cap_waits_for_a_message_before_all_others(world: World) -> None:
    world.settle(*"abcde")
    assert claim(world, 1, most=3) == ["a"]
    assert world.facts().sent == 0
    assert indexes(world, RUN).ready == list("bcde")
    world.as_holder(Event.FAIL, "a", delay_ms=0)
    assert claim(world, 2) == ["b", "c"]


def test_what_is_above_the_cap_waits_in_its_lane(world: World) -> None:
    world.settle("a", lane=Lane.LARGE)
    (bundle,) = world.take(Lane.LARGE)
    world.settle("c", run=OTHER)
    assert claim(world, 1, run=OTHER) == ["c"]
    assert world.ledger.claim(RUN, bundle.number, bundle.paths, 1, 1) == []
    assert world.facts().ready == {Lane.SMALL: 0, Lane.LARGE: 1}


def test_a_message_that_comes_twice_passes_no_cap_and_queues_nothing_twice(world: World) -> None:
    world.settle("a", "b", "c")
    (bundle,) = world.take()
    again = [world.ledger.claim(RUN, bundle.number, bundle.paths, 1, 2) for _ in range(3)]
    assert [[one.path for one in claims] for claims in again] == [["a", "b"], [], []]
    assert indexes(world, RUN).ready == ["c"]


def test_every_end_of_a_lease_frees_its_share(world: World) -> None:
    for event in (Event.FAIL, Event.HOLD, Event.ABANDON, Event.YIELD, Event.QUARANTINE):
        world.settle(event, f"{event} next")
        assert claim(world, 1, most=1) == [event]
        world.as_holder(Event.STORE, event)
        assert claim(world, 1) == []
        world.as_holder(event, event, delay_ms=TTL_MS)
        assert claim(world, 1, most=1)[0] in {event, f"{event} next"}
        for path in (event, f"{event} next"):
            world.as_holder(Event.VERIFY, path, evidence=EVIDENCE)
        world.take()  # what is left waits for nobody here
    assert world.facts().counts[State.UPLOADING] == 0


def test_a_lost_workers_share_is_free_once_its_lease_was_ended(world: World) -> None:
    world.settle("a", "b")
    assert claim(world, 1, most=1) == ["a"]
    world.pass_ms(TTL_MS)
    assert claim(world, 1) == []
    token = world.token("a")
    assert world.ledger.renew(RUN, [("a", token)]) == [True], "it was late, and goes on"
    world.pass_ms(TTL_MS)
    world.move(Event.EXPIRE, "a", token=token, delay_ms=TTL_MS)
    assert claim(world, 1) == ["b"]


def test_racers_never_pass_a_cap(world: World) -> None:
    paths = [f"f{number}" for number in range(64)]
    for run in (RUN, OTHER):
        world.settle(*paths, run=run)
    bundles = [*world.take(max_files=2), *world.take(max_files=2, run=OTHER)]
    ledgers = [world.second() for _ in range(8)]
    start = threading.Barrier(len(bundles))

    def race(number: int) -> int:
        start.wait()
        one = bundles[number]
        return len(ledgers[number % 8].claim(one.run, one.number, one.paths, 1, 5))

    with ThreadPoolExecutor(len(bundles)) as pool:
        assert sum(pool.map(race, range(len(bundles)))) == 5
    facts = [world.facts(run) for run in (RUN, OTHER)]
    assert sum(one.counts[State.UPLOADING] for one in facts) == 5
    assert sum(one.ready[Lane.SMALL] for one in facts) == 2 * len(paths) - 5


def test_without_a_cap_nothing_is_kept_from_a_claim(world: World) -> None:
    world.settle("a", "b")
    assert claim(world, 1, most=1) == ["a"]
    assert claim(world, None) == ["b"]

"""Does the ledger count what was done, and tell what waits longest, in memory and on a server?"""

import pytest

from labferry.ledger import RedisLedger
from labferry.ledger.keys import TALLIES
from labferry.states import Event, State
from labferry.tallies import BEYOND, Tally, What
from tests.ledger_world import OTHER, RUN, World, server_world

NAME = RUN.instrument
DONE = Tally(NAME, What.ATTEMPT, State.VERIFIED)
LOST = Tally(NAME, What.LEASE_LOST)


def test_what_is_counted_adds_up(world: World) -> None:
    world.ledger.tally({DONE: 3, LOST: 1}, {})
    world.second().tally({DONE: 4}, {})
    assert world.ledger.tallies().counts == {DONE: 7, LOST: 1}


def test_a_time_to_verified_is_counted_once_under_its_bound_on_the_ledgers_clock(
    world: World,
) -> None:
    now_ms = world.ledger.now_ms()
    ages_s = [-5, 1, 9, 40, 100_000]
    world.ledger.tally({}, {NAME: [now_ms - age * 1000 for age in ages_s]})
    counts = dict(world.ledger.tallies().counts)
    waited_ms = counts.pop(Tally(NAME, What.WAITED_MS))
    assert waited_ms == pytest.approx(100_050_000, abs=9000)
    expected = {"10": 3, "60": 1, BEYOND: 1}
    assert counts == {Tally(NAME, What.WAIT, code=code): n for code, n in expected.items()}


def test_an_instrument_moves_with_what_workers_do_and_not_with_what_they_lose(world: World) -> None:
    world.ledger.tally({LOST: 1}, {})
    assert world.ledger.tallies().moved_ms == {}
    world.ledger.tally({Tally(NAME, What.SENT_BYTES): 1}, {})
    assert world.ledger.tallies().moved_ms[NAME] == pytest.approx(world.ledger.now_ms(), abs=5000)


def test_a_counter_of_a_newer_labferry_hides_no_other(ledger_url: str) -> None:
    ledger = server_world(ledger_url).ledger
    assert isinstance(ledger, RedisLedger)
    ledger.tally({DONE: 1}, {})
    ledger._server.client.hset(TALLIES, "seq/unheard_of//", 3)
    assert ledger.tallies().counts == {DONE: 1}


def test_the_file_that_waits_longest_is_found_with_a_message_or_without(world: World) -> None:
    assert world.ledger.waiting_since([RUN]) == 0
    world.settle("first")
    first_ms = world.record("first").settled_ms
    assert world.ledger.waiting_since([RUN]) == first_ms
    (bundle,) = world.take()
    world.settle("second")
    assert world.ledger.waiting_since([RUN]) == first_ms
    world.claim(bundle=bundle.number)
    assert world.ledger.waiting_since([RUN]) == world.record("second").settled_ms


def test_what_is_claimed_waits_no_more(world: World) -> None:
    world.upload("a")
    assert world.ledger.waiting_since([RUN]) == 0


def test_of_several_runs_the_longest_wait_counts_and_of_none_there_is_none(world: World) -> None:
    world.settle("first")
    (bundle,) = world.take()
    world.settle("second", run=OTHER)
    assert world.ledger.waiting_since([OTHER, RUN]) == world.record("first").settled_ms
    world.claim(bundle=bundle.number)
    assert world.ledger.waiting_since([OTHER, RUN]) == world.record("second", OTHER).settled_ms
    assert world.ledger.waiting_since([]) == world.ledger.dead_since([]) == 0


def test_the_oldest_dead_letter_is_found_until_it_is_none(world: World) -> None:
    assert world.ledger.dead_since([RUN]) == 0
    world.bring(State.QUARANTINED, "a")
    since_ms = world.ledger.dead_since([RUN])
    assert since_ms == pytest.approx(world.ledger.now_ms(), abs=5000)
    world.bring(State.QUARANTINED, "b")
    assert world.ledger.dead_since([RUN]) == since_ms
    world.move(Event.DISCARD, "a", "b")
    assert world.ledger.dead_since([RUN]) == 0


def test_whether_somebody_leads_is_told_until_the_lock_ends(world: World) -> None:
    assert not world.ledger.is_led("sweep")
    assert world.ledger.leadership("sweep", keep_s=3).keep()
    assert world.ledger.is_led("sweep") and not world.ledger.is_led("feed")
    world.pass_ms(3001)
    assert not world.ledger.is_led("sweep")

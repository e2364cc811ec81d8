"""Does every ledger bundle eligible files, and keep each bundle until it is claimed?"""

from dataclasses import replace

import pytest

from labferry.identity import RunKey
from labferry.records import Bundle, Claim, Lane, Outcome
from labferry.states import Event, State
from labferry.throttle import Pace
from tests.ledger_world import ACT, EVIDENCE, OTHER, PRINT, RESEND_MS, RUN, World

HOUR_MS = 3_600_000


def paths_of(bundles: list[Bundle]) -> list[tuple[str, ...]]:
    return [bundle.paths for bundle in bundles]


def test_files_are_taken_in_the_order_in_which_they_settled(world: World) -> None:
    world.settle("c", "a")
    world.settle("b")
    (bundle,) = world.take()
    assert bundle.paths == ("c", "a", "b")
    assert (bundle.run, bundle.lane, bundle.tries) == (RUN, Lane.SMALL, 0)


def test_a_file_is_taken_once(world: World) -> None:
    world.settle("a", "b")
    assert paths_of(world.take(bundles=1, max_files=1)) == [("a",)]
    assert paths_of(world.take()) == [("b",)]
    assert world.take() == []
    assert world.take(run=OTHER) == []


def test_a_bundle_has_at_most_so_many_files(world: World) -> None:
    world.settle(*"abcdefg")
    assert paths_of(world.take(bundles=2, max_files=3)) == [tuple("abc"), tuple("def")]
    assert paths_of(world.take(bundles=2, max_files=3)) == [("g",)]


def test_a_bundle_has_at_most_so_many_bytes(world: World) -> None:
    for path, size in (("a", 40), ("b", 60), ("c", 1), ("d", 500), ("e", 0), ("f", 100)):
        world.discover(path, fingerprint=PRINT._replace(size=size))
    world.settle(*"abcdef")
    taken = paths_of(world.take(max_bytes=100))
    assert taken == [("a", "b"), ("c",), ("d",), ("e", "f")], "a larger file rides alone"


def test_what_did_not_fit_stays_first(world: World) -> None:
    world.settle("a", "b", "c")
    assert paths_of(world.take(bundles=1, max_bytes=PRINT.size)) == [("a",)]
    assert paths_of(world.take()) == [("b", "c")]


def test_lanes_are_taken_apart(world: World) -> None:
    world.settle("small")
    world.settle("large", lane=Lane.LARGE)
    assert world.facts().ready == {Lane.SMALL: 1, Lane.LARGE: 1}
    (bundle,) = world.take(Lane.LARGE)
    assert (bundle.paths, bundle.lane) == (("large",), Lane.LARGE)
    assert world.facts().ready == {Lane.SMALL: 1, Lane.LARGE: 0}


def test_a_file_that_grew_into_the_other_lane_is_not_taken_in_the_old_one(world: World) -> None:
    world.settle("a")
    large = PRINT._replace(size=2**40)
    world.move(Event.CHANGE, "a", fingerprint=large)
    world.settle("a", lane=Lane.LARGE)
    assert world.take(Lane.SMALL) == []
    assert paths_of(world.take(Lane.LARGE)) == [("a",)]


def test_a_file_that_changed_is_not_taken(world: World) -> None:
    world.settle("a", "b")
    world.move(Event.CHANGE, "a", fingerprint=PRINT)
    assert paths_of(world.take()) == [("b",)]


def test_a_file_that_settled_twice_rides_once(world: World) -> None:
    world.settle("a", "b")
    world.move(Event.CHANGE, "a", fingerprint=PRINT)
    world.settle("a")
    assert paths_of(world.take()) == [("a", "b")]


def test_bundles_of_a_run_have_numbers_of_their_own(world: World) -> None:
    world.settle("a", "b", "c")
    numbers = [bundle.number for bundle in world.take(bundles=2, max_files=1)]
    numbers += [bundle.number for bundle in world.take()]
    assert len(set(numbers)) == 3


def test_a_bundle_of_one_carries_what_names_its_task(world: World) -> None:
    token = world.upload("a")
    world.move(Event.FAIL, "a", token=token, delay_ms=0)
    world.ledger.take_due(RUN, 1)
    world.claim("a")
    world.as_holder(Event.QUARANTINE, "a")
    world.move(Event.REPLAY, "a")
    assert world.claim(bundle=world.take()[0].number) > [token]
    world.as_holder(Event.FAIL, "a", delay_ms=0)
    (due,) = world.ledger.take_due(RUN, 1)
    assert (due.attempt, due.series) == (1, 1)
    world.claim("a")
    world.settle("b")
    world.as_holder(Event.YIELD, "a")
    (pair,) = world.take()
    assert (pair.paths, pair.attempt, pair.series) == (("b", "a"), 0, 0)
    world.claim(bundle=pair.number)
    world.as_holder(Event.YIELD, "a")
    (alone,) = world.take()
    assert (alone.paths, alone.attempt, alone.series) == (("a",), 1, 1)
    world.pass_ms(RESEND_MS + 1000)
    again = world.ledger.take_unclaimed(RUN, 10)[-1]
    assert (again.number, again.attempt, again.series) == (alone.number, 1, 1)


def test_sent_bundles_are_counted_until_they_are_claimed(world: World) -> None:
    world.settle("a", "b", "c")
    bundles = world.take(max_files=1)
    assert world.facts().sent == 3
    world.claim(bundle=bundles[1].number)
    assert world.facts().sent == 2


def test_a_file_given_back_waits_for_a_message_again(world: World) -> None:
    token = world.upload("a", lane=Lane.LARGE)
    world.move(Event.YIELD, "a", token=token)
    assert world.facts().ready == {Lane.SMALL: 0, Lane.LARGE: 1}
    assert paths_of(world.take(Lane.LARGE)) == [("a",)]


def test_a_refused_name_that_is_replayed_is_queued_though_it_never_settled(world: World) -> None:
    world.discover("a")
    world.move(Event.REFUSE, "a")
    world.move(Event.REPLAY, "a")
    assert paths_of(world.take()) == [("a",)]


# -- files whose time has come


@pytest.mark.parametrize("event", [Event.FAIL, Event.EXPIRE])
def test_a_failed_file_is_retried_when_it_is_due_and_not_before(world: World, event: Event) -> None:
    token = world.upload("a", lane=Lane.LARGE)
    world.pass_ms(61_000)
    assert world.move(event, "a", token=token, delay_ms=20_000) == [Outcome.DONE]
    due_ms = world.ledger.find_due(RUN.file("a"))
    assert due_ms is not None
    assert 15_000 < due_ms - world.ledger.now_ms() <= 20_000
    world.pass_ms(15_000)
    assert world.ledger.take_due(RUN, 10) == []
    world.pass_ms(5_000)
    (bundle,) = world.ledger.take_due(RUN, 10)
    assert (bundle.paths, bundle.lane, bundle.tries) == (("a",), Lane.LARGE, 0)
    assert bundle.attempt == (1 if event is Event.FAIL else 0)
    assert world.record("a").state is State.ELIGIBLE
    assert world.ledger.take_due(RUN, 10) == []
    assert world.ledger.find_due(RUN.file("a")) is None
    assert world.facts().sent == 1
    assert world.facts().ready[Lane.LARGE] == 0
    assert world.claim(bundle=bundle.number) > [token]


def test_a_failed_file_without_a_delay_is_due_at_once(world: World) -> None:
    token = world.upload("a")
    world.move(Event.FAIL, "a", token=token)
    assert paths_of(world.ledger.take_due(RUN, 10)) == [("a",)]


def test_held_files_wait_for_a_message_again_when_they_are_due(world: World) -> None:
    """Nothing is wrong with them: they are bundled as before."""
    for lane, paths in ((Lane.SMALL, ("a", "b", "c")), (Lane.LARGE, ("large",))):
        token = world.upload(*paths, lane=lane)
        world.move(Event.HOLD, *paths, token=token, delay_ms=20_000)
    assert world.ledger.take_due(RUN, 10) == []
    assert world.facts().counts[State.HELD] == 4
    world.pass_ms(20_000)
    assert world.ledger.take_due(RUN, 10) == []
    assert world.facts().counts[State.ELIGIBLE] == 4
    assert world.facts().ready == {Lane.SMALL: 3, Lane.LARGE: 1}
    assert world.facts().sent == 0
    assert world.ledger.find_due(RUN.file("a")) is None
    assert paths_of(world.take()) == [("a", "b", "c")]
    assert paths_of(world.take(Lane.LARGE)) == [("large",)]
    assert len(world.claim("a")) == 1


def test_held_files_do_not_count_against_the_limit_of_failed_ones(world: World) -> None:
    held = [f"held{number}" for number in range(30)]
    world.upload(*held)
    world.as_holder(Event.HOLD, *held, delay_ms=0)
    world.upload("a", "b")
    world.as_holder(Event.FAIL, "a", "b", delay_ms=1)
    world.pass_ms(1_000)
    assert paths_of(world.ledger.take_due(RUN, 2)) == [("a",), ("b",)]
    assert world.facts().counts[State.ELIGIBLE] == 32


def test_each_due_file_is_a_bundle_of_its_own_up_to_a_limit(world: World) -> None:
    token = world.upload("a", "b", "c")
    for delay_ms, path in ((3_000, "a"), (1_000, "b"), (2_000, "c")):
        world.move(Event.FAIL, path, token=token, delay_ms=delay_ms)
    world.pass_ms(10_000)
    assert paths_of(world.ledger.take_due(RUN, 2)) == [("b",), ("c",)]
    assert paths_of(world.ledger.take_due(RUN, 2)) == [("a",)]
    assert world.facts().counts[State.ELIGIBLE] == 3


def test_a_file_that_is_a_dead_letter_by_then_is_not_retried(world: World) -> None:
    token = world.upload("a")
    world.move(Event.FAIL, "a", token=token, delay_ms=0)
    assert world.move(Event.EXHAUST, "a") == [Outcome.DONE]
    assert world.ledger.find_due(RUN.file("a")) is None
    assert world.ledger.take_due(RUN, 10) == []
    assert world.record("a").state is State.QUARANTINED


def test_a_run_never_seen_has_nothing_to_send(world: World) -> None:
    assert world.ledger.take_due(OTHER, 10) == []
    assert world.ledger.take_unclaimed(OTHER, 10) == []
    assert world.ledger.lapsed(OTHER, 10) == []
    assert world.ledger.claim(OTHER, 1, ["a"], 1) == []


# -- messages that were lost


def test_a_bundle_that_is_not_claimed_is_sent_again_after_a_doubling_time(world: World) -> None:
    world.settle("a", "b")
    (bundle,) = world.take()
    wait_ms = RESEND_MS
    for tries in range(1, 6):
        world.pass_ms(wait_ms - 5_000)
        assert world.ledger.take_unclaimed(RUN, 10) == []
        world.pass_ms(5_000)
        (again,) = world.ledger.take_unclaimed(RUN, 10)
        assert (again.number, again.paths, again.lane) == (bundle.number, ("a", "b"), Lane.SMALL)
        assert again.tries == tries
        wait_ms *= 2
    assert world.facts().sent == 1


def test_no_message_waits_longer_than_an_hour_to_be_sent_again(world: World) -> None:
    world.settle("a")
    world.take()
    for _ in range(12):
        world.pass_ms(HOUR_MS)
        assert len(world.ledger.take_unclaimed(RUN, 10)) == 1
    world.pass_ms(HOUR_MS - 5_000)
    assert world.ledger.take_unclaimed(RUN, 10) == []


def test_a_claimed_bundle_is_not_sent_again(world: World) -> None:
    world.settle("a", "b")
    first, second = world.take(max_files=1)
    world.claim(bundle=first.number)
    world.pass_ms(RESEND_MS)
    assert [bundle.number for bundle in world.ledger.take_unclaimed(RUN, 10)] == [second.number]


def test_a_bundle_is_claimed_even_if_nothing_in_it_is_eligible(world: World) -> None:
    world.settle("a")
    (bundle,) = world.take()
    world.move(Event.CHANGE, "a", fingerprint=PRINT)
    assert world.claim(bundle=bundle.number) == []
    world.pass_ms(RESEND_MS)
    assert world.ledger.take_unclaimed(RUN, 10) == []
    assert world.facts().sent == 0


def test_lost_messages_are_sent_again_up_to_a_limit(world: World) -> None:
    world.settle("a", "b", "c")
    world.take(max_files=1)
    world.pass_ms(RESEND_MS)
    assert len(world.ledger.take_unclaimed(RUN, 2)) == 2
    assert len(world.ledger.take_unclaimed(RUN, 2)) == 1


# -- what a claim goes by


def test_the_bundle_on_record_wins_over_the_paths_of_the_message(world: World) -> None:
    world.settle("a", "b", "c")
    (bundle,) = world.take(bundles=1, max_files=2)
    claims = world.claims("c", "b", bundle=bundle.number)
    assert [claim.path for claim in claims] == ["a", "b"]
    assert world.record("c").state is State.ELIGIBLE


def test_a_second_delivery_claims_nothing(world: World) -> None:
    world.settle("a", "b")
    (bundle,) = world.take()
    token, _ = world.claim("a", "b", bundle=bundle.number)
    assert world.claim("a", "b", bundle=bundle.number) == []
    assert world.token("a") == token


def test_a_second_delivery_claims_what_is_eligible_again(world: World) -> None:
    world.settle("a", "b")
    (bundle,) = world.take()
    _, token = world.claim("a", "b", bundle=bundle.number)
    world.move(Event.YIELD, "b", token=token)
    (claim,) = world.claims("a", "b", bundle=bundle.number)
    assert claim.path == "b"
    assert claim.token > token


def test_a_message_that_names_a_file_twice_or_unknown_ones_claims_it_once(world: World) -> None:
    world.settle("a")
    assert [one.path for one in world.claims("a", "unknown", "a", bundle=99)] == ["a"]


def test_a_claim_tells_the_record_as_it_is_now(world: World) -> None:
    world.settle("a")
    (claim,) = world.claims("a", holder=7)
    assert claim.record == world.record("a")
    record = claim.record
    assert (record.state, record.token, record.holder) == (State.UPLOADING, claim.token, 7)
    assert record.claimed_ms >= record.settled_ms > 0
    world.move(Event.VERIFY, "a", token=claim.token, evidence=EVIDENCE)


@pytest.mark.parametrize("state", [state for state in State if state is not State.ELIGIBLE])
def test_only_an_eligible_file_is_claimed(world: World, state: State) -> None:
    token = world.bring(state, "a")
    assert world.claim("a") == []
    assert world.record("a").state is state
    assert world.token("a") == token


# -- what else a worker learns as it begins


def test_who_begins_learns_how_many_messages_are_still_out_and_what_stands_in_the_way(
    world: World,
) -> None:
    world.settle("a", "b", "c")
    first, second, third = world.take(max_files=1)
    pace = Pace(name="http://s3/b", share=0.25, at_ms=9, code="SlowDown", message="less, please")
    assert world.ledger.swap_pace(None, pace)
    begun = world.ledger.begin(RUN, first.number, first.paths, 7)
    record = world.record("a")
    assert begun.claims == [Claim(path="a", token=record.token, record=record, bundle=first.number)]
    assert record.holder == 7
    assert (begun.sent, begun.hold) == (2, None)
    now = world.ledger.conditions()
    assert replace(begun.conditions(), now_ms=0) == replace(now, now_ms=0)
    assert begun.conditions().now_ms == pytest.approx(now.now_ms, abs=1000)
    for bundle, sent in ((second, 1), (third, 0), (third, 0)):
        assert world.ledger.begin(RUN, bundle.number, bundle.paths, 7).sent == sent


@pytest.mark.parametrize("held", [RUN, RUN.instrument])
def test_who_begins_claims_nothing_that_is_held_and_its_message_stays_out(
    world: World, held: RunKey | str
) -> None:
    world.settle("a")
    (bundle,) = world.take()
    world.ledger.hold(held, ACT)
    begun = world.ledger.begin(RUN, bundle.number, bundle.paths, 1)
    assert (begun.claims, begun.sent) == ([], 1)
    assert begun.hold == world.ledger.find_hold(RUN) is not None
    assert world.record("a").state is State.ELIGIBLE
    world.ledger.release(held, ACT)
    begun = world.ledger.begin(RUN, bundle.number, bundle.paths, 1)
    assert ([claim.path for claim in begun.claims], begun.sent, begun.hold) == (["a"], 0, None)


def test_a_run_never_seen_has_nothing_to_begin_with(world: World) -> None:
    begun = world.ledger.begin(OTHER, 1, ["a"], 1)
    assert (begun.claims, begun.sent, begun.hold) == ([], 0, None)

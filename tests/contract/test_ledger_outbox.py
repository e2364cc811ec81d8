"""Does every ledger keep events, and each sink's place among them, as the port says?"""

from dataclasses import replace

from labferry.outbox import Delivery
from tests.ledger_world import OTHER, RUN, World

MINUTE_MS = 60_000


def names(world: World) -> list[str]:
    return [str(run) for run, _ in world.ledger.open_outboxes()]


def test_events_are_kept_in_order_and_open_their_outbox(world: World) -> None:
    world.ledger.tell(RUN, ["one", "zwei ü"])
    world.ledger.tell(RUN, ["three"])
    world.ledger.tell(RUN, [])
    assert world.ledger.told(RUN) == ["one", "zwei ü", "three"]
    assert world.ledger.told(OTHER) == []
    assert names(world) == [str(RUN)]


def test_a_marker_s_event_opens_its_outbox(world: World) -> None:
    world.complete_run("a")
    assert world.ledger.told(RUN) == ["event 1"]
    assert names(world) == [str(RUN)]


def test_each_sink_has_a_place_of_its_own(world: World) -> None:
    world.ledger.tell(RUN, ["one", "two"])
    first = Delivery()
    assert world.ledger.swap_delivery(RUN, "hook", first, replace(first, position=1, why="ü"))
    (hook,) = world.ledger.waiting_events("hook", [RUN])
    (other,) = world.ledger.waiting_events("other", [RUN])
    assert (hook.event, hook.count, hook.delivery.why) == ("two", 2, "ü")
    assert (other.event, other.delivery) == ("one", Delivery())
    assert world.ledger.waiting_events("hook", []) == []


def test_a_place_that_another_changed_is_left(world: World) -> None:
    first = Delivery()
    assert world.ledger.swap_delivery(RUN, "hook", first, replace(first, position=1))
    assert not world.second().swap_delivery(RUN, "hook", first, replace(first, position=2))
    (seen,) = world.ledger.waiting_events("hook", [RUN])
    assert (seen.delivery.position, seen.event) == (1, "")


def test_an_outbox_is_closed_until_something_is_told_again(world: World) -> None:
    world.ledger.tell(RUN, ["one"])
    world.ledger.tell(OTHER, ["two"])
    world.ledger.close_outbox(RUN)
    assert set(names(world)) == {str(RUN), str(OTHER)}, "it may be underway still"
    world.pass_ms(MINUTE_MS + 1)
    world.ledger.close_outbox(RUN)
    assert names(world) == [str(OTHER)]
    world.ledger.tell(RUN, ["three"])
    assert names(world) == [str(OTHER), str(RUN)]


def test_parked_deliveries_are_found_and_open_their_outbox_when_taken_up(world: World) -> None:
    world.ledger.tell(RUN, ["one"])
    first = Delivery()
    parked = replace(first, parked=True, why="gone", tries=3)
    world.ledger.swap_delivery(RUN, "hook", first, parked)
    (found,) = world.ledger.parked_deliveries()
    assert (found.run, found.sink, found.event) == (RUN, "hook", "one")
    assert (found.delivery.why, found.delivery.tries) == ("gone", 3)
    world.pass_ms(MINUTE_MS + 1)
    world.ledger.close_outbox(RUN)
    world.ledger.swap_delivery(RUN, "hook", found.delivery, replace(found.delivery, parked=False))
    assert names(world) == [str(RUN)]
    assert world.ledger.parked_deliveries() == []


def test_a_sink_is_on_record_since_it_was_first_heard_of(world: World) -> None:
    since_ms = world.ledger.sink_since("hook")
    assert abs(since_ms - world.ledger.now_ms()) < MINUTE_MS
    assert world.ledger.sink_since("hook") == since_ms
    world.ledger.sink_since("bus")
    assert world.ledger.event_sinks() == ["bus", "hook"]

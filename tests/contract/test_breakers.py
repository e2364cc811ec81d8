"""Do breakers, paces and alerts on record keep what they promise, in memory and on a server?"""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from labferry.alerts import Undelivered
from labferry.breakers import Breaker, Phase
from labferry.errors import MalformedMessage
from labferry.failures import Cause
from labferry.ledger import RedisLedger
from labferry.ledger.keys import BREAKERS
from labferry.states import Event
from labferry.throttle import Pace
from tests.ledger_world import RUN, World

OPEN = Breaker(
    name="endpoint:http://s3/b",
    cause=Cause.ENDPOINT,
    phase=Phase.OPEN,
    code="EndpointConnectionError",
    message="PutObject: no answer. Umlaut ä, {braces}.",
    since_ms=1,
    at_ms=2,
    next_ms=3,
    wait_ms=4,
    opened=5,
    probes=6,
    strikes=7,
)
PACE = Pace(name="http://s3/b", share=0.25, at_ms=9, code="SlowDown", message="less, please")


def breaker(world: World) -> Breaker:
    (found,) = world.ledger.conditions().breakers
    return found


def test_a_breaker_comes_back_as_it_was_recorded(world: World) -> None:
    assert world.ledger.conditions().breakers == ()
    assert world.ledger.swap_breaker(None, OPEN)
    assert breaker(world) == replace(OPEN, revision=1)
    assert world.ledger.conditions().now_ms == pytest.approx(world.ledger.now_ms(), abs=1000)


def test_a_breaker_is_swapped_only_for_the_one_that_was_seen(world: World) -> None:
    assert world.ledger.swap_breaker(None, OPEN)
    assert not world.ledger.swap_breaker(None, replace(OPEN, opened=9))
    seen = breaker(world)
    assert world.ledger.swap_breaker(seen, replace(seen, phase=Phase.PROBING))
    assert not world.ledger.swap_breaker(seen, replace(seen, phase=Phase.RAMP))
    assert not world.ledger.swap_breaker(seen, None)
    assert breaker(world) == replace(seen, phase=Phase.PROBING, revision=2)


def test_a_breaker_that_is_removed_can_come_again(world: World) -> None:
    world.ledger.swap_breaker(None, OPEN)
    assert world.ledger.swap_breaker(breaker(world), None)
    assert world.ledger.conditions().breakers == ()
    assert world.ledger.swap_breaker(None, OPEN)


def test_breakers_are_told_apart_by_name(world: World) -> None:
    other = replace(OPEN, name="share:scope@host", cause=Cause.SHARE)
    assert world.ledger.swap_breaker(None, other)
    assert world.ledger.swap_breaker(None, OPEN)
    found = world.ledger.conditions().breakers
    assert [one.name for one in found] == [OPEN.name, other.name]
    assert found[1].cause is Cause.SHARE


def test_a_pace_is_swapped_only_for_the_one_that_was_seen(world: World) -> None:
    assert world.ledger.swap_pace(None, PACE)
    assert not world.ledger.swap_pace(None, PACE)
    (seen,) = world.ledger.conditions().paces
    assert seen == replace(PACE, revision=1)
    assert world.ledger.swap_pace(seen, replace(seen, share=0.125))
    (seen,) = world.ledger.conditions().paces
    assert (seen.share, seen.revision) == (0.125, 2)
    assert world.ledger.swap_pace(seen, None)
    assert world.ledger.conditions().paces == ()


def test_of_many_who_swap_at_once_one_succeeds(world: World) -> None:
    world.ledger.swap_breaker(None, OPEN)
    seen, ledgers = breaker(world), [world.second() for _ in range(16)]
    start = threading.Barrier(len(ledgers))

    def swap(number: int) -> bool:
        start.wait()
        return ledgers[number].swap_breaker(seen, replace(seen, probes=number))

    for _ in range(5):
        with ThreadPoolExecutor(len(ledgers)) as pool:
            won = list(pool.map(swap, range(len(ledgers))))
        assert won.count(True) == 1
        assert breaker(world).probes == won.index(True)
        seen = breaker(world)


def test_a_breaker_that_cannot_be_read_is_said_so(world: World) -> None:
    if not isinstance(world.ledger, RedisLedger):
        return
    for value in (b"1 nothing", b'1 {"version": 9}', b'x {"version": 1}', b'1 {"version": 1}'):
        world.ledger._server.client.hset(BREAKERS, "b", value)
        with pytest.raises(MalformedMessage):
            world.ledger.conditions()


# -- alerts


def test_an_alert_is_recorded_once_a_key_and_counts_what_follows(world: World) -> None:
    assert world.ledger.alert("a", "first", 2)
    assert not world.ledger.alert("a", "second", 3)
    assert world.ledger.alert("b", "other")
    found = world.ledger.alerts()
    assert [(one.key, one.text, one.count) for one in found] == [
        ("a", "first", 5),
        ("b", "other", 1),
    ]
    assert found[0].at_ms == pytest.approx(world.ledger.now_ms(), abs=1000)


def test_an_alert_is_recorded_with_the_breaker_it_is_about_or_not_at_all(world: World) -> None:
    assert world.ledger.swap_breaker(None, OPEN, ("a", "it opened"))
    assert not world.ledger.swap_breaker(None, OPEN, ("b", "too late"))
    assert [(one.key, one.text, one.count) for one in world.ledger.alerts()] == [
        ("a", "it opened", 0)
    ]
    seen = breaker(world)
    assert world.ledger.swap_breaker(seen, seen, ("a", "again"))
    assert [one.text for one in world.ledger.alerts()] == ["it opened"]


def keys_due(world: World, sink: str) -> list[str]:
    return [one.key for one in world.ledger.due_alerts(sink, 10)]


def test_each_sink_is_given_each_alert_until_it_has_it(world: World) -> None:
    world.ledger.alert("a", "text")
    for sink in ("webhook", "command"):
        world.ledger.enlist(sink, gather_ms=0, new_ms=60_000)
        assert keys_due(world, sink) == ["a"]
    world.ledger.delivered("webhook", "a")
    world.ledger.enlist("webhook", gather_ms=0, new_ms=60_000)
    assert keys_due(world, "webhook") == []
    assert keys_due(world, "command") == ["a"]
    world.ledger.alert("b", "text")
    assert keys_due(world, "webhook") == []
    world.ledger.enlist("webhook", gather_ms=0, new_ms=60_000)
    assert keys_due(world, "webhook") == ["b"]


def test_what_follows_within_the_time_to_gather_is_counted_in(world: World) -> None:
    world.ledger.alert("a", "text", 2)
    world.ledger.enlist("webhook", gather_ms=5_000, new_ms=60_000)
    assert keys_due(world, "webhook") == []
    world.ledger.alert("a", "text", 3)
    world.pass_ms(5_000)
    (due,) = world.ledger.due_alerts("webhook", 10)
    assert due.count == 5


def test_a_delivery_that_failed_is_put_off_and_its_reason_shown(world: World) -> None:
    world.ledger.alert("a", "text")
    world.ledger.alert("b", "text")
    world.ledger.enlist("webhook", gather_ms=0, new_ms=60_000)
    assert world.ledger.undelivered() == [Undelivered(sink="webhook", waiting=2, why="")]
    world.ledger.not_delivered("webhook", "a", why="HTTP 500", again_ms=10_000)
    assert keys_due(world, "webhook") == ["b"]
    assert world.ledger.undelivered() == [Undelivered(sink="webhook", waiting=2, why="HTTP 500")]
    world.pass_ms(10_000)
    assert sorted(keys_due(world, "webhook")) == ["a", "b"]
    for key in ("a", "b"):
        world.ledger.delivered("webhook", key)
    assert world.ledger.undelivered() == []


def test_a_delivery_that_failed_after_it_was_made_elsewhere_is_not_repeated(world: World) -> None:
    world.ledger.alert("a", "text")
    world.ledger.enlist("webhook", gather_ms=0, new_ms=60_000)
    world.ledger.delivered("webhook", "a")
    world.ledger.not_delivered("webhook", "a", why="late", again_ms=0)
    assert keys_due(world, "webhook") == []


def test_at_most_so_many_alerts_are_due_at_a_time(world: World) -> None:
    for number in range(5):
        world.ledger.alert(f"a{number}", "text")
    world.ledger.enlist("webhook", gather_ms=0, new_ms=60_000)
    assert len(world.ledger.due_alerts("webhook", 3)) == 3


def test_a_new_sink_is_not_flooded_with_old_alerts(world: World) -> None:
    world.ledger.alert("old", "text")
    world.pass_ms(0)
    world.ledger.enlist("webhook", gather_ms=0, new_ms=-10_000)
    assert keys_due(world, "webhook") == []
    world.ledger.alert("new", "text")
    world.ledger.enlist("webhook", gather_ms=0, new_ms=-10_000)
    assert keys_due(world, "webhook") == ["new"]


# -- what a hold costs


def test_a_hold_takes_nothing_of_the_budget_of_time(world: World) -> None:
    """However long it lasts: the age counts from the first claim after it."""
    token = world.upload("a")
    first_ms = world.record("a").claimed_ms
    world.move(Event.HOLD, "a", token=token, delay_ms=0)
    assert world.record("a").claimed_ms == 0
    world.ledger.take_due(RUN, 10)
    world.take()
    world.claim("a")
    record = world.record("a")
    assert record.claimed_ms >= first_ms
    assert (record.attempt, record.lost, record.rounds, record.series) == (0, 0, 0, 0)

"""What does only the ledger on a server promise of dead letters and acts?"""

from typing import Any

import pytest
import redis

from labferry.audit import find_fault
from labferry.errors import LedgerUnavailable
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.keys import RunKeys
from labferry.records import Outcome, Step
from labferry.states import Event, State
from tests.ledger_world import ACT, RUN, SETTINGS, World, server_world


@pytest.fixture
def world(ledger_url: str) -> World:
    return server_world(ledger_url)


@pytest.fixture
def client(ledger_url: str) -> Any:
    return redis.Redis.from_url(ledger_url)


@pytest.fixture
def ledger(ledger_url: str) -> RedisLedger:
    return open_ledger(SETTINGS.model_copy(update={"url": ledger_url}))


def bury(world: World, *paths: str) -> None:
    world.discover(*paths)
    world.move(Event.REFUSE, *paths)


@pytest.mark.parametrize("event", [Event.REPLAY, Event.REVISE, Event.DISCARD])
def test_the_index_holds_what_is_quarantined_and_no_more(
    world: World, client: Any, event: Event
) -> None:
    bury(world, "a", "b")
    world.move(event, "a")
    assert client.zrange(RunKeys(RUN).dead, 0, -1) == [b"b"]


def test_an_act_that_is_sent_twice_is_done_once(world: World, ledger: RedisLedger) -> None:
    """As the client does by itself when a connection broke before the answer came."""
    bury(world, "a", "b")
    script = ledger._server.script

    def twice(name: str, keys: Any, args: Any) -> Any:
        first = script(name, keys, args)
        return script(name, keys, args) if name in ("act", "append") else first

    ledger._server.script = twice  # type: ignore[method-assign]
    steps = [Step(path="a"), Step(path="b")]
    assert ledger.act(RUN, Event.REPLAY, steps, ACT) == [Outcome.DONE] * 2
    ledger.record_act(RUN, ACT)
    assert world.record("a").series == 1
    assert len(list(ledger.audit(RUN))) == 2
    assert find_fault(ledger.audit(RUN), ledger.audit_head(RUN)) is None


def test_a_file_that_changed_between_look_and_act_is_looked_at_again(
    world: World, ledger: RedisLedger
) -> None:
    """The line says what the file was in the instant of the act, not a moment before."""
    bury(world, "a")
    script, meddled = ledger._server.script, list[str]()

    def meddling(name: str, keys: Any, args: Any) -> Any:
        if name == "act" and not meddled:
            meddled.append(name)
            world.move(Event.REPLAY, "a")
            [bundle] = world.take()
            [token] = world.claim(bundle=bundle.number)
            world.move(Event.QUARANTINE, "a", token=token)
        return script(name, keys, args)

    ledger._server.script = meddling  # type: ignore[method-assign]
    assert ledger.act(RUN, Event.DISCARD, [Step(path="a")], ACT) == [Outcome.DONE]
    assert world.record("a").state is State.DISCARDED
    *_, last = ledger.audit(RUN)
    assert '"before":{"series":1,' in last


def test_an_act_that_is_always_overtaken_gives_up_and_changes_nothing(
    world: World, ledger: RedisLedger
) -> None:
    bury(world, "a")
    script = ledger._server.script

    def overtaken(name: str, keys: Any, args: Any) -> Any:
        if name in ("act", "append"):
            world.ledger.record_act(RUN, ACT)
        return script(name, keys, args)

    ledger._server.script = overtaken  # type: ignore[method-assign]
    with pytest.raises(LedgerUnavailable):
        ledger.act(RUN, Event.DISCARD, [Step(path="a")], ACT)
    with pytest.raises(LedgerUnavailable):
        ledger.record_act(RUN, ACT)
    assert world.record("a").state is State.QUARANTINED


def test_a_line_that_is_changed_on_the_server_is_found(world: World, client: Any) -> None:
    bury(world, "a", "b", "c")
    for path in ("a", "b", "c"):
        world.move(Event.DISCARD, path)
    key = RunKeys(RUN).audit
    whole: list[bytes] = client.lrange(key, 0, -1)
    head = world.ledger.audit_head(RUN)
    assert find_fault(world.ledger.audit(RUN), head) is None
    client.lset(key, 1, whole[1].replace(b"ada@lab", b"eve@lab"))
    fault = find_fault(world.ledger.audit(RUN), head)
    assert fault is not None
    assert fault.number == 2
    client.lset(key, 1, whole[1])
    client.lrem(key, 1, whole[2])
    fault = find_fault(world.ledger.audit(RUN), head)
    assert fault is not None
    assert fault.number == 3

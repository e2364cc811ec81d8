"""Does status say what is in the way, since when, and what to do? On the ledger in memory."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from labferry.alerts import Alert
from labferry.breakers import Breaker, Phase
from labferry.failures import Cause
from labferry.identity import Layout
from labferry.states import State
from labferry.throttle import Pace
from ops.explain import explain
from ops.troubles import Troubles, alerts_view, read_troubles, troubles_view
from tests.ledger_world import RUN, World, memory_world
from tests.no_records import no_records

ENDPOINT = "http://s3/bucket"


@pytest.fixture
def world() -> World:
    return memory_world()


def put(world: World, cause: Cause, phase: Phase = Phase.OPEN, *, host: str = "") -> Breaker:
    """Put a breaker on record that opened five minutes ago and is probed in 40 s."""
    now_ms = world.ledger.now_ms()
    breaker = Breaker(
        name=f"{cause}:{host or ENDPOINT}",
        cause=cause,
        phase=phase,
        code="ExpiredToken",
        message="PutObject: the object store answered 403 ExpiredToken.",
        since_ms=now_ms - 300_000,
        at_ms=now_ms,
        next_ms=now_ms + 40_000,
        opened=1,
        probes=5,
    )
    assert world.ledger.swap_breaker(None, breaker)
    return breaker


def troubles(world: World) -> Troubles:
    return read_troubles(world.ledger, 30_000)


def shown(what: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_nothing_is_shown_where_nothing_is_in_the_way(world: World) -> None:
    assert shown(troubles_view(troubles(world))) == ""
    assert troubles(world).to_json() == {
        "undelivered_events": [],
        "breakers": [],
        "throttled": [],
        "alerts": [],
        "undelivered": [],
    }


def test_an_open_breaker_is_shown_with_cause_dates_and_what_to_do(world: World) -> None:
    put(world, Cause.CREDENTIALS)
    text = shown(troubles_view(troubles(world)))
    assert f"credentials:{ENDPOINT}: PutObject: the object store answered 403" in text
    assert "(5:00)" in text
    assert "tried 5 times in vain, again in 40 s" in text
    assert "Renew the workers' credentials." in text
    (fields,) = json.loads(json.dumps(troubles(world).to_json()))["breakers"]
    assert (fields["cause"], fields["state"], fields["code"]) == (
        "credentials",
        "open",
        "ExpiredToken",
    )
    assert fields["next_probe_ms"] == world.ledger.now_ms() + 40_000
    assert "Renew" in fields["step"]


def test_each_phase_has_words_of_its_own(world: World) -> None:
    put(world, Cause.ENDPOINT, Phase.PROBING)
    put(world, Cause.BUCKET, Phase.RAMP)
    put(world, Cause.SHARE, host="scope@host-b")
    put(world, Cause.QUOTA, Phase.CLOSED)
    text = shown(troubles_view(troubles(world)))
    assert "one file is being tried" in text
    assert "it passed again at" in text
    assert "taken up once it is there" in text
    assert "quota" not in text, "failures in a row are no news"


def test_a_probe_that_waits_for_a_file_is_said_to(world: World) -> None:
    put(world, Cause.ENDPOINT)
    world.pass_ms(60_000)
    assert "again with the next file there is" in shown(troubles_view(troubles(world)))


def test_a_throttled_endpoint_is_shown_with_its_pace(world: World) -> None:
    now_ms = world.ledger.now_ms()
    pace = Pace(name=ENDPOINT, share=0.25, at_ms=now_ms, code="SlowDown", message="m")
    world.ledger.swap_pace(None, pace)
    assert "(SlowDown): workers use 25% of their threads" in shown(troubles_view(troubles(world)))
    world.pass_ms(60_000)
    assert shown(troubles_view(troubles(world))) == ""


def test_alerts_of_a_day_are_shown_with_what_is_not_delivered(world: World) -> None:
    world.ledger.alert("old", "of yesterday")
    world.pass_ms(25 * 3_600_000)
    world.ledger.alert("k", "seq/r1: denied", 312)
    world.ledger.enlist("webhook", gather_ms=0, new_ms=3_600_000)
    world.ledger.not_delivered("webhook", "k", why="webhook: it answered 500", again_ms=1)
    text = shown(alerts_view(troubles(world)))
    assert "seq/r1: denied (312 files)" in text
    assert "1 not delivered yet to webhook: webhook: it answered 500" in text
    assert "of yesterday" not in text
    assert [one["id"] for one in troubles(world).to_json()["alerts"]] == ["old", "k"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("state", [State.ELIGIBLE, State.HELD, State.FAILED, State.UPLOADING])
def test_explain_says_what_is_in_a_file_s_way(world: World, state: State) -> None:
    world.bring(state, "a")
    breaker = put(world, Cause.ENDPOINT)
    put(world, Cause.SHARE, host="other-instrument@host")
    explanation = explain(world.ledger, Layout(""), RUN.file("a"), no_records)
    (found,) = explanation.in_the_way
    assert found == replace(breaker, revision=1)
    assert f"not while endpoint:{ENDPOINT} is in the way" in explanation.next_step
    shown_json = json.loads(json.dumps(explanation.to_json()))
    assert shown_json["breakers"][0]["code"] == "ExpiredToken"


def test_explain_shows_the_share_of_the_file_s_own_instrument(world: World) -> None:
    world.bring(State.ELIGIBLE, "a")
    put(world, Cause.SHARE, host=f"{RUN.instrument}@host-b")
    explanation = explain(world.ledger, Layout(""), RUN.file("a"), no_records)
    assert [one.cause for one in explanation.in_the_way] == [Cause.SHARE]


@pytest.mark.parametrize("state", [State.VERIFIED, State.QUARANTINED, State.DISCOVERED])
def test_nothing_is_in_the_way_of_a_file_at_rest(world: World, state: State) -> None:
    world.bring(state, "a")
    put(world, Cause.ENDPOINT)
    assert explain(world.ledger, Layout(""), RUN.file("a"), no_records).in_the_way == ()


def test_of_one_run_only_alerts_that_concern_it_are_told() -> None:
    keys = {
        "breaker:endpoint:http://s3/bucket:1": True,
        f"dead-letters:{RUN}:1a2b": True,
        f"stale:{RUN}": True,
        f"stuck:{RUN}/deep/name": True,
        f"stale:{RUN} 2": False,
        f"reminder:{RUN} 2:5:1": False,
        f"unwatched:{RUN.instrument}:5": True,
        "away:another:5": False,
        "custody:another/run:key:absent": False,
    }
    alerts = tuple(Alert(key=key, text=key, at_ms=1) for key in keys)
    told = Troubles(now_ms=1, alerts=alerts).of([RUN]).alerts
    assert {key: key in {one.key for one in told} for key in keys} == keys

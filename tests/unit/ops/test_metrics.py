"""Do the metrics say what the ledger holds, in labels that cannot grow without end?"""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from labferry.breakers import Breaker, Phase
from labferry.errors import LedgerUnavailable
from labferry.failures import Cause
from labferry.identity import RunKey
from labferry.passes import Pass, Space, Waiting
from labferry.ports import Ledger
from labferry.settings import InstrumentSettings, Settings
from labferry.settings_trouble import BreakerSettings
from labferry.settings_watching import MonitorSettings
from labferry.states import State
from labferry.tallies import KNOWN_CODES, Tally, What, code_label
from labferry.throttle import Pace
from ops.collector import LedgerCollector
from ops.condition import Condition
from tests.dock import Meddling
from tests.ledger_world import RUN, World, memory_world

NAME = RUN.instrument
SETTINGS = Settings.model_construct(
    monitor=MonitorSettings(),
    breakers=BreakerSettings(),
    instruments={
        NAME: InstrumentSettings(root="/data", stale_s=3600),
        "unused": InstrumentSettings(root="/data"),
    },
)


@pytest.fixture
def world() -> World:
    return memory_world()


def scrape(ledger: Ledger) -> dict[tuple[str, ...], float]:
    """Return each sample under its name and its labels' values, without instrument NAME."""
    found = {}
    for metric in LedgerCollector(ledger, SETTINGS).collect():
        for sample in metric.samples:
            labels = [one for one in sample.labels.values() if one != NAME]
            name = sample.name.removeprefix("labferry_")
            assert (name, *labels) not in found
            found[name, *labels] = sample.value
    return found


def test_files_and_bytes_are_shown_by_state_and_as_a_backlog(world: World) -> None:
    world.bring(State.FAILED, "c")
    world.bring(State.HELD, "d")
    world.bring(State.VERIFIED, "e")
    world.bring(State.QUARANTINED, "f")
    world.bring(State.ELIGIBLE, "a", "b")
    found = scrape(world.ledger)
    shown = {key[1]: n for key, n in found.items() if key[0] == "files" and len(key) == 2 and n}
    assert shown == {"eligible": 2, "failed": 1, "held": 1, "quarantined": 1}
    assert found["bytes", "eligible"] == 2 * 4096
    assert (found["backlog_files",], found["backlog_bytes",]) == (4, 4 * 4096)
    assert found["backlog_files", "unused"] == 0


def test_ages_are_those_of_what_waits_longest(world: World) -> None:
    world.bring(State.QUARANTINED, "dead")
    world.bring(State.ELIGIBLE, "first")
    world.pass_ms(90_000)
    world.bring(State.ELIGIBLE, "second")
    found = scrape(world.ledger)
    assert found["oldest_eligible_age_seconds",] == 90
    assert found["dead_letter_oldest_age_seconds",] == 90
    assert found["dead_letters",] == 1


def test_what_stands_still_is_shown_and_named(world: World) -> None:
    world.upload("a")
    world.pass_ms(700_000)
    found = scrape(world.ledger)
    assert found["still_seconds",] == 700
    named = [key[1] for key, n in found.items() if key[0] == "condition" and len(key) == 2 and n]
    assert named == [Condition.HUNG]


def test_runs_are_shown_by_state_also_those_that_are_retired(world: World) -> None:
    world.complete_run("a")
    world.pass_ms(3_600_000)
    world.ledger.retire(RUN)
    assert world.ledger.active_runs() == []
    world.settle("b", run=RunKey(NAME, "new"))
    found = scrape(world.ledger)
    assert (found["runs", "complete"], found["runs", "open"]) == (1, 1)
    world.pass_ms(3_600_001)
    assert scrape(world.ledger)["runs", "stale"] == 1


def test_a_run_that_moves_again_leaves_the_state_it_was_retired_in(world: World) -> None:
    world.complete_run("a")
    world.pass_ms(3_600_000)
    world.ledger.retire(RUN)
    collector = LedgerCollector(world.ledger, SETTINGS)
    assert runs(collector.collect()) == {"complete": 1}
    world.settle("late")
    assert runs(collector.collect()) == {"open": 1}


def runs(metrics: Any) -> dict[str, float]:
    (metric,) = (one for one in metrics if one.name == "labferry_runs")
    return {one.labels["state"]: one.value for one in metric.samples if one.value}


def test_what_happened_is_shown_as_counters(world: World) -> None:
    attempt = Tally(NAME, What.ATTEMPT, State.FAILED, "SlowDown")
    simple = [What.VERIFIED_BYTES, What.SENT_BYTES, What.CLAIM, What.LEASE_LOST]
    simple += [What.LEASE_EXPIRED, What.DELIVERY_DROPPED]
    counts = {Tally(NAME, what): n for n, what in enumerate(simple, 1)}
    world.ledger.tally({attempt: 7, **counts}, {})
    found = scrape(world.ledger)
    assert found["attempts_total", "failed", "SlowDown"] == 7
    names = ["verified_bytes", "sent_bytes", "claims", "leases_lost"]
    names += ["leases_expired", "deliveries_dropped"]
    assert [found[f"{name}_total",] for name in names] == [1, 2, 3, 4, 5, 6]


def test_times_to_verified_are_a_histogram_that_adds_up(world: World) -> None:
    now_ms = world.ledger.now_ms()
    world.ledger.tally({}, {NAME: [now_ms - 5_000, now_ms - 20_000, now_ms - 10**9]})
    found = scrape(world.ledger)
    name = "time_to_verified_seconds"
    assert [found[f"{name}_bucket", one] for one in ("10", "30", "86400", "+Inf")] == [1, 2, 2, 3]
    assert (found[f"{name}_count",], found[f"{name}_sum",]) == (3, 1_000_025)


def test_what_is_in_the_way_is_shown_without_a_hosts_name(world: World) -> None:
    breaker = Breaker(
        name=f"share:{NAME}@host-1",
        cause=Cause.SHARE,
        phase=Phase.OPEN,
        code="ENODEV",
        message="gone",
        since_ms=1,
        at_ms=1,
    )
    world.ledger.swap_breaker(None, breaker)
    world.ledger.swap_breaker(None, replace(breaker, name=f"share:{NAME}@host-2"))
    endpoint = replace(breaker, name="endpoint:x", cause=Cause.ENDPOINT, phase=Phase.RAMP)
    world.ledger.swap_breaker(None, endpoint)
    found = scrape(world.ledger)
    assert found["breakers", "share", "open"] == 2
    assert found["breakers", "endpoint", "", "ramp"] == 1
    assert found["breakers", "endpoint", "", "open"] == 0
    assert "host-1" not in str(found)


def test_throttling_undelivered_alerts_and_unreadable_messages_are_shown(world: World) -> None:
    now_ms = world.ledger.now_ms()
    world.ledger.swap_pace(
        None, Pace(name="x", share=0.25, at_ms=now_ms, code="SlowDown", message="m")
    )
    world.ledger.alert("k", "text")
    world.ledger.enlist("webhook", gather_ms=0, new_ms=1000)
    world.ledger.sink_since("celery")
    world.ledger.tell(RUN, ["one", "two"])
    world.ledger.bury("{}")
    found = scrape(world.ledger)
    assert found["allowed_share",] == 0.25
    assert found["alerts_undelivered", "webhook"] == 1
    assert found["events_undelivered", "celery"] == 2
    assert found["dead_messages",] == 1


def test_whether_a_share_is_looked_at_is_shown_and_what_keeps_runs_from_rest(
    world: World,
) -> None:
    now_ms = world.ledger.now_ms()
    world.settle("a")
    world.ledger.tell_pass(Pass(instrument=NAME, host="h", at_ms=now_ms, due_ms=now_ms + 1000))
    world.ledger.tell_waiting(NAME, "h", [Waiting(run=str(RUN), stuck=("a.part stays",))])
    found = scrape(world.ledger)
    assert (found["watch", "watched"], found["watch", "unwatched"]) == (1, 0)
    assert found["watch", "unused", "unknown"] == 1
    assert found["stuck_runs",] == 1
    world.pass_ms(1001)
    found = scrape(world.ledger)
    assert (found["watch", "watched"], found["watch", "unwatched"]) == (0, 1)


def test_whether_a_sweep_leads_is_shown(world: World) -> None:
    assert scrape(world.ledger)["sweep_leads",] == 0
    world.ledger.leadership("sweep", keep_s=3).keep()
    assert scrape(world.ledger)["sweep_leads",] == 1


def test_a_ledger_that_is_away_is_shown_and_nothing_old_beside_it(world: World) -> None:
    def fail() -> None:
        raise LedgerUnavailable(url="redis://x", why="gone")

    found = scrape(Meddling(world.ledger, "tallies", fail))
    assert [key[0] for key in found] == ["ledger_up"]
    assert set(found.values()) == {0}
    assert next(iter(scrape(world.ledger).values())) == 1


def test_the_number_of_series_grows_with_instruments_alone(world: World) -> None:
    def series() -> int:
        return sum(len(one.samples) for one in LedgerCollector(world.ledger, SETTINGS).collect())

    world.bring(State.FAILED, "a")
    world.ledger.tally({Tally(NAME, What.ATTEMPT, State.FAILED, "other"): 1}, {})
    before = series()
    for number in range(200):
        world.settle(f"d/{number}", run=RunKey(NAME, f"run {number}"))
        code = code_label(f"Code{number}")
        world.ledger.tally({Tally(NAME, What.ATTEMPT, State.FAILED, code): 1}, {})
        world.ledger.leadership(f"feed:{number}", keep_s=1).keep()
    assert series() == before


def test_the_codes_that_are_counted_by_name_are_few() -> None:
    assert 50 < len(KNOWN_CODES) < 200


def test_every_metric_is_described_before_the_ledger_is_asked() -> None:
    def described(metrics: Any) -> set[tuple[str, str]]:
        return {(one.name, one.type) for one in metrics}

    collector = LedgerCollector(memory_world().ledger, SETTINGS)
    assert described(collector.describe()) == described(collector.collect())
    CollectorRegistry().register(collector)


def test_a_metric_has_a_name_of_ours_and_says_what_it_is() -> None:
    for metric in LedgerCollector(memory_world().ledger, SETTINGS).collect():
        assert isinstance(metric, Metric)
        assert metric.name.startswith("labferry_")
        assert metric.documentation and not metric.documentation.endswith(".")


def test_the_room_on_a_share_is_shown_and_when_it_is_full(world: World) -> None:
    now_ms = world.ledger.now_ms()
    space = Space(free_bytes=3600, total_bytes=9999, fills_bytes_per_s=2)
    world.ledger.tell_pass(Pass(instrument=NAME, host="h", at_ms=now_ms, space=space))
    rests = replace(space, fills_bytes_per_s=0)
    world.ledger.tell_pass(Pass(instrument="unused", host="h", at_ms=now_ms, space=rests))
    found = scrape(world.ledger)
    assert (found["share_free_bytes",], found["share_full_seconds",]) == (3600, 1800)
    assert found["share_free_bytes", "unused"] == 3600
    assert ("share_full_seconds", "unused") not in found


def test_an_instrument_of_which_nothing_comes_says_for_how_long_whichever_host_saw_it(
    world: World,
) -> None:
    now_ms = world.ledger.now_ms()
    told = Pass(instrument=NAME, host="old", at_ms=now_ms - 5000, arrived_ms=now_ms - 3_600_000)
    world.ledger.tell_pass(told)
    world.ledger.tell_pass(Pass(instrument=NAME, host="new", at_ms=now_ms))
    world.ledger.tell_pass(Pass(instrument="unused", host="new", at_ms=now_ms))
    found = scrape(world.ledger)
    assert 3600 <= found["quiet_seconds",] < 4600
    assert ("quiet_seconds", "unused") not in found

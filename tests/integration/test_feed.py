"""How many messages go out while something stands in everybody's way, and after it? On the real
ledger, with a broker that remembers."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from labferry.breakers import Breaker, Phase, breaker_name
from labferry.failures import Cause
from labferry.feed import top_up
from labferry.identity import RunKey
from labferry.passes import Pass, Space
from labferry.records import Fingerprint, Lane, Step
from labferry.settings import BrokerSettings, InstrumentSettings, StoreSettings
from labferry.settings_trouble import BreakerSettings
from labferry.states import Event, State
from labferry.tallies import Tally, What
from tests.integration.test_sweep import RUN, Site, names
from tests.waiting import PATIENCE_S
from workers.turns import tell_turns

WHOLE = 16
RAMP_S = 0.3


@pytest.fixture
def site(ledger_url: str) -> Site:
    return Site(
        ledger_url,
        broker=BrokerSettings(window_messages=WHOLE, bundle_max_files=4),
        store=StoreSettings(bucket="bucket", single_put_max_bytes=10),
        breakers=BreakerSettings(ramp_s=RAMP_S),
    )


def put(site: Site, phase: Phase, *, next_in_ms: int = 0, cause: Cause = Cause.ENDPOINT) -> None:
    """Put a breaker on record, as of now."""
    now_ms = site.ledger.now_ms()
    name = breaker_name(
        cause, endpoint=site.settings.store.endpoint, host="h", instrument=RUN.instrument
    )
    seen = next((one for one in site.ledger.conditions().breakers if one.name == name), None)
    new = Breaker(
        name=name,
        cause=cause,
        phase=phase,
        code="c",
        message="m",
        since_ms=now_ms,
        at_ms=now_ms,
        next_ms=now_ms + next_in_ms,
        wait_ms=1,
    )
    assert site.ledger.swap_breaker(seen, replace(new, revision=seen.revision if seen else 0))


def feed(site: Site, instrument: str = RUN.instrument) -> int:
    """Publish what there is room for; return how many messages that were."""
    runs = [site.facts(run) for run in site.ledger.runs() if run.instrument == instrument]
    return top_up(site.ledger, site.wakeups, runs, site.settings)


def test_nothing_is_published_while_no_probe_is_due(site: Site) -> None:
    site.settled(names(50))
    put(site, Phase.OPEN, next_in_ms=60_000)
    assert feed(site) == 0
    put(site, Phase.PROBING, next_in_ms=60_000)
    assert feed(site) == 0
    assert site.facts().ready[Lane.SMALL] == 50


def test_one_small_file_an_instrument_is_published_when_a_probe_is_due(site: Site) -> None:
    other = RunKey("scope", "r1")
    for run in (RUN, other):
        site.settled(["large"], size=11, run=run)
        site.settled(names(50), run=run)
    put(site, Phase.OPEN)
    for _ in range(3):
        feed(site)
        feed(site, "scope")
    assert [(one.run, one.lane, len(one.paths)) for one in site.wakeups.bundles] == [
        (RUN, Lane.SMALL, 1),
        (other, Lane.SMALL, 1),
    ]


def test_a_large_file_is_the_canary_where_there_is_no_other(site: Site) -> None:
    site.settled(["large1", "large2"], size=11)
    put(site, Phase.OPEN)
    assert (feed(site), feed(site)) == (1, 0)
    assert site.wakeups.bundles[0].lane is Lane.LARGE


def test_the_share_of_one_host_and_strikes_narrow_no_window(site: Site) -> None:
    site.settled(names(50))
    put(site, Phase.OPEN, next_in_ms=60_000, cause=Cause.SHARE)
    put(site, Phase.OPEN, next_in_ms=60_000, cause=Cause.LOCAL)
    put(site, Phase.CLOSED)
    assert feed(site) == 13  # bundles of 4


def claim_all(site: Site) -> list[tuple[str, int]]:
    """Claim all messages; return what is under a lease by that."""
    claims = [
        (one.path, one.token)
        for bundle in site.wakeups.bundles
        for one in site.ledger.claim(bundle.run, bundle.number, bundle.paths, 1)
    ]
    site.wakeups.bundles.clear()
    return claims


def under_way(site: Site) -> float:
    """Messages that are published, and those that the files under a lease came with."""
    facts = site.facts()
    return facts.sent + facts.counts[State.UPLOADING] / 4


@pytest.mark.parametrize("claims", [False, True], ids=["unclaimed", "claimed"])
def test_a_ramp_never_passes_its_window_and_becomes_whole(site: Site, *, claims: bool) -> None:
    site.settled(names(400))
    put(site, Phase.RAMP)
    began_ms = site.ledger.conditions().breakers[0].at_ms
    most: list[float] = []
    while True:
        feed(site)
        after_ms = site.ledger.now_ms() - began_ms
        allowed = 2 ** int(after_ms / (RAMP_S * 1000))
        if allowed >= WHOLE:
            break
        if claims:
            claim_all(site)
        most.append(under_way(site))
        assert most[-1] <= allowed
    assert min(most) <= 1
    assert max(most) > WHOLE / 4
    feed(site)
    assert site.facts().sent == WHOLE, "the window is whole"


def after(site: Site, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        site.sweep.tick()


def test_the_sweep_brings_held_files_back_and_forgets_what_is_over(site: Site) -> None:
    site.settled(names(40))
    feed(site)
    steps = [Step(path=path, token=token, delay_ms=0) for path, token in claim_all(site)]
    site.ledger.move(RUN, Event.HOLD, steps)
    assert site.facts().counts[State.HELD] == 40
    put(site, Phase.RAMP)
    after(site, lambda: not site.ledger.conditions().breakers)
    after(site, lambda: site.facts().sent == WHOLE or not site.facts().ready[Lane.SMALL])
    assert max(len(one.paths) for one in site.wakeups.bundles) > 1
    assert site.facts().counts[State.HELD] == 0


def test_files_held_in_thousands_are_back_within_one_sweep(site: Site) -> None:
    many = [f"f{number}" for number in range(12_000)]
    seen = [(name, Fingerprint(1, 1, 2, 3)) for name in many]
    site.ledger.discover(RUN, seen)
    site.ledger.move(
        RUN, Event.SETTLE, [Step(path=n, fingerprint=f, lane=Lane.SMALL) for n, f in seen]
    )
    for bundle in site.ledger.take(RUN, Lane.SMALL, bundles=3, max_files=5000, max_bytes=1 << 40):
        claims = site.ledger.claim(RUN, bundle.number, bundle.paths, 1)
        steps = [Step(path=one.path, token=one.token, delay_ms=0) for one in claims]
        site.ledger.move(RUN, Event.HOLD, steps)
    assert site.facts().counts[State.HELD] == 12_000
    site.sweep.tick()
    assert site.facts().counts[State.HELD] == 0


# -- instruments beside one another

OTHER = RunKey("ms", "r1")


def turns_told(site: Site, *moved: str) -> None:
    """Let the sweep look, after something of these instruments moved."""
    for name in moved:
        site.ledger.tally({Tally(name, What.CLAIM): 1}, {})
    runs = {one.instrument: [site.facts(one)] for one in site.ledger.active_runs()}
    tell_turns(site.ledger, runs, site.settings)


def two(site: Site, **priorities: int) -> Site:
    """Give instruments a priority."""
    instruments = {
        name: InstrumentSettings(root=Path("/nowhere"), priority=priority)
        for name, priority in priorities.items()
    }
    site.settings = site.settings.model_copy(update={"instruments": instruments})
    return site


def test_a_few_files_beside_a_flood_ride_in_messages_of_its_size(site: Site) -> None:
    site.settled(names(1000))
    turns_told(site)
    site.settled(names(4), run=OTHER)
    assert feed(site, "ms") == 1
    assert [len(bundle.paths) for bundle in site.wakeups.bundles] == [4]


def test_a_few_files_alone_ride_alone(site: Site) -> None:
    turns_told(site)
    site.settled(names(4), run=OTHER)
    assert feed(site, "ms") == 4


def test_files_of_a_higher_priority_go_first_and_the_others_one_message_a_sweep(
    site: Site,
) -> None:
    two(site, seq=0, ms=1)
    site.settled(names(100))
    site.settled(names(100), run=OTHER)
    turns_told(site, "ms")
    assert feed(site) == 0
    runs = [site.facts(RUN)]
    assert top_up(site.ledger, site.wakeups, runs, site.settings, trickles=True) == 1
    assert top_up(site.ledger, site.wakeups, [site.facts(RUN)], site.settings, trickles=True) == 0
    assert feed(site, "ms") == WHOLE


def test_an_instrument_that_does_not_move_keeps_nobody_waiting(site: Site) -> None:
    two(site, seq=0, ms=1)
    site.settled(names(100))
    site.settled(names(100), run=OTHER)
    turns_told(site)
    assert feed(site) == WHOLE


def test_an_instrument_whose_share_is_full_soon_goes_before_a_higher_priority(site: Site) -> None:
    two(site, seq=0, ms=50)
    site.settled(names(100))
    site.settled(names(100), run=OTHER)
    space = Space(free_bytes=10**12, total_bytes=10**13, fills_bytes_per_s=10**8)
    now_ms = site.ledger.now_ms()
    site.ledger.tell_pass(Pass(instrument="seq", host="h", at_ms=now_ms, space=space))
    turns_told(site, "ms", "seq")
    assert feed(site, "ms") == 0
    assert feed(site) == WHOLE


def test_each_lane_of_an_outranked_instrument_goes_on(site: Site) -> None:
    two(site, seq=0, ms=1)
    for run in (RUN, OTHER):
        site.settled(names(50), run=run)
        site.settled([f"large-{name}" for name in names(50)], size=100, run=run)
    turns_told(site, "ms")
    runs = [site.facts(RUN)]
    assert top_up(site.ledger, site.wakeups, runs, site.settings, trickles=True) == 2
    assert {bundle.lane for bundle in site.wakeups.bundles} == set(Lane)


# -- an instrument with a cap


def capped(site: Site, cap: int) -> Site:
    """Give the instrument a cap."""
    one = InstrumentSettings(root=Path("/nowhere"), max_concurrency=cap)
    site.settings = site.settings.model_copy(update={"instruments": {RUN.instrument: one}})
    return site


def out(site: Site) -> int:
    """Files of the instrument under a lease, or in messages."""
    runs = [site.facts(run) for run in site.ledger.runs() if run.instrument == RUN.instrument]
    eligible = sum(one.counts[State.ELIGIBLE] - sum(one.ready.values()) for one in runs)
    return eligible + sum(one.counts[State.UPLOADING] for one in runs)


def test_no_more_files_go_out_than_a_cap_leaves_for_all_runs(site: Site) -> None:
    capped(site, 6)
    second = RunKey(RUN.instrument, "r2")
    for run in (RUN, second, OTHER):
        site.settled(names(100), run=run)
    assert (feed(site), feed(site)) == (3, 0), "two files a message"
    assert out(site) == 6
    leased = claim_all(site)
    assert (len(leased), feed(site)) == (6, 0)
    steps = [Step(path=path, token=token, delay_ms=60_000) for path, token in leased[:3]]
    site.ledger.move(RUN, Event.FAIL, steps)
    assert (feed(site), feed(site), feed(site)) == (1, 1, 0), "two files, and one"
    assert out(site) == 6
    assert feed(site, OTHER.instrument) == WHOLE


def test_a_cap_is_whole_again_when_all_is_done(site: Site) -> None:
    capped(site, 3)
    site.settled(names(10))
    done = 0
    while feed(site):
        assert out(site) <= 3
        done += sum(len(one.paths) for one in site.wakeups.bundles)
        site.verify_all(site.wakeups.bundles)
        site.wakeups.bundles.clear()
    assert done == site.facts().counts[State.VERIFIED] == 10


def test_both_lanes_of_an_instrument_with_a_cap_of_one_go_on(site: Site) -> None:
    capped(site, 1)
    site.settled(names(40))
    site.settled([f"large-{name}" for name in names(40)], size=100)
    lanes = set()
    while feed(site):
        lanes.add(site.wakeups.bundles[0].lane)
        site.verify_all(site.wakeups.bundles)
        site.wakeups.bundles.clear()
        if lanes == set(Lane):
            break
    assert lanes == set(Lane)
    waits = site.facts().ready
    assert all(waits.values()), "neither waited for the other to end"


def test_a_canary_and_a_cap_agree(site: Site) -> None:
    capped(site, 4)
    site.settled(names(50))
    put(site, Phase.OPEN)
    assert (feed(site), feed(site)) == (1, 0)

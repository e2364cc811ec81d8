"""Do breakers open, probe, ramp and forget as they are said to?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.breakers import (
    FORGOTTEN_MS,
    Breaker,
    Conditions,
    Phase,
    Rules,
    admit,
    breaker_name,
    cleared,
    healed,
    in_force,
    is_over,
    names_of,
    opened,
    probe_failed,
    probe_left,
    probe_passed,
    struck,
    wait_of,
    window,
)
from labferry.failures import Cause, Failure, Kind, Scope

RULES = Rules(probe_ms=10_000, cap_ms=300_000, lease_ms=60_000, ramp_ms=2_000, recovery_ms=30_000)
NOW = 1_800_000_000_000
NAME = "endpoint:http://s3/b"
DOWN = Failure(kind=Kind.ENVIRONMENT, code="Down", message="no answer", cause=Cause.ENDPOINT)


def open_breaker(failure: Failure = DOWN, now_ms: int = NOW) -> Breaker:
    breaker = opened(None, NAME, failure, now_ms, RULES)
    assert breaker is not None
    return breaker


def probing(breaker: Breaker | None = None) -> tuple[Breaker, int]:
    """Return a breaker that is probed, and when the probe began."""
    breaker = breaker or open_breaker()
    (probe,) = admit([breaker], breaker.next_ms, RULES).probes
    return probe, breaker.next_ms


def ramp(now_ms: int = NOW) -> Breaker:
    probe, _ = probing()
    passed = probe_passed(probe, probe, now_ms)
    assert passed is not None
    return passed


# -- opening


def test_a_failure_opens_a_breaker_and_keeps_what_it_said() -> None:
    breaker = open_breaker()
    assert (breaker.phase, breaker.cause) == (Phase.OPEN, Cause.ENDPOINT)
    assert (breaker.code, breaker.message) == ("Down", "no answer")
    assert (breaker.since_ms, breaker.next_ms, breaker.opened) == (NOW, NOW + 10_000, 1)


def test_a_failure_under_an_open_breaker_changes_nothing() -> None:
    assert opened(open_breaker(), NAME, DOWN, NOW + 5, RULES) is None
    probe, now_ms = probing()
    assert opened(probe, NAME, DOWN, now_ms, RULES) is None


def test_what_the_endpoint_asks_for_is_the_least_wait() -> None:
    breaker = open_breaker(replace(DOWN, retry_after_s=77.0))
    assert breaker.next_ms == NOW + 77_000


def test_what_comes_back_in_the_ramp_is_the_same_trouble_and_waits_for_longer() -> None:
    before = ramp(NOW)
    again = opened(before, NAME, DOWN, NOW + 1, RULES)
    assert again is not None
    assert (again.since_ms, again.opened) == (before.since_ms, 2)
    assert again.wait_ms == 2 * before.wait_ms


def test_what_comes_back_much_later_is_new_trouble() -> None:
    later = NOW + FORGOTTEN_MS
    again = opened(ramp(NOW), NAME, DOWN, later, RULES)
    assert again is not None
    assert (again.since_ms, again.opened, again.wait_ms) == (later, 1, RULES.probe_ms)


# -- who may go on


def test_nobody_passes_an_open_breaker_before_its_probe() -> None:
    breaker = open_breaker()
    for now_ms in (NOW, NOW + 9_999):
        admission = admit([breaker], now_ms, RULES)
        assert admission.blocker == breaker
        assert admission.wait_ms == NOW + 10_000 - now_ms
        assert admission.probes == ()


def test_one_is_let_in_to_probe_and_the_others_wait_for_it() -> None:
    probe, now_ms = probing()
    assert (probe.phase, probe.probes, probe.next_ms) == (Phase.PROBING, 1, now_ms + 60_000)
    admission = admit([probe], now_ms + 1, RULES)
    assert (admission.blocker, admission.wait_ms) == (probe, RULES.probe_ms)


def test_a_probe_that_does_not_report_is_followed_by_another() -> None:
    probe, now_ms = probing()
    (again,) = admit([probe], now_ms + 60_000, RULES).probes
    assert again.probes == 2


def test_nobody_probes_one_breaker_while_another_is_shut() -> None:
    late = open_breaker()
    early = replace(late, name="other", next_ms=NOW)
    admission = admit([early, late], NOW, RULES)
    assert (admission.blocker, admission.probes) == (late, ())


def test_all_breakers_that_are_due_are_probed_at_once() -> None:
    one = replace(open_breaker(), next_ms=NOW)
    admission = admit([one, replace(one, name="other"), ramp()], NOW, RULES)
    assert [probe.name for probe in admission.probes] == [NAME, "other"]


def test_strikes_and_ramps_stop_nobody() -> None:
    struck_once = struck(None, NAME, DOWN, NOW, RULES)
    for breakers in ([], [ramp()], [struck_once]):
        admission = admit(breakers, NOW, RULES)
        assert (admission.blocker, admission.probes) == (None, ())
        assert not any(wait_of(one, NOW, RULES) for one in breakers)


# -- what comes of a probe


def test_each_failed_probe_doubles_the_wait_up_to_the_cap() -> None:
    breaker, waits = open_breaker(), []
    for _ in range(8):
        probe, now_ms = probing(breaker)
        failed = probe_failed(probe, probe, replace(DOWN, code="Still"), now_ms, RULES)
        assert failed is not None
        assert failed.next_ms == now_ms + failed.wait_ms
        breaker = failed
        waits.append(breaker.wait_ms // 1000)
    assert waits == [20, 40, 80, 160, 300, 300, 300, 300]
    assert (breaker.since_ms, breaker.opened, breaker.probes) == (NOW, 1, 8)
    assert breaker.code == "Still"


def test_the_failure_of_a_probe_that_is_followed_by_another_counts_for_nothing() -> None:
    first, now_ms = probing()
    (second,) = admit([first], now_ms + 60_000, RULES).probes
    assert probe_failed(second, first, DOWN, now_ms + 60_001, RULES) is None


def test_a_probe_that_passed_late_is_as_good_as_one_in_time() -> None:
    first, now_ms = probing()
    (second,) = admit([first], now_ms + 60_000, RULES).probes
    passed = probe_passed(second, first, now_ms + 60_001)
    assert passed is not None
    assert passed.phase is Phase.RAMP


def test_a_probe_of_earlier_trouble_ends_no_later_one() -> None:
    probe, _ = probing()
    later = open_breaker(now_ms=NOW + FORGOTTEN_MS)
    assert probe_passed(later, probe, NOW + FORGOTTEN_MS + 1) is None
    assert probe_failed(later, probe, DOWN, NOW + FORGOTTEN_MS + 1, RULES) is None
    assert probe_passed(ramp(), probe, NOW) is None


def test_a_probe_of_which_nothing_came_is_anybody_s_again() -> None:
    probe, now_ms = probing()
    left = probe_left(probe, probe, now_ms + 5)
    assert left is not None
    assert admit([left], now_ms + 5, RULES).probes
    assert left.wait_ms == probe.wait_ms
    assert probe_left(left, probe, now_ms + 6) is None


def test_a_share_that_is_seen_again_needs_no_probe() -> None:
    back = healed(open_breaker(), NOW + 1)
    assert back is not None
    assert back.phase is Phase.RAMP
    assert healed(back, NOW + 2) is None
    assert healed(None, NOW) is None


# -- failures in a row


def test_strikes_are_counted_and_a_success_clears_them() -> None:
    breaker = struck(struck(None, NAME, DOWN, NOW, RULES), NAME, DOWN, NOW + 1, RULES)
    assert (breaker.phase, breaker.strikes) == (Phase.CLOSED, 2)
    clean = cleared(breaker)
    assert clean is not None
    assert clean.strikes == 0
    assert cleared(clean) is None
    assert cleared(None) is None


def test_strikes_of_long_ago_do_not_count() -> None:
    old = struck(None, NAME, DOWN, NOW, RULES)
    assert struck(old, NAME, DOWN, NOW + FORGOTTEN_MS, RULES).strikes == 1


def test_strikes_do_not_end_a_ramp() -> None:
    breaker = struck(ramp(NOW), NAME, DOWN, NOW + 500, RULES)
    assert (breaker.phase, breaker.at_ms, breaker.strikes) == (Phase.RAMP, NOW, 1)


# -- the window


def test_the_window_is_shut_but_for_the_canary_once_a_probe_is_due() -> None:
    breaker = open_breaker()
    assert window([breaker], NOW + 9_999, 256, RULES) == 0
    assert window([breaker], NOW + 10_000, 256, RULES) == 1
    probe, now_ms = probing()
    assert window([probe], now_ms, 256, RULES) == 0
    assert window([probe], now_ms + 60_000, 256, RULES) == 1
    assert window([], NOW, 256, RULES) == 256


def test_the_window_doubles_in_a_ramp_until_it_is_whole() -> None:
    breaker = ramp(NOW)
    sizes = [window([breaker], NOW + at_ms, 256, RULES) for at_ms in range(0, 20_000, 2_000)]
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256]
    assert window([breaker], NOW + 1_999, 256, RULES) == 1


@given(st.integers(-10_000, 10**9), st.integers(1, 100_000), st.integers(0, 10_000))
def test_the_window_never_passes_the_whole_one(after_ms: int, whole: int, ramp_ms: int) -> None:
    rules = replace(RULES, ramp_ms=ramp_ms)
    for breaker in (open_breaker(), probing()[0], ramp(NOW)):
        assert 0 <= window([breaker], NOW + after_ms, whole, rules) <= whole


def test_the_narrowest_window_counts() -> None:
    assert window([ramp(NOW), open_breaker()], NOW + 4_000, 256, RULES) == 0


# -- what is over


def test_a_ramp_is_remembered_until_it_cannot_be_the_same_trouble() -> None:
    breaker = replace(ramp(NOW), wait_ms=300_000)
    assert not is_over(breaker, NOW + 599_999, RULES)
    assert is_over(breaker, NOW + 600_000, RULES)


def test_an_open_breaker_that_somebody_tends_is_never_over() -> None:
    breaker = open_breaker()
    for _ in range(100):
        probe, now_ms = probing(breaker)
        assert not is_over(probe, now_ms, RULES)
        breaker = probe_failed(probe, probe, DOWN, now_ms, RULES) or breaker
        assert not is_over(breaker, breaker.next_ms, RULES)


def test_what_nobody_tends_is_over_in_the_end() -> None:
    breaker = open_breaker()
    assert not is_over(breaker, breaker.next_ms + FORGOTTEN_MS - 1, RULES)
    assert is_over(breaker, breaker.next_ms + FORGOTTEN_MS, RULES)


def test_breakers_of_other_endpoints_hosts_and_shares_are_not_in_force() -> None:
    mine = breaker_name(Cause.CREDENTIALS, endpoint="e1", host="h1")
    names = [
        mine,
        breaker_name(Cause.LOCAL, endpoint="e1", host="h1"),
        breaker_name(Cause.CREDENTIALS, endpoint="e2", host="h1"),
        breaker_name(Cause.LOCAL, endpoint="e1", host="h2"),
        breaker_name(Cause.SHARE, endpoint="e1", host="h1", instrument="scope"),
    ]
    breakers = tuple(replace(open_breaker(), name=name) for name in names)
    conditions = Conditions(now_ms=NOW, breakers=breakers)
    worker = in_force(conditions, names_of("e1", "h1"), RULES)
    assert [one.name for one in worker] == names[:2]
    feed = in_force(conditions, names_of("e1"), RULES)
    assert [one.name for one in feed] == [mine]
    later = Conditions(now_ms=NOW + 2 * FORGOTTEN_MS, breakers=breakers)
    assert in_force(later, names_of("e1", "h1"), RULES) == []


@pytest.mark.parametrize("cause", list(Cause))
def test_each_cause_has_a_breaker_of_its_own(cause: Cause) -> None:
    names = {
        breaker_name(one, endpoint="e", host="h", instrument="i") for one in Cause if one != cause
    }
    name = breaker_name(cause, endpoint="e", host="h", instrument="i")
    assert name not in names
    assert ("h" in name.rpartition(":")[2]) == (cause.scope is Scope.HOST)

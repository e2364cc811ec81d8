"""Is an endpoint asked for less when it says so, and for more again later?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.failures import Cause, Failure, Kind
from labferry.throttle import HALVING_MS, LEAST_PACE, Pace, share_of, threads, throttled

NOW, RECOVERY_MS = 1_800_000_000_000, 30_000
SLOW = Failure(kind=Kind.THROTTLED, code="SlowDown", message="less", cause=Cause.THROTTLE)


def slowed(seen: Pace | None, now_ms: int) -> Pace:
    pace = throttled(seen, "e", SLOW, now_ms, RECOVERY_MS)
    assert pace is not None
    return pace


def test_a_pace_is_halved_once_a_second_at_most() -> None:
    pace = slowed(None, NOW)
    assert share_of(pace, NOW, RECOVERY_MS) == 0.5
    assert throttled(pace, "e", SLOW, NOW + HALVING_MS - 1, RECOVERY_MS) is None
    again = slowed(pace, NOW + HALVING_MS)
    assert again.share == pytest.approx(0.25, rel=0.05)


def test_a_pace_recovers_with_time() -> None:
    pace = replace(slowed(None, NOW), share=0.125)
    shares = [
        share_of(pace, NOW + at_ms, RECOVERY_MS) for at_ms in (0, 30_000, 60_000, 90_000, 10**9)
    ]
    assert shares == [0.125, 0.25, 0.5, 1.0, 1.0]
    assert share_of(None, NOW, RECOVERY_MS) == 1.0


@given(st.lists(st.integers(0, 100_000), max_size=50))
def test_a_pace_never_stops_and_is_never_more_than_whole(waits_ms: list[int]) -> None:
    pace, now_ms = None, NOW
    for wait_ms in waits_ms:
        now_ms += wait_ms
        pace = throttled(pace, "e", SLOW, now_ms, RECOVERY_MS) or pace
        assert LEAST_PACE <= share_of(pace, now_ms, RECOVERY_MS) <= 1


@given(st.integers(1, 256), st.floats(LEAST_PACE, 1))
def test_some_thread_always_works(wanted: int, share: float) -> None:
    assert 1 <= threads(wanted, share) <= wanted

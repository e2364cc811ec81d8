"""Which rate is in force, by the week, by an operator, and while an instrument acquires?"""

import zoneinfo
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from labferry.limits import ACQUIRING_MS, Limit, Plan, is_acquiring, rate_of, read_schedule, zone_of

MONDAY = datetime(2026, 11, 30, tzinfo=UTC)
MB = 10**6


def at_ms(day: int, hour: int, minute: int = 0, zone: str = "UTC") -> int:
    """An instant of the week that begins on a Monday."""
    local = MONDAY.replace(day=1, month=12) if day else MONDAY
    local = local.replace(day=day) if day else local
    return int(local.replace(hour=hour, minute=minute, tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def rate(*rows: str, day: int = 0, hour: int = 0, minute: int = 0) -> int | None:
    plan = Plan(bytes_per_s=7, schedule=read_schedule(rows))
    return rate_of(plan, None, at_ms(day, hour, minute)).bytes_per_s


@pytest.mark.parametrize(
    ("hour", "minute", "expected"), [(7, 59, 7), (8, 0, 50 * MB), (17, 59, 50 * MB), (18, 0, 7)]
)
def test_a_row_holds_from_its_first_minute_to_before_its_last(
    hour: int, minute: int, expected: int
) -> None:
    assert rate("mon-fri 08:00-18:00 50MB", hour=hour, minute=minute) == expected


def test_a_row_of_other_days_does_not_hold() -> None:
    assert rate("sat,sun 50MB") == 7
    assert rate("fri-mon 50MB") == 50 * MB, "a span may pass the end of the week"


def test_a_row_may_pass_midnight_and_belongs_to_the_day_it_begins() -> None:
    night = "mon 22:00-06:00 unlimited"
    assert rate(night, day=0, hour=23) is None
    assert rate(night, day=1, hour=5) is None
    assert rate(night, day=1, hour=23) == 7
    assert rate(night, day=0, hour=5) == 7


def test_the_first_row_that_holds_wins() -> None:
    assert rate("mon 10:00-11:00 1MB", "mon-sun 2MB", hour=10) == MB
    assert rate("mon 10:00-11:00 1MB", "mon-sun 2MB", hour=12) == 2 * MB


def test_a_schedule_is_of_its_own_time_zone() -> None:
    rows = read_schedule(["mon 08:00-09:00 1MB"])
    plan = Plan(schedule=rows, zone=ZoneInfo("Europe/Berlin"))
    assert rate_of(plan, None, at_ms(0, 7, 30)).bytes_per_s == MB
    assert rate_of(plan, None, at_ms(0, 8, 30)).bytes_per_s is None


@pytest.mark.parametrize(
    "row", ["mon", "mon 50", "mon 25:00-26:00 1MB", "someday 1MB", "mon 0", "mon -1MB", "mon fast"]
)
def test_a_row_that_cannot_be_read_is_refused(row: str) -> None:
    with pytest.raises(ValueError, match=r"mon|someday|hour"):
        read_schedule([row])


def test_what_an_operator_said_holds_over_the_schedule_until_it_ends() -> None:
    plan = Plan(bytes_per_s=7, schedule=read_schedule(["mon-sun 1MB"]))
    said = Limit(bytes_per_s=3, actor="ada", reason="backup", at_ms=0, until_ms=at_ms(0, 9))
    assert rate_of(plan, said, at_ms(0, 8)) == (3, "ada: backup")
    assert rate_of(plan, said, at_ms(0, 9)).bytes_per_s == MB
    for_ever = Limit(bytes_per_s=None, actor="ada", reason="all of it", at_ms=0)
    assert rate_of(plan, for_ever, at_ms(0, 9)).bytes_per_s is None


def test_an_acquisition_caps_whatever_else_is_said_and_raises_nothing() -> None:
    plan = Plan(bytes_per_s=7, acquiring_bytes_per_s=5)
    assert rate_of(plan, None, 0, acquiring=True).bytes_per_s == 5
    assert rate_of(plan, None, 0).bytes_per_s == 7
    lower = Limit(bytes_per_s=2, actor="a", reason="r", at_ms=0)
    assert rate_of(plan, lower, 0, acquiring=True).bytes_per_s == 2
    free = Plan(acquiring_bytes_per_s=5)
    assert rate_of(free, None, 0, acquiring=True).bytes_per_s == 5


def test_an_instrument_acquires_for_a_while_after_something_came() -> None:
    assert not is_acquiring(0, 5)
    assert is_acquiring(1, ACQUIRING_MS)
    assert not is_acquiring(1, ACQUIRING_MS + 1)


def test_utc_needs_no_list_of_zones_and_an_unknown_zone_is_refused() -> None:
    zoneinfo.reset_tzpath(to=())
    ZoneInfo.clear_cache()
    try:
        assert zone_of("UTC") is UTC
        with pytest.raises(ValueError, match="Mars"):
            zone_of("Mars/Base")
    finally:
        zoneinfo.reset_tzpath()

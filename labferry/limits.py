"""How many bytes a second may be read of sources now? A weekly schedule, and what operators said.

Pure: settings, what is on record and an instant in, a rate out. None is no limit.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from labferry.measures import find_bytes

#: The name of what holds for all instruments together; no instrument is called so.
OVERALL = "*"
#: An instrument acquires while something came or grew at its source within this time.
ACQUIRING_MS = 120_000
#: Bytes are taken for fractions of a second ahead: more than this is a clock that was set back.
AHEAD_MOST_MS = 600_000
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ROW = re.compile(r"([a-z,-]+) (?:(\d\d:\d\d)-(\d\d:\d\d) )?(\S+)")
_UNLIMITED = "unlimited"


class Row(NamedTuple):
    """A part of the week and its rate; it passes midnight where it begins later than it ends."""

    days: frozenset[int]
    begins: time
    ends: time
    bytes_per_s: int | None

    def holds(self, at: datetime) -> bool:
        """Whether it holds at a local time."""
        now, day = at.time(), at.weekday()
        if self.begins < self.ends:
            return day in self.days and self.begins <= now < self.ends
        if now >= self.begins:
            return day in self.days
        return now < self.ends and (day - 1) % 7 in self.days


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the settings say of one instrument, or of all: the first row that holds wins."""

    bytes_per_s: int | None = None
    schedule: tuple[Row, ...] = ()
    zone: tzinfo = UTC
    acquiring_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What an operator said instead, who and why; `until_ms` is 0 where it holds until changed."""

    bytes_per_s: int | None
    actor: str
    reason: str
    at_ms: int
    until_ms: int = 0

    def holds(self, now_ms: int) -> bool:
        """Whether it still does."""
        return not self.until_ms or now_ms < self.until_ms


class Rate(NamedTuple):
    """Bytes a second, None for no limit, and what says so."""

    bytes_per_s: int | None
    why: str


def rate_of(plan: Plan, said: Limit | None, now_ms: int, *, acquiring: bool = False) -> Rate:
    """Return the rate in force at an instant of the ledger's clock."""
    rate = _planned(plan, now_ms)
    if said is not None and said.holds(now_ms):
        rate = Rate(said.bytes_per_s, f"{said.actor}: {said.reason}")
    cap = plan.acquiring_bytes_per_s
    if acquiring and cap is not None and (rate.bytes_per_s is None or cap < rate.bytes_per_s):
        return Rate(cap, "the instrument is acquiring")
    return rate


def is_acquiring(arrived_ms: int, now_ms: int) -> bool:
    """Whether something came or grew lately; `arrived_ms` is when that was seen last."""
    return bool(arrived_ms) and now_ms - arrived_ms < ACQUIRING_MS


def lowest(rates: Mapping[str, Rate]) -> dict[str, int]:
    """Return the limits among some rates, by name."""
    return {name: one.bytes_per_s for name, one in rates.items() if one.bytes_per_s is not None}


def _planned(plan: Plan, now_ms: int) -> Rate:
    at = datetime.fromtimestamp(now_ms / 1000, plan.zone)
    for row in plan.schedule:
        if row.holds(at):
            return Rate(row.bytes_per_s, "the schedule")
    return Rate(plan.bytes_per_s, "the settings")


def zone_of(name: str) -> tzinfo:
    """Return a time zone; UTC also where the host has no list of zones. Raises: ValueError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"this host knows no time zone {name!r}, such as Europe/Berlin") from error


def read_schedule(rows: Sequence[str]) -> tuple[Row, ...]:
    """Read rows such as `mon-fri 08:00-18:00 50MB`, `sat,sun unlimited`. Raises: ValueError."""
    return tuple(_row(text) for text in rows)


def _row(text: str) -> Row:
    match = _ROW.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not such as `mon-fri 08:00-18:00 50MB`")
    return Row(
        days=frozenset(day for part in match[1].split(",") for day in _days(part, text)),
        begins=time.fromisoformat(match[2] or "00:00"),
        ends=_end(match[3] or "24:00"),
        bytes_per_s=find_rate(match[4], text),
    )


def _end(text: str) -> time:
    # The day's last moment: time knows no 24:00.
    return time.max if text == "24:00" else time.fromisoformat(text)


def _days(part: str, text: str) -> list[int]:
    first, _, last = part.partition("-")
    if first not in _DAYS or (last or first) not in _DAYS:
        raise ValueError(f"{text!r}: a day is one of {', '.join(_DAYS)}")
    begin, end = _DAYS.index(first), _DAYS.index(last or first)
    return [day % 7 for day in range(begin, end + 1 if begin <= end else end + 8)]


def find_rate(word: str, text: str) -> int | None:
    """Return bytes a second; None for `unlimited`. Raises: ValueError."""
    if word == _UNLIMITED:
        return None
    size = find_bytes(word.removesuffix("/s"))
    if not size or word.isdigit():  # 50 would be bytes, and stop a lab
        raise ValueError(f"{text!r}: a rate is a size a second, such as 50MB, or `unlimited`")
    return size

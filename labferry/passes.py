"""Is an instrument's share looked at, and what keeps its runs from being done?

An agent tells the ledger of each pass, and of every few seconds of a long one, with the time by
which it will tell again. Where that time is over, the silence tells: nobody looks. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: An agent that does not tell for so long after it was to does not run, or hangs.
SILENT_S = 120.0
#: What nobody told of for so long is not told of any more: its host is gone.
FORGOTTEN_S = 7 * 86_400.0


class Watch(StrEnum):
    """Whether a share is looked at."""

    UNKNOWN = "unknown"  # no agent ever told of it
    WATCHED = "watched"  # it is looked at, and is there
    AWAY = "away"  # it is looked at, and is not there
    UNWATCHED = "unwatched"  # no agent runs, or its look at the share hangs


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why one run is not done yet.

    `lacks` are the parts of the done rule that do not pass, `stuck` what has kept it from being at
    rest for too long. `since_ms` is when each temporary name was seen first, and '' since when no
    file came to rest.
    """

    run: str
    lacks: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    since_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The room on a share, and how fast it goes; 0 where it does not, or that is not known."""

    free_bytes: int
    total_bytes: int
    fills_bytes_per_s: float = 0.0

    @property
    def left_s(self) -> float | None:
        """Return how long until it is full at that rate; None where it does not fill."""
        if self.fills_bytes_per_s <= 0:
            return None
        return self.free_bytes / self.fills_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The last that an agent on one host told of one instrument.

    `due_ms` is when it tells again at the latest, 0 where it promised nothing; `away` says why
    the share could not be looked at, '' where it could, `away_ms` since when. `arrived_ms` is when
    something new, or other than before, was seen there last.
    """

    instrument: str
    host: str
    at_ms: int
    due_ms: int = 0
    away: str = ""
    away_ms: int = 0
    arrived_ms: int = 0
    space: Space | None = None
    waiting: tuple[Waiting, ...] = ()

    def is_silent(self, now_ms: int) -> bool:
        """Whether the agent should have told again by now."""
        return 0 < self.due_ms < now_ms


def watch_of(passes: Iterable[Pass], instrument: str, now_ms: int) -> tuple[Watch, Pass | None]:
    """Return whether an instrument's share is looked at, by what was told of it from all hosts,
    and the pass that says so: a host that sees it counts for more than one that does not."""
    told = (one for one in passes if one.instrument == instrument)
    newest = sorted(told, key=lambda one: one.at_ms, reverse=True)
    heard = [one for one in newest if not one.is_silent(now_ms)]
    for one in heard:
        if not one.away:
            return Watch.WATCHED, one
    if heard:
        return Watch.AWAY, heard[0]
    return (Watch.UNWATCHED, newest[0]) if newest else (Watch.UNKNOWN, None)

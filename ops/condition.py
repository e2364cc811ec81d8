"""What is an instrument about now, in one word, and why? Pure: facts in, a named condition out."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from labferry.completion import RunState, run_state
from labferry.passes import Watch
from labferry.settings_watching import MonitorSettings
from labferry.states import State
from ops.shown import counted, duration
from ops.standing import MOVABLE, Standing


class Condition(StrEnum):
    """What an instrument is about; the first that holds, in this order."""

    ATTENTION = "attention"  # a file is quarantined or a run is stale: a person decides
    AWAY = "away"  # its share is not there, on any host that looks: nothing new can be seen
    UNWATCHED = "unwatched"  # no agent looks at its share, or the look hangs, for two minutes
    STUCK = "stuck"  # a temporary name stays, or no file comes to rest, for `stuck_s`
    HUNG = "hung"  # files could go, and nothing moved for `hung_s`
    SLOW = "slow"  # the endpoint allows less than `slow_share` of the workers' threads
    LAGGING = "lagging"  # a file that is at rest waits longer than `lagging_s` for a worker
    RETRYING = "retrying"  # a file failed or is held; it is tried again by itself
    WORKING = "working"  # files are queued or on their way
    ARRIVING = "arriving"  # files are seen and not at rest yet
    IDLE = "idle"  # nothing is on its way


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is so for all instruments: `share` of their threads that workers may use, and whether
    a breaker `holds` this one's files."""

    share: float = 1.0
    holds: bool = False


_SILENT = {Watch.AWAY: Condition.AWAY, Watch.UNWATCHED: Condition.UNWATCHED}


def condition_of(
    standing: Standing, around: Around, limits: MonitorSettings
) -> tuple[Condition, str]:
    """Return the gravest condition that holds, and why, in words."""
    return next(_found(standing, around, limits), (Condition.IDLE, ""))


def _found(
    standing: Standing, around: Around, limits: MonitorSettings
) -> Iterator[tuple[Condition, str]]:
    dead, count = standing.count(State.QUARANTINED), standing.count
    stale = sum(run_state(facts) is RunState.STALE for facts in standing.runs)
    if dead or stale:
        yield Condition.ATTENTION, _attention(dead, stale)
    yield from _at_the_source(standing)
    if not around.holds and standing.still_s > limits.hung_s:
        yield Condition.HUNG, _beyond("nothing moved for", standing.still_s, limits.hung_s)
    if around.share < limits.slow_share and standing.backlog:
        yield (
            Condition.SLOW,
            f"the endpoint allows {around.share:.0%} of the threads, named below "
            f"{limits.slow_share:.0%}",
        )
    if standing.waits_s > limits.lagging_s:
        yield Condition.LAGGING, _beyond("a file waits for", standing.waits_s, limits.lagging_s)
    if parked := count(State.FAILED, State.HELD):
        yield Condition.RETRYING, f"{counted(parked)} to be tried again"
    if count(*MOVABLE):
        yield Condition.WORKING, ""
    if count(State.DISCOVERED):
        yield Condition.ARRIVING, ""


def _at_the_source(standing: Standing) -> Iterator[tuple[Condition, str]]:
    if standing.watched.watch in _SILENT:
        yield _SILENT[standing.watched.watch], standing.watched.trouble
    if stuck := next((one for run in standing.waiting.values() for one in run.stuck), ""):
        yield Condition.STUCK, stuck


def _attention(dead: int, stale: int) -> str:
    words = [f"{counted(dead)} in quarantine"] if dead else []
    if stale:
        words.append(counted(stale, "stale run"))
    return ", ".join(words)


def _beyond(what: str, seconds: float, limit_s: float) -> str:
    return f"{what} {duration(seconds)}, named after {duration(limit_s)}"

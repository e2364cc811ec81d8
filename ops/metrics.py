"""Which metrics does labferry expose, and from what are they made?

Pure: what was found in the ledger in, metrics out. Labels are instruments, states and codes of the
failure table: never a file, a run, a host or a text that a server made up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from labferry import __version__
from labferry.alerts import Undelivered
from labferry.breakers import Conditions, Phase
from labferry.completion import RunState
from labferry.failures import Cause
from labferry.passes import Watch
from labferry.states import AT_REST, State
from labferry.tallies import BEYOND, BOUNDS_S, Tallies, What
from ops.condition import Condition, condition_of
from ops.overview import Rules, around
from ops.standing import Standing

#: States of files that are shown; the others are history, which the counters tell.
SHOWN = tuple(state for state in State if state not in AT_REST or state is State.QUARANTINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one look at the ledger found."""

    standings: tuple[Standing, ...] = ()
    run_states: Mapping[tuple[str, RunState], int] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=lambda: Conditions(now_ms=0))
    tallies: Tallies = field(default_factory=Tallies)
    undelivered: tuple[Undelivered, ...] = ()
    undelivered_events: tuple[Undelivered, ...] = ()
    dead_messages: int = 0
    is_swept: bool = False
    rules: Rules = field(default_factory=Rules)

    @property
    def instruments(self) -> list[str]:
        """Return the instruments that are shown, whoever knows them."""
        names = {tally.instrument for tally in self.tallies.counts}
        names |= {name for name, _ in self.run_states}
        return sorted(names.union(one.instrument for one in self.standings))


def ledger_up(*, is_up: bool) -> Metric:
    """Return whether the ledger answered, with labferry's version."""
    family = GaugeMetricFamily(
        "labferry_ledger_up", "1 when the ledger answers; without it nothing else is known",
        labels=["version"],
    )  # fmt: skip
    family.add_metric([__version__], float(is_up))
    return family


def families(found: Found) -> Iterator[Metric]:
    """Yield all metrics of one look at the ledger."""
    yield from _standing_now(found)
    yield from _runs(found)
    yield from _in_the_way(found)
    yield from _happened(found)
    yield _times(found)


_Rows = Iterable[tuple[tuple[str, ...], float]]


def _gauge(name: str, text: str, labels: str, rows: _Rows) -> Metric:
    family = GaugeMetricFamily(f"labferry_{name}", text, labels=labels.split())
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _counter(name: str, text: str, labels: str, rows: _Rows) -> Metric:
    family = CounterMetricFamily(f"labferry_{name}", text, labels=labels.split())
    for values, number in rows:
        family.add_metric(values, number)
    return family


#: One number of each instrument.
_STANDING: tuple[tuple[str, str, Callable[[Standing], float]], ...] = (
    ("backlog_files", "files that are not at rest", lambda one: one.backlog),
    ("backlog_bytes", "sizes of files that are not at rest", lambda one: one.backlog_bytes),
    ("oldest_eligible_age_seconds", "how long ago the file settled that waits longest for a worker",
     lambda one: one.waits_s),
    ("dead_letters", "files in quarantine: a person decides",
     lambda one: one.count(State.QUARANTINED)),
    ("dead_letter_oldest_age_seconds", "how old the oldest dead letter is", lambda one: one.dead_s),
    ("stuck_runs", "open runs that something keeps from being at rest",
     lambda one: sum(bool(run.stuck) for run in one.waiting.values())),
)  # fmt: skip


def _standing_now(found: Found) -> Iterator[Metric]:
    standings = found.standings
    by_state = [(one, (one.instrument, state), state) for one in standings for state in SHOWN]
    yield _gauge(
        "files", "files that are not done, by state", "instrument state",
        ((labels, one.count(state)) for one, labels, state in by_state),
    )  # fmt: skip
    yield _gauge(
        "bytes", "sizes of files that are not done, by state", "instrument state",
        ((labels, one.size(state)) for one, labels, state in by_state),
    )  # fmt: skip
    for name, text, number in _STANDING:
        yield _gauge(
            name, text, "instrument", [((one.instrument,), number(one)) for one in standings]
        )
    yield _gauge(
        "still_seconds", "how long nothing moved although files could go, nothing in their way",
        "instrument", (((one.instrument,), _still_s(found, one)) for one in standings),
    )  # fmt: skip
    yield _gauge(
        "watch", "1 for whether agents look at the share", "instrument watch",
        (
            ((one.instrument, each), float(one.watched.watch is each))
            for one in standings
            for each in Watch
        ),
    )  # fmt: skip
    yield _gauge(
        "quiet_seconds", "how long nothing new or other was seen on the share", "instrument",
        (
            ((one.instrument,), quiet_s)
            for one in standings
            if (quiet_s := one.watched.quiet_s) is not None
        ),
    )  # fmt: skip
    yield from _room(standings)
    yield _gauge(
        "condition", "1 for the condition that `labferry status` names", "instrument condition",
        _conditions(found),
    )  # fmt: skip


def _room(standings: Sequence[Standing]) -> Iterator[Metric]:
    spaces = [(one.instrument, one.watched.space) for one in standings if one.watched.space]
    yield _gauge(
        "share_free_bytes", "room left on the share, as an agent saw it last", "instrument",
        (((name,), space.free_bytes) for name, space in spaces),
    )  # fmt: skip
    yield _gauge(
        "share_full_seconds", "time until the share is full; none where it does not fill",
        "instrument",
        (((name,), space.left_s) for name, space in spaces if space.left_s is not None),
    )  # fmt: skip


def _still_s(found: Found, standing: Standing) -> float:
    nearby = around(found.conditions, standing.instrument, found.rules.recovery_ms)
    return 0.0 if nearby.holds else standing.still_s


def _conditions(found: Found) -> _Rows:
    for one in found.standings:
        nearby = around(found.conditions, one.instrument, found.rules.recovery_ms)
        named, _ = condition_of(one, nearby, found.rules.limits)
        yield from (((one.instrument, each), float(each is named)) for each in Condition)


def _runs(found: Found) -> Iterator[Metric]:
    yield _gauge(
        "runs", "runs by state", "instrument state",
        (
            ((name, state), found.run_states.get((name, state), 0))
            for name in found.instruments
            for state in RunState
        ),
    )  # fmt: skip


def _in_the_way(found: Found) -> Iterator[Metric]:
    yield _gauge(
        "breakers", "breakers by what stands in the way and whose share it is, by phase",
        "cause instrument phase", _breakers(found),
    )  # fmt: skip
    yield _gauge(
        "allowed_share", "share of their threads that the endpoint allows workers", "",
        [((), around(found.conditions, "", found.rules.recovery_ms).share)],
    )  # fmt: skip
    yield _gauge(
        "sweep_leads", "1 while a sweep leads", "", [((), float(found.is_swept))]
    )  # fmt: skip
    yield _gauge(
        "alerts_undelivered", "alerts that a sink did not take yet", "sink",
        (((one.sink,), one.waiting) for one in found.undelivered),
    )  # fmt: skip
    yield _gauge(
        "events_undelivered", "events that a sink did not take yet", "sink",
        (((one.sink,), one.waiting) for one in found.undelivered_events),
    )  # fmt: skip
    yield _gauge(
        "dead_messages", "messages that nobody could read", "", [((), found.dead_messages)]
    )  # fmt: skip


def _breakers(found: Found) -> _Rows:
    phases = [phase for phase in Phase if phase is not Phase.CLOSED]
    owners = [
        (cause, name)
        for cause in Cause
        for name in (found.instruments if cause is Cause.SHARE else [""])
    ]
    counts = Counter(
        (one.cause, _owner(one.name) if one.cause is Cause.SHARE else "", one.phase)
        for one in found.conditions.breakers
    )
    return (
        ((cause, name, phase), counts[cause, name, phase])
        for cause, name in owners
        for phase in phases
    )


def _owner(breaker: str) -> str:
    """Return the instrument of a share's breaker, `share:INSTRUMENT@HOST`."""
    return breaker.partition(":")[2].partition("@")[0]


_COUNTERS = (
    ("verified_bytes", What.VERIFIED_BYTES, "sizes of files that were verified"),
    ("sent_bytes", What.SENT_BYTES, "bytes the object store took, whatever came of them"),
    ("claims", What.CLAIM, "files that a worker began to work on"),
    ("leases_lost", What.LEASE_LOST, "leases that a worker lost while it was at work"),
    ("leases_expired", What.LEASE_EXPIRED, "leases that lapsed: their worker was lost"),
    ("deliveries_dropped", What.DELIVERY_DROPPED, "messages of which nothing was left to do"),
)


def _happened(found: Found) -> Iterator[Metric]:
    counts, instruments = found.tallies.counts, found.instruments
    yield _counter(
        "attempts", "attempts by the state they left the file in, and by code",
        "instrument state code",
        (
            ((tally.instrument, tally.state, tally.code), count)
            for tally, count in sorted(counts.items())
            if tally.what is What.ATTEMPT
        ),
    )  # fmt: skip
    for name, what, text in _COUNTERS:
        of_what = {tally.instrument: n for tally, n in counts.items() if tally.what is what}
        yield _counter(
            name, text, "instrument", (((one,), of_what.get(one, 0)) for one in instruments)
        )


def _times(found: Found) -> Metric:
    family = HistogramMetricFamily(
        "labferry_time_to_verified_seconds",
        "time from when a file settled until it was verified, outages included",
        labels=["instrument"],
    )
    counts = found.tallies.counts
    waits = {(one.instrument, one.code): n for one, n in counts.items() if one.what is What.WAIT}
    sums = {one.instrument: n for one, n in counts.items() if one.what is What.WAITED_MS}
    for name in found.instruments:
        buckets, total = [], 0
        for bound in (*map(str, BOUNDS_S), BEYOND):
            total += waits.get((name, bound), 0)
            buckets.append((bound, total))
        family.add_metric([name], buckets, sums.get(name, 0) / 1000)
    return family

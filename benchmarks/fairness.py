"""How long do files take that arrive on an idle system, and beside 200,000 of another instrument?

`few` gets its files alone first; for fairness then again while `flood` has its own on the way.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from benchmarks.arrivals import FIELDS, Arrivals, Times, p50_p99
from benchmarks.job import Job
from benchmarks.processes import Cost, Meter
from benchmarks.programs import programs, write_settings
from benchmarks.waiting import await_facts
from labferry.identity import RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.records import RunFacts
from labferry.settings import LedgerSettings
from labferry.states import State
from ops.embedded import Valkey

#: Files of one run, and how many such runs.
FEW = 50
ROUNDS = 3
SPACING_S = 0.1
#: Off the beat of the scans.
IDLE_SPACING_S = 0.37
FLOOD = RunKey("flood", "run")


def measure_latency(job: Job) -> Cost:
    """Return how long each file takes that comes to an idle system, one after the other."""
    count = len(job.point.sizes)
    with two_instruments(job, "few", "flood") as (arrivals, _, meter):
        times = arrivals.in_turn("run", count, IDLE_SPACING_S)
        cost = meter.stop()
    settled = p50_p99([1000 * one.since_settled_s for one in times])
    there = p50_p99([1000 * one.since_there_s for one in times])
    figures = {
        "p50_ms": settled[0],
        "p99_ms": settled[1],
        "since_there_p50_ms": there[0],
        "since_there_p99_ms": there[1],
    }
    return replace(cost, figures={**figures, **cost.figures})


def measure_fairness(job: Job) -> Cost:
    """Return how long few files take alone and beside the files of the job, and their ratios."""
    count = len(job.point.sizes)
    with two_instruments(job, "few", "flood") as (arrivals, ledger, meter):
        alone = _rounds(arrivals, "alone")
        job.folder.rename(job.scratch / "root" / "flood" / "run")
        try:
            before = _await_flood(ledger, count // 2)
            beside = _rounds(arrivals, "beside")
            left = _eligible(ledger)
            cost = meter.stop()
        finally:
            (job.scratch / "root" / "flood" / "run").rename(job.folder)
    ratios = {f"ratio_{name.removesuffix('_s')}": beside[name] / alone[name] for name in alone}
    figures = {
        **ratios,
        **{f"alone_{name}": value for name, value in alone.items()},
        **{f"beside_{name}": value for name, value in beside.items()},
        "flood_eligible_before": float(before),
        "flood_eligible_after": float(left),
    }
    return replace(cost, figures=figures)


@contextmanager
def two_instruments(
    job: Job, watched: str, other: str
) -> Iterator[tuple[Arrivals, RedisLedger, Meter]]:
    """Run labferry for two instruments, the arrivals of one of them being watched.

    Their roots are in the folder `root` of the job's scratch.
    """
    root = job.scratch / "root"
    for name in (watched, other):
        (root / name).mkdir(parents=True)
    with Valkey(job.scratch / "valkey") as valkey:
        instruments = {
            watched: {"root": str(root / watched), **FIELDS},
            other: {"root": str(root / other), "quiet_s": 0, "settle_window_s": 0},
        }
        to = job.endpoint
        settings = write_settings(job.scratch / "labferry.toml", to, valkey, instruments)
        ledger = open_ledger(LedgerSettings(url=valkey.url(1)))
        arrivals = Arrivals(watched, ledger, root / watched, job.scratch)
        with programs(settings, to, job.scratch, job.point.environment) as (worker, agent):
            arrivals.together("warm", FEW)
            roots = {"worker": worker.pid, "agent": agent.pid, "ledger": valkey.pid}
            yield arrivals, ledger, Meter(roots)


def _rounds(arrivals: Arrivals, name: str) -> dict[str, float]:
    """Return times of files that come together, and of files that come in turn."""
    together = [arrivals.together(f"{name}-together-{n}", FEW) for n in range(ROUNDS)]
    in_turn = [arrivals.in_turn(f"{name}-in-turn-{n}", FEW, SPACING_S) for n in range(ROUNDS)]
    return {
        "together_s": _slowest(together),
        "in_turn_s": _slowest(in_turn),
        "in_turn_p50_s": median(one.since_there_s for times in in_turn for one in times),
    }


def _slowest(rounds: list[list[Times]]) -> float:
    """Return when the last of a round is verified, in the middle of all rounds."""
    return median(max(one.since_there_s for one in times) for times in rounds)


def _eligible(ledger: RedisLedger) -> int:
    facts = ledger.find_facts(FLOOD)
    return facts.counts[State.ELIGIBLE] if facts else 0


def _await_flood(ledger: RedisLedger, least: int) -> int:
    """Wait until so many files are eligible and workers are at it; return how many are."""

    def is_there(facts: RunFacts) -> bool:
        return facts.counts[State.ELIGIBLE] > least and facts.counts[State.VERIFIED] > 0

    return await_facts(ledger, FLOOD, "the flood there", is_there).counts[State.ELIGIBLE]

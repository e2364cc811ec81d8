"""Is an instrument slowed by another one whose files fail every attempt?

`well` gets its files alone first, then again while `poison` has files that the sink answers with
500 until their budget is spent and they are dead letters.
"""

from dataclasses import replace
from statistics import median

from benchmarks.arrivals import SIZE, Arrivals
from benchmarks.fairness import two_instruments
from benchmarks.job import Job
from benchmarks.loads import make_files
from benchmarks.processes import Cost
from benchmarks.waiting import await_facts
from labferry.identity import RunKey
from labferry.records import RunFacts
from labferry.states import State

ROUNDS = 3
#: Files that fail.
ILL = 20
#: The sink knows it by the name.
POISON = RunKey("poison", "run")


def measure_poison(job: Job) -> Cost:
    """Return how many files a second are verified alone and beside, and the ratio of both.

    Raises: RuntimeError when the poison was gone before the end, or is not set apart.
    """
    count = len(job.point.sizes)
    with two_instruments(job, "well", POISON.instrument) as (arrivals, ledger, meter):
        alone = _files_per_s(arrivals, "alone", count)
        make_files(job.scratch / "ill", (SIZE,) * ILL)
        (job.scratch / "ill").rename(job.scratch / "root" / POISON.instrument / POISON.run)
        await_facts(ledger, POISON, "the poison at work", lambda facts: _failing(facts) == ILL)
        beside = _files_per_s(arrivals, "beside", count)
        left = await_facts(ledger, POISON, "on record", lambda _: True)
        if _failing(left) != ILL:
            raise RuntimeError(f"the poison was not there all the time: {left}")
        await_facts(
            ledger, POISON, "set apart", lambda facts: facts.counts[State.QUARANTINED] == ILL
        )
        attempts = sum(
            len(ledger.history(POISON.file(path))) for path in dict(ledger.records(POISON))
        )
        cost = meter.stop()
    figures = {
        "ratio": beside / alone,
        "alone_files_per_s": alone,
        "beside_files_per_s": beside,
        "attempts_that_failed": float(attempts),
    }
    return replace(cost, figures=figures)


def _failing(facts: RunFacts) -> int:
    """Return how many files failed, and will be tried again."""
    return sum(facts.counts[one] for one in (State.FAILED, State.ELIGIBLE, State.UPLOADING))


def _files_per_s(arrivals: Arrivals, name: str, count: int) -> float:
    """Return how fast files are verified that come together, in the middle of all rounds."""
    rounds = [arrivals.together(f"{name}-{n}", count) for n in range(ROUNDS)]
    return median(count / max(one.since_there_s for one in times) for times in rounds)

"""How fast does the ledger move files, and how much memory does a file in flight take there?

One process does what agent and workers do, one call after the other, on one Valkey with its
append-only file, synced every second. Nothing is read, published or uploaded.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from benchmarks.job import Job
from benchmarks.ledgered import PROOF, Ledgered, fingerprints, ledgered
from benchmarks.loads import paths
from benchmarks.processes import Cost, Meter
from labferry.states import Event

#: Those that move a file; the other one makes messages of what was moved.
MOVES = ("discover", "settle", "claim", "verify")
#: Any number of files can be so far at a time; under a lease are two bundles a host at most.
MANY = ("discover", "settle", "take", "verify")


def measure_moves(job: Job) -> Cost:
    """Return what it takes to bring files from unknown to verified, and moves a second."""
    count = len(job.point.sizes)
    took_s: dict[str, float] = defaultdict(float)
    with ledgered(job.scratch / "valkey") as run:
        meter = Meter({"ledger": run.valkey.pid})
        began_cpu_s = time.process_time()
        for name, step in _in_order(run, count):
            began_s = time.monotonic()
            step()
            took_s[name] += time.monotonic() - began_s
        cost = meter.stop()
    figures = {f"{name}_per_s": count / took_s[name] for name in took_s}
    cpu_s = cost.cpu_s + time.process_time() - began_cpu_s
    figures["moves_per_s"] = len(MOVES) * count / sum(took_s.values())
    figures["moves_per_cpu_s"] = len(MOVES) * count / cpu_s
    return replace(
        cost, cpu_s=cpu_s, figures={**figures, "ledger_cpu_s": cost.cpu_s, **cost.figures}
    )


def measure_memory(job: Job) -> Cost:
    """Return how many bytes of the ledger a file takes in each state of its way."""
    count = len(job.point.sizes)
    with ledgered(job.scratch / "valkey") as run:
        run.ledger.now_ms()
        before, figures = run.used_bytes(), {}
        meter = Meter({"ledger": run.valkey.pid})
        for name, step in _all_at_once(run, count):
            step()
            figures[f"{name}_bytes_per_file"] = (run.used_bytes() - before) / count
        cost = meter.stop()
    figures["bytes_per_file"] = max(figures[f"{name}_bytes_per_file"] for name in MANY)
    return replace(cost, figures={**figures, **cost.figures})


def _all_at_once(run: Ledgered, count: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield steps after each of which all files are in one state."""
    seen = fingerprints(paths(count))
    yield "discover", lambda: run.discover(seen)
    yield "settle", lambda: run.settle(seen)
    yield "take", run.take
    yield "claim", lambda: run.claim(run.numbers)
    yield "verify", lambda: run.end(Event.VERIFY, evidence=PROOF)


def _in_order(run: Ledgered, count: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the same steps as they come: a worker ends what it claimed, then claims more."""
    seen = fingerprints(paths(count))
    yield "discover", lambda: run.discover(seen)
    yield "settle", lambda: run.settle(seen)
    yield "take", run.take
    for number in run.numbers:
        yield "claim", partial(run.claim, [number])
        yield "verify", lambda: run.end(Event.VERIFY, evidence=PROOF)

"""How long do dead letters take: to list them, to write them out, to send them in again?

All files of a run are brought to quarantine by the ledger, with one error each. The commands are
real, their start included; a real worker and agent ferry what was sent in again, at the usual pace.
"""

from collections.abc import Callable
from dataclasses import replace

from benchmarks.at_rest import AtRest, at_rest, timed
from benchmarks.job import Job
from benchmarks.ledgered import RUN
from benchmarks.loads import MIB
from benchmarks.processes import Cost, Meter
from benchmarks.programs import programs
from benchmarks.waiting import await_facts
from labferry.records import Note, RunFacts
from labferry.states import Event, State

DENIED = Note(event=Event.QUARANTINE, kind="permanent", code="AccessDenied", message="not allowed")


def measure_letters(job: Job) -> Cost:
    """Return what each command takes, and how long until all files are verified after all.

    The bucket is told of all of them first. The cost is of the programs, from their start on.
    """
    count = len(job.point.sizes)
    with at_rest(job) as site:
        site.command("scan")
        site.claim()
        buried_s, _ = timed(lambda: site.run.end(Event.QUARANTINE, note=DENIED))
        output = str(job.scratch / "letters.jsonl")
        lists = {
            "list_s": site.command("dead-letters", "list"),
            "list_files_s": site.command("dead-letters", "list", "--files"),
            "export_s": site.command("dead-letters", "export", "--output", output),
        }
        with programs(site.config, job.endpoint, job.scratch) as (worker, agent):
            roots = {"worker": worker.pid, "agent": agent.pid, "ledger": site.run.valkey.pid}
            meter = Meter(roots)
            told_s = _until_s(site, "the bucket told", lambda facts: not facts.reasons_due)
            asked = ["--all", "--reason", "bench", "--yes", "--detach"]
            requeued = site.command("dead-letters", "requeue", *asked)
            verified_s = _until_s(
                site, "all verified", lambda facts: facts.counts[State.VERIFIED] == count
            )
            cost = meter.stop()
    figures = {
        "letters_per_s": count / buried_s,
        **{name: one.wall_s for name, one in lists.items()},
        "list_peak_mib": lists["list_s"].peak_rss_bytes / MIB,
        "bucket_told_s": told_s,
        "requeue_s": requeued.wall_s,
        "requeued_files_per_s": count / requeued.wall_s,
        "verified_after_s": requeued.wall_s + verified_s,
    }
    return replace(cost, figures={**figures, **cost.figures})


def _until_s(site: AtRest, what: str, is_so: Callable[[RunFacts], bool]) -> float:
    return timed(lambda: await_facts(site.ledger, RUN, what, is_so))[0]

"""How long do dead letters take: to list them, to write them out, to send them in again?

All files of a run are brought to quarantine by the ledger, a third of them by each of three causes.
The commands are real, their start included; a real worker and agent ferry what was sent in again,
at the usual pace.
"""

from collections.abc import Callable
from dataclasses import replace

from benchmarks.at_rest import AtRest, at_rest, timed
from benchmarks.job import Job
from benchmarks.ledgered import RUN, Ledgered
from benchmarks.loads import MIB
from benchmarks.processes import Cost, Meter
from benchmarks.programs import programs
from benchmarks.waiting import await_facts
from labferry.records import Note, RunFacts
from labferry.states import Event, State

CAUSES = {
    "AccessDenied": "not allowed",
    "KeyTooLongError": "the name cannot be a key",
    "ObjectLocked": "what stands there stays",
}


def measure_letters(job: Job) -> Cost:
    """Return what each command takes, and how long until all files are verified after all.

    The bucket is told of all of them first. The cost is of the programs, from their start on.
    """
    count = len(job.point.sizes)
    with at_rest(job) as site:
        site.command("scan")
        site.claim()
        buried_s, _ = timed(lambda: _bury(site.run))
        output = str(job.scratch / "letters.jsonl")
        asked = ("requeue", "--all", "--reason", "bench")
        commands = {
            "list": site.command("dead-letters", "list"),
            "list_files": site.command("dead-letters", "list", "--files"),
            "export": site.command("dead-letters", "export", "--output", output),
        }
        with programs(site.config, job.endpoint, job.scratch) as (worker, agent):
            roots = {"worker": worker.pid, "agent": agent.pid, "ledger": site.run.valkey.pid}
            meter = Meter(roots)
            told_s = _until_s(site, "the bucket told", lambda facts: not facts.reasons_due)
            commands["preview"] = site.command("dead-letters", *asked, "--dry-run")
            commands["requeue"] = site.command("dead-letters", *asked, "--yes", "--detach")
            verified_s = _until_s(
                site, "all verified", lambda facts: facts.counts[State.VERIFIED] == count
            )
            cost = meter.stop()
    figures = {
        "letters_per_s": count / buried_s,
        **{f"{name}_s": one.wall_s for name, one in commands.items()},
        **{f"{name}_peak_mib": one.peak_rss_bytes / MIB for name, one in commands.items()},
        "bucket_told_s": told_s,
        "verified_after_s": commands["requeue"].wall_s + verified_s,
    }
    return replace(cost, figures={**figures, **cost.figures})


def _bury(run: Ledgered) -> None:
    """Make a dead letter of all that was claimed."""
    claims = run.claims
    for number, (code, message) in enumerate(CAUSES.items()):
        run.claims = claims[number :: len(CAUSES)]
        note = Note(event=Event.QUARANTINE, kind="permanent", code=code, message=message)
        run.end(Event.QUARANTINE, note=note)


def _until_s(site: AtRest, what: str, is_so: Callable[[RunFacts], bool]) -> float:
    return timed(lambda: await_facts(site.ledger, RUN, what, is_so))[0]

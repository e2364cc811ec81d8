"""What was left out of a run, or did not complete, and why? What ledger and logs say of it."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from labferry.completion import RunState, run_state
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.states import State
from ops.explain_view import note_line
from ops.processes import Children

#: Files and lines shown of each kind.
SHOWN = 5
_STOPPED = (State.FAILED, State.HELD, State.QUARANTINED, State.UPLOADING, State.UPLOADED)


def why_stuck(
    ledger: Ledger, runs: Sequence[RunKey], children: Children, logs: Path
) -> Iterator[str]:
    """Yield lines that name what stuck and why."""
    for run in runs:
        facts = ledger.find_facts(run)
        if facts is None:
            yield f"{run}: the agent never saw it"
        elif run_state(facts) is not RunState.COMPLETE:
            yield f"{run}: {run_state(facts)}; {_counts(facts)}"
            yield from _files(ledger, run)
    for name in children.ended():
        yield f"{name} is not running"
    for log in sorted(logs.iterdir()):
        lines = log.read_text("utf-8", "replace").splitlines()
        yield from (f"{log.stem}: {line}" for line in lines[-SHOWN:])


def left_out(ledger: Ledger, run: RunKey) -> Iterator[str]:
    """Yield what was skipped, and why."""
    facts = ledger.find_facts(run)
    if facts is None or not facts.counts[State.SKIPPED]:
        return
    skipped = (path for path, record in ledger.records(run) if record.state is State.SKIPPED)
    for path in islice(skipped, SHOWN):
        notes = ledger.history(run.file(path))
        yield f"{path}: {notes[-1].message}" if notes else path
    if (others := facts.counts[State.SKIPPED] - SHOWN) > 0:
        yield f"and {others} more"


def _counts(facts: RunFacts) -> str:
    return ", ".join(f"{count} {state}" for state, count in facts.counts.items() if count)


def _files(ledger: Ledger, run: RunKey) -> Iterator[str]:
    shown = 0
    for path, record in ledger.records(run):
        if record.state in _STOPPED and shown < SHOWN:
            shown += 1
            notes = ledger.history(run.file(path))
            yield f"  {path}: {record.state}" + (f", {note_line(notes[-1])}" if notes else "")

"""How does what is known of one file read, for a person or a program?"""

import json
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table

from labferry.alerts import STEP_OF
from labferry.completion import run_state
from labferry.ledger import open_ledger
from labferry.records import FileRecord, Note, RunFacts
from labferry.settings import Settings
from ops.explain import Explanation, evidence_json, explain_key, parts_done
from ops.shown import instant, size, terminal
from ops.troubles import breaker_words


def show_explanation(settings: Settings, key: str, *, as_json: bool) -> None:
    """Print what is known of a file. Raises: NotFound, SettingsError, LedgerUnavailable."""
    explanation = explain_key(settings, open_ledger(settings.ledger), key)
    if as_json:
        print(json.dumps(explanation.to_json(), ensure_ascii=False))
    else:
        _print(explanation, terminal())


def _print(explanation: Explanation, console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in explanation_rows(explanation):
        table.add_row(name, value)
    console.print(table)
    if not explanation.history:
        console.print("\nNothing out of the ordinary happened to it.")
        return
    console.print("\nHistory, oldest first:")
    console.print(history_view(explanation.history))


def history_view(notes: Iterable[Note]) -> Table:
    """Return a file's history, a line of which may be long."""
    table = Table.grid(padding=(0, 0, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for note in notes:
        table.add_row(instant(note.at_ms), note_line(note))
    return table


def explanation_rows(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield what is known, each with its name, as people read it."""
    record = explanation.record
    yield "file", str(explanation.file)
    yield "state", record.state
    yield "next", explanation.next_step
    for breaker in explanation.in_the_way:
        yield "in the way", f"{breaker.name}: {breaker.message}"
        yield "", breaker_words(breaker, explanation.run.now_ms)
        yield "to do", STEP_OF[breaker.cause]
    yield "object", explanation.object_key or "none: S3 cannot hold this name"
    yield "size", f"{size(record.fingerprint.size)} ({record.fingerprint.size:,} bytes)"
    yield "run", _run_words(explanation.run)
    if closed := explanation.run.closed:
        yield "closed", f"by {closed.actor}: {closed.reason}"
    for name, at_ms in _dates(record):
        yield name, instant(at_ms)
    if record.attempt or record.lost or record.rounds:
        yield (
            "so far",
            f"{record.attempt} failed, {record.lost} workers lost, {record.rounds} source changes",
        )
    if explanation.worker:
        yield "worker", f"{explanation.worker} (token {record.token})"
    if record.evidence:
        evidence = evidence_json(record)
        yield "evidence", ", ".join(f"{name} {value}" for name, value in (evidence or {}).items())
    if upload := explanation.upload:
        yield "upload", f"{parts_done(upload)} parts of {size(upload.part_size)} acknowledged"


def _run_words(run: RunFacts) -> str:
    words = f"{run_state(run)}, generation {run.generation}"
    return f"{words}; its records were put away: {run.archive.key}" if run.archive else words


def _dates(record: FileRecord) -> Iterator[tuple[str, int]]:
    dates = {
        "discovered": record.discovered_ms,
        "changed": record.changed_ms,
        "settled": record.settled_ms,
        "first claim": record.claimed_ms,
        "verified": record.verified_ms,
    }
    return ((name, at_ms) for name, at_ms in dates.items() if at_ms)


def note_line(note: Note) -> str:
    """Return one line of a history."""
    where = f" by {note.worker}" if note.worker else ""
    what = f" {note.code}" if note.code else ""
    said = f": {note.message}" if note.message else ""
    then = f" ({note.decision})" if note.decision else ""
    return f"{note.event}{what}{where}{said}{then}"

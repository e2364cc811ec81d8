"""What does Flower show of a message: its result, or the error of files that are not verified?

A row there is a message. It is SUCCESS when all its files are verified, FAILURE when one of them
became a dead letter, else RETRY. Celery does nothing more by that: what is parked is on the ledger.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from celery.exceptions import Ignore, Retry

from labferry.errors import LabferryError
from labferry.failures import Failure, Kind
from labferry.identity import RunKey
from labferry.ledger.effects import LETTERS, PARKED
from labferry.ports import Ledger
from labferry.records import Note
from labferry.states import LEASED, State
from workers.attempt import Result


class FileQuarantined(LabferryError):
    """A file of this message became a dead letter."""


class FileFailed(LabferryError):
    """An attempt failed; the file is parked until it is tried again."""


class FileHeld(LabferryError):
    """The environment is in the way; the file waits until it is tried again."""


class FileReturned(LabferryError):
    """The file was not done, through no fault of its own; it comes with another message."""


#: The gravest first: the first file of it gives the row its error.
_ERROR_OF: dict[State, type[LabferryError]] = {
    State.QUARANTINED: FileQuarantined,
    State.DISCARDED: FileQuarantined,
    State.FAILED: FileFailed,
    State.HELD: FileHeld,
    **dict.fromkeys((State.ELIGIBLE, State.DISCOVERED, State.SKIPPED), FileReturned),
    **dict.fromkeys((State.UPLOADING, State.UPLOADED), FileReturned),
    State.VERIFIED: FileReturned,
}
_GRAVITY = list(_ERROR_OF)


def shown(results: Sequence[Result]) -> str:
    """Return the result of a message, by what became of all its files.

    Raises: FileQuarantined; Retry with the time of the next try; Ignore where another delivery is
    at work, which will tell.
    """
    states = [result.state for result in results]
    if LEASED.issuperset(states):
        raise Ignore("another delivery is at work")
    said = ", ".join(f"{states.count(one)} {one}" for one in sorted(set(states)))
    if states.count(State.VERIFIED) == len(states):
        return said
    first = min(results, key=_gravity)
    why = f"{first.failure.code}: {first.failure.message}" if first.failure else f"{first.state}."
    if len(results) > 1:
        why = f"{said}; first {first.path}: {why}"
    error = _ERROR_OF[first.state]
    if error is FileQuarantined:
        raise FileQuarantined(why)
    due_ms = min((result.due_ms for result in results if result.due_ms), default=0)
    if not due_ms:
        raise Retry(why, exc=error(why))
    when = datetime.fromtimestamp(due_ms / 1000, UTC)
    raise Retry(exc=error(f"{why} Next try: {when:%Y-%m-%d %H:%M:%S} UTC."), when=when)


def recorded(ledger: Ledger, run: RunKey, paths: Sequence[str]) -> list[Result]:
    """Return what became of files that a message named and did not do, the gravest first.

    A row must not forget what an earlier delivery of the message showed. Only of the first it is
    said why, and when it is due. Raises: LedgerUnavailable.
    """
    records = zip(paths, ledger.find_records(run, paths), strict=True)
    results = [Result(path, record.state) for path, record in records if record]
    results.sort(key=_gravity)
    if results and results[0].state in PARKED | LETTERS:
        file = run.file(results[0].path)
        notes = ledger.history(file)
        failure = _failure(notes[-1]) if notes else None
        results[0] = results[0]._replace(failure=failure, due_ms=ledger.find_due(file) or 0)
    return results


def _failure(note: Note) -> Failure:
    return Failure(kind=Kind.UNKNOWN, code=note.code, message=note.message)


def _gravity(result: Result) -> int:
    return _GRAVITY.index(result.state)

"""What is a dead letter: why did the file stop, what was tried, and what would help?

Pure. A letter is read off a file's record and history; it is shown by `labferry dead-letters` and
written to the bucket as `quarantine/<instrument>/<run>/<path>.reason.json`.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from labferry.error_fingerprint import error_fingerprint
from labferry.failures import Kind
from labferry.identity import FileKey, RunKey
from labferry.messages import UPLOAD, UploadMessage
from labferry.records import FileRecord, Note
from labferry.states import MOVE_OF, Actor, Event, State
from labferry.suggestions import suggestion

VERSION = 1
#: What happens to a file without anything being wrong.
_NO_ERRORS = frozenset({Event.YIELD, Event.REAPPEAR, Event.SKIP})
_UNTOLD = Note(event=Event.QUARANTINE, kind=Kind.UNKNOWN, code="untold", message="")
STATUS_OF = {State.QUARANTINED: "dead", State.DISCARDED: "discarded"}
_REPLAYED = "replayed"
#: The code of what is on record under a name made for it: no key can hold its own.
UNUSABLE_NAME = "bad_name"
#: The codes of a verified file whose object is not in the bucket any more, or is another one.
OBJECT_MISSING, OBJECT_REPLACED = "object_missing", "object_replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFile:
    """A file that is a dead letter, as the ledger holds it: since when, and its history's end."""

    path: str
    since_ms: int
    record: FileRecord
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A file that was quarantined; `at_ms` is when, `notes` the end of its history or all of it."""

    file: FileKey
    at_ms: int
    record: FileRecord
    notes: tuple[Note, ...]

    @property
    def cause(self) -> Note:
        """What put it into quarantine."""
        return next((note for note in reversed(self.notes) if _buries(note)), _UNTOLD)

    @property
    def kind(self) -> str:
        """The kind of failure it ended with."""
        return self.cause.kind

    @property
    def code(self) -> str:
        """The code of the failure it ended with."""
        return self.cause.code

    @property
    def fingerprint(self) -> str:
        """The error fingerprint: letters with the same one have the same cause."""
        cause = self.cause
        return error_fingerprint(cause.kind, cause.code, cause.message, self.file)

    @property
    def suggestion(self) -> str:
        """What a person can do."""
        return suggestion(self.kind, self.code)

    @property
    def attempts(self) -> list[Note]:
        """What went wrong, oldest first, of all series."""
        return [note for note in self.notes if not _is_act(note) and note.event not in _NO_ERRORS]

    @property
    def acts(self) -> list[Note]:
        """What operators did to it, oldest first."""
        return [note for note in self.notes if _is_act(note)]

    @property
    def status(self) -> str:
        """Whether it is dead still, was discarded, or was sent in again."""
        return STATUS_OF.get(self.record.state, _REPLAYED)

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry dead-letters --json`."""
        record, cause = self.record, self.cause
        return {
            "file": str(self.file),
            "status": self.status,
            "kind": cause.kind,
            "code": cause.code,
            "message": cause.message,
            "fingerprint": self.fingerprint,
            "suggestion": self.suggestion,
            "at": iso(self.at_ms),
            "source": record.fingerprint._asdict(),
            "checksums": _checksums(record),
            "task": UPLOAD,
            "payload": self._payload(),
            "series": record.series,
            "attempts": [_attempt_json(note) for note in self.attempts],
            "acts": [_act_json(note) for note in self.acts],
        }

    def _payload(self) -> dict[str, object]:
        """Return the message that the file came with, but for its companions in a bundle."""
        bundle = next((note.bundle for note in reversed(self.notes) if note.bundle), 0)
        message = UploadMessage(run=self.file.run, bundle=bundle, paths=(self.file.path,))
        return message.to_payload()


def dead_letter(run: RunKey, dead: DeadFile) -> DeadLetter:
    """Return the letter of a file on the ledger's index."""
    return DeadLetter(
        file=run.file(dead.path), at_ms=dead.since_ms, record=dead.record, notes=dead.notes
    )


def find_letter(file: FileKey, record: FileRecord, history: Iterable[Note]) -> DeadLetter | None:
    """Return the letter that a file is, or was last; None for one that never was."""
    notes = tuple(history)
    buried = [note for note in notes if _buries(note)]
    if not buried and record.state not in STATUS_OF:
        return None
    at_ms = buried[-1].at_ms if buried else record.changed_ms
    return DeadLetter(file=file, at_ms=at_ms, record=record, notes=notes)


def loss(key: str, code: str) -> Note:
    """Return what makes a verified file a dead letter: its object is not as it was."""
    return Note(
        event=Event.LOSE,
        kind=Kind.PERMANENT,
        code=code,
        message=f"{key} was verified and is not in the bucket as it was. "
        "Find out who changed it, then replay the file.",
    )


def reason_document(letter: DeadLetter) -> bytes:
    """Return what the bucket holds of a letter."""
    fields = {"labferry_reason": VERSION, **letter.to_json()}
    return json.dumps(fields, indent=2, ensure_ascii=True).encode() + b"\n"


def iso(at_ms: int) -> str:
    """Return an instant of the ledger's clock, such as '2026-11-30T08:15:00.000Z'."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _buries(note: Note) -> bool:
    return MOVE_OF[note.event].target is State.QUARANTINED


def _is_act(note: Note) -> bool:
    return MOVE_OF[note.event].actor is Actor.OPERATOR


def _checksums(record: FileRecord) -> dict[str, str]:
    if record.evidence is None:
        return {}
    return {"crc64nvme": f"{record.evidence.crc64:016x}", "etag": record.evidence.etag}


def _attempt_json(note: Note) -> dict[str, Any]:
    return {
        "at": iso(note.at_ms),
        "event": note.event,
        "series": note.series,
        "attempt": note.attempt,
        "worker": note.worker,
        "version": note.version,
        "token": note.token,
        "bundle": note.bundle,
        "kind": note.kind,
        "code": note.code,
        "message": note.message,
        "decision": note.decision,
        "bytes_sent": note.bytes_sent,
        "upload_id": note.upload_id,
        "duration_ms": note.duration_ms,
    }


def _act_json(note: Note) -> dict[str, Any]:
    return {
        "at": iso(note.at_ms),
        "act": note.event,
        "actor": note.worker,
        "reason": note.message,
    }

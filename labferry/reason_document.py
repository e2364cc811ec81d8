"""What does the bucket's document of a dead letter tell, once the ledger is lost?

Pure. What `dead_letter.reason_document` wrote is read back: the letter with every attempt and act,
in the state that it was in. What the document does not say (dates, evidence) is left empty.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from labferry.dead_letter import STATUS_OF, VERSION, DeadLetter
from labferry.errors import BadName, MalformedMessage
from labferry.identity import FileKey
from labferry.records import FileRecord, Fingerprint, Note
from labferry.states import Event, State

_WHAT = "the document of a dead letter"
_STATE_OF = {status: state for state, status in STATUS_OF.items()}
#: Which event counts what of a record.
_COUNTED = {
    "attempt": (Event.FAIL, Event.QUARANTINE),
    "lost": (Event.EXPIRE, Event.EXHAUST),
    "rounds": (Event.ABANDON,),
}
_MOST = 255
_TOO_LARGE = 2**63
_TEXTS = ("kind", "code", "message", "worker", "version", "decision", "upload_id")
_NUMBERS = ("token", "attempt", "series", "bundle", "bytes_sent", "duration_ms")


def read_reason(content: bytes) -> DeadLetter:
    """Return the letter; one that was sent in again is eligible. Raises: MalformedMessage."""
    try:
        fields = json.loads(content)
        if fields["labferry_reason"] != VERSION:
            raise MalformedMessage(what=_WHAT, why="its version is not known")
        notes = [_attempt(one) for one in fields["attempts"]] + [
            _act(one) for one in fields["acts"]
        ]
        notes.sort(key=lambda note: note.at_ms)
        return DeadLetter(
            file=FileKey.parse(fields["file"]),
            at_ms=_ms(fields["at"]),
            record=_record(fields, notes),
            notes=tuple(notes),
        )
    except BadName as error:
        raise MalformedMessage(what=_WHAT, why=str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedMessage(what=_WHAT, why=f"{type(error).__name__}: {error}") from error


def _record(fields: Mapping[str, Any], notes: Iterable[Note]) -> FileRecord:
    series = _number(fields["series"])
    source = fields["source"]
    seen = Fingerprint(*(_number(source[name]) for name in Fingerprint._fields))
    if min(series, seen.size, seen.inode) < 0:
        raise ValueError("a count is negative")
    counts: dict[str, Any] = {
        counter: min(_MOST, sum(n.series == series and n.event in events for n in notes))
        for counter, events in _COUNTED.items()
    }
    return FileRecord(
        state=_STATE_OF.get(fields["status"], State.ELIGIBLE),
        **counts,
        series=min(_MOST, series),
        token=0,
        holder=0,
        fingerprint=seen,
        lane=None,
        discovered_ms=0,
        changed_ms=0,
        settled_ms=0,
        claimed_ms=0,
        verified_ms=0,
    )


def _attempt(fields: Mapping[str, Any]) -> Note:
    told: dict[str, Any] = {name: _text(fields[name]) for name in _TEXTS}
    told |= {name: _number(fields[name]) for name in _NUMBERS}
    return Note(event=Event(fields["event"]), at_ms=_ms(fields["at"]), **told)


def _act(fields: Mapping[str, Any]) -> Note:
    return Note(
        event=Event(fields["act"]),
        at_ms=_ms(fields["at"]),
        kind="operator",
        code=_text(fields["act"]),
        message=_text(fields["reason"]),
        worker=_text(fields["actor"]),
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _TOO_LARGE:
        raise TypeError(f"{value!r} is not a number")
    return value

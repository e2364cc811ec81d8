"""How does a file's record stand in an archive? One JSON object a line, with its whole history.

Nothing is left out: what is read back is what was put away, but for fields that only a newer
labferry has. The first line names form and run.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labferry.errors import MalformedMessage
from labferry.identity import RunKey
from labferry.records import (
    NEW_NOTE,
    Evidence,
    FileRecord,
    Fingerprint,
    Lane,
    Level,
    Note,
    fields_of,
)
from labferry.states import Event, State
from labferry.versioned import known

_FORM = 1
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """One file, as the ledger held it."""

    path: str
    record: FileRecord
    history: tuple[Note, ...] = ()


def header(run: RunKey) -> bytes:
    """Return the first line of an archive."""
    return _line({"labferry_records": _FORM, "run": str(run)})


def file_line(file: ArchivedFile) -> bytes:
    """Return the line of a file."""
    fields: dict[str, Any] = {name: getattr(file.record, name) for name in FileRecord.__slots__}
    fields["evidence"] = asdict(file.record.evidence) if file.record.evidence else None
    fields["path"] = file.path
    fields["history"] = [fields_of(note) for note in file.history]
    return _line(fields)


def read_lines(lines: Iterable[bytes], run: RunKey) -> Iterator[ArchivedFile]:
    """Yield the files of a run's archive. Raises: MalformedMessage."""
    rest = iter(lines)
    first = _object(next(rest, b""))
    if first.get("labferry_records") != _FORM or first.get("run") != str(run):
        raise MalformedMessage(what="an archive", why="it is another run's, or of another form")
    for line in rest:
        yield read_line(line)


def read_line(line: bytes) -> ArchivedFile:
    """Return the file on a line. Raises: MalformedMessage."""
    fields = _object(line)
    try:
        path, history = str(fields.pop("path")), fields.pop("history")
        return ArchivedFile(
            path=path, record=_record(fields), history=tuple(_note(one) for one in history)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedMessage(what="a line of an archive", why=str(error)) from error


def _record(fields: dict[str, Any]) -> FileRecord:
    lane, evidence = fields["lane"], fields["evidence"]
    read = {
        "state": State(fields["state"]),
        "lane": Lane(lane) if lane else None,
        "fingerprint": Fingerprint(*fields["fingerprint"]),
        "evidence": _evidence(evidence) if evidence else None,
    }
    return FileRecord(**known(FileRecord, fields | read))


def _evidence(fields: dict[str, Any]) -> Evidence:
    return Evidence(**known(Evidence, fields | {"level": Level(fields["level"])}))


def _note(fields: dict[str, Any]) -> Note:
    return Note(**known(Note, NEW_NOTE | fields | {"event": Event(fields["event"])}))


def _line(fields: Mapping[str, object]) -> bytes:
    return _ENCODER.encode(fields).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise MalformedMessage(what="a line of an archive", why=str(error)) from error
    if not isinstance(fields, dict):
        raise MalformedMessage(what="a line of an archive", why="it is not an object")
    return fields

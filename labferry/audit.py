"""Who did what, and why, and was the record of it tampered with?

Each line of an audit is hashed with the hash of the line before it: a line that is changed, left
out or moved does not fit any more. The head, kept beside the lines, tells when the last ones are
missing. One chain a run, and one for acts without a run.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from labferry.errors import MalformedMessage
from labferry.records import FileRecord
from labferry.states import State

_VERSION = 1


class Head(NamedTuple):
    """Where a chain ends: how many lines it has, and the hash of the last."""

    lines: int = 0
    digest: str = "0" * 64

    def __str__(self) -> str:
        return f"{self.lines} {self.digest}"

    @classmethod
    def parse(cls, text: str) -> "Head":
        """Read a head; '' is that of an empty chain."""
        lines, _, digest = text.partition(" ")
        return cls(int(lines), digest) if text else cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What an operator did: `what` names it, `selector` is what chose its files, as typed."""

    actor: str
    reason: str
    what: str
    selector: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of an audit: an act, and of each of its files what it was and what it became.

    `run` is '' for an act without a run; `before` and `after` of a file are facts of its record.
    `nonce` tells the line from another's of the same words in the same instant.
    """

    number: int
    at_ms: int
    run: str
    act: Act
    files: tuple[dict[str, Any], ...] = ()
    nonce: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the object that is hashed and shown."""
        return {
            "version": _VERSION,
            "number": self.number,
            "at_ms": self.at_ms,
            "run": self.run,
            "nonce": self.nonce,
            **asdict(self.act),
            "count": len(self.files),
            "files": list(self.files),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The first line of a chain that does not fit, and what is wrong there."""

    number: int
    why: str


def file_change(
    path: str, record: FileRecord, target: State, *, new_series: bool
) -> dict[str, Any]:
    """Return what an act's line says of one file; its checksum, if it has one, is not lost."""
    before: dict[str, Any] = {"state": record.state, "series": record.series}
    if record.evidence is not None:
        before["crc64nvme"] = f"{record.evidence.crc64:016x}"
    after = {"state": target, "series": record.series + new_series}
    return {"path": path, "before": before, "after": after}


def extend(head: Head, entry: Entry) -> tuple[Head, str]:
    """Return the new head and the line that makes it: the hash, a space, canonical JSON."""
    text = json.dumps(entry.to_json(), sort_keys=True, separators=(",", ":"))
    after = Head(entry.number, _hash(head.digest, text))
    return after, f"{after.digest} {text}"


def read_line(line: str) -> Entry:
    """Return the entry of a line. Raises: MalformedMessage."""
    try:
        fields = json.loads(line.partition(" ")[2])
        act = Act(**{name: str(fields[name]) for name in Act.__dataclass_fields__})
        return Entry(
            number=int(fields["number"]),
            at_ms=int(fields["at_ms"]),
            run=str(fields["run"]),
            act=act,
            files=tuple(fields["files"]),
            nonce=str(fields["nonce"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MalformedMessage(what="a line of the audit", why=str(error)) from error


def find_fault(lines: Iterable[str], head: Head) -> Fault | None:
    """Return where a chain is broken, or None when it is whole up to its head."""
    count, before = 0, Head().digest
    for line in lines:
        count += 1
        digest, _, text = line.partition(" ")
        if digest != _hash(before, text):
            return Fault(number=count, why=_why(line, count))
        before = digest
    if (count, before) == head:
        return None
    if count < head.lines:
        return Fault(number=count + 1, why="the lines from here on are missing")
    return Fault(number=count, why="it is not the line that was recorded last")


def _why(line: str, expected: int) -> str:
    try:
        number = read_line(line).number
    except MalformedMessage:
        return "it cannot be read"
    if number == expected:
        return "it was changed, or the line before it was"
    return f"line {number} stands here: lines were left out or moved"


def _hash(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()

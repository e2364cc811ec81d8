"""What do readers of the bucket see? The manifest and the completion marker.

Both are canonical bytes: sorted, no clock values, so that any worker at any time writes the
same bytes for the same generation. docs/bucket.md shows them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labferry.errors import BadName, MalformedMessage
from labferry.identity import RunKey
from labferry.records import FileRecord

VERSION = 1

#: More than labferry writes in a marker or a line: an object that somebody put there is not held.
_MOST_BYTES = 1024 * 1024
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_text = json.encoder.encode_basestring


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of a manifest; `crc64nvme` is 16 hex digits.

    `supersedes` is the key of the edition that an earlier manifest names, where there is one.
    """

    path: str
    key: str
    size: int
    mtime_ns: int
    crc64nvme: str
    etag: str
    version_id: str
    evidence: str
    supersedes: str = ""

    @property
    def checksum(self) -> int:
        """The CRC64NVME as a number."""
        return int(self.crc64nvme, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One file that a run was closed without: what it was, and the last error on record."""

    path: str
    size: int
    was: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What is missing in a run that a person closed: how many files and bytes, who and why."""

    files: int
    size: int
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The completion marker of one generation; `sha256` is the manifest's, in hex.

    `files` and `size` are this generation's, `superseded` of them are new editions of files that
    an earlier one names; `total_files` counts all generations together. With a `gap` it is the
    marker of a run that is not complete, and has another name.
    """

    run: RunKey
    generation: int
    manifest: str
    sha256: str
    files: int
    size: int
    total_files: int
    evidence: Mapping[str, int]
    superseded: int = 0
    gap: Gap | None = None


def header(run: RunKey, generation: int) -> bytes:
    """Return the first line of a manifest."""
    return _line({"labferry_manifest": VERSION, "run": str(run), "generation": generation})


def entry_line(path: str, key: str, record: FileRecord) -> bytes:
    """Return the line of a verified file."""
    evidence, found = record.evidence, record.fingerprint
    assert evidence is not None  # noqa: S101  verified means proven
    # As `_line` writes it, in less than half the time: there are as many as there are files.
    return (
        f'{{"crc64nvme":"{evidence.crc64:016x}","etag":{_text(evidence.etag)}'
        f',"evidence":"{evidence.level}","key":{_text(key)},"mtime_ns":{found.mtime_ns}'
        f',"path":{_text(path)},"size":{found.size},"version_id":{_text(evidence.version_id)}}}\n'
    ).encode()


def superseding(line: bytes, key: str) -> bytes:
    """Return an entry's line with the key of the edition that it supersedes."""
    return _line({**_object(line, "a manifest's line"), "supersedes": key})


def left_out_line(left: LeftOut) -> bytes:
    """Return the line of a file that the run was closed without; such lines come last."""
    return _line({"left_out": True, **asdict(left)})


def read_left_out(line: bytes) -> LeftOut | None:
    """Return the file that was left out, or None for a line that is of another kind.

    Raises: MalformedMessage.
    """
    if b'"left_out":true' not in line:  # parsing each line twice would cost
        return None
    fields = _object(line, "a manifest's line")
    if fields.get("left_out") is not True:
        return None
    try:
        known: Any = {name: fields[name] for name in LeftOut.__dataclass_fields__}
    except KeyError as error:
        raise MalformedMessage(what="a manifest's line", why=f"{error} is missing") from error
    return LeftOut(**known)


def split_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a manifest read in blocks.

    Raises: MalformedMessage when it is cut off, or a line is longer than labferry writes any.
    """
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > _MOST_BYTES:
            raise MalformedMessage(what="a manifest", why=f"a line passes {_MOST_BYTES} bytes")
    if rest:
        raise MalformedMessage(what="a manifest", why="its last line is cut off")


def read_header(line: bytes) -> tuple[RunKey, int]:
    """Return the run and generation of a manifest. Raises: MalformedMessage."""
    fields = _object(line, "a manifest's first line")
    if fields.get("labferry_manifest") != VERSION:
        raise MalformedMessage(what="a manifest", why="its version is not known")
    run, generation = fields.get("run"), fields.get("generation")
    if not isinstance(run, str) or not isinstance(generation, int):
        raise MalformedMessage(what="a manifest's first line", why="run or generation is missing")
    try:
        return RunKey.parse(run), generation
    except BadName as error:
        raise MalformedMessage(what="a manifest's first line", why=str(error)) from error


def read_entry(line: bytes) -> Entry:
    """Return the file on a line; unknown extra fields are tolerated. Raises: MalformedMessage."""
    fields = _object(line, "a manifest's line")
    try:
        fields.setdefault("supersedes", "")
        known: Any = {name: fields[name] for name in Entry.__dataclass_fields__}
        entry = Entry(**known)
    except KeyError as error:
        raise MalformedMessage(what="a manifest's line", why=f"{error} is missing") from error
    if not isinstance(entry.size, int) or not isinstance(entry.etag, str):
        raise MalformedMessage(what="a manifest's line", why="a field has the wrong type")
    return entry


def marker_bytes(marker: Marker) -> bytes:
    """Return the completion marker as it is stored."""
    return _line(
        {
            "labferry_marker": VERSION,
            "run": str(marker.run),
            "generation": marker.generation,
            "manifest": marker.manifest,
            "manifest_sha256": marker.sha256,
            "files": marker.files,
            "bytes": marker.size,
            "total_files": marker.total_files,
            "evidence": dict(marker.evidence),
            **({"superseded": marker.superseded} if marker.superseded else {}),
            **gap_fields(marker.gap),
        }
    )


def gap_fields(gap: Gap | None) -> dict[str, object]:
    """Return what marker and event say of a gap."""
    if gap is None:
        return {}
    return {
        "incomplete": True,
        "left_out_files": gap.files,
        "left_out_bytes": gap.size,
        "closed_by": gap.actor,
        "reason": gap.reason,
    }


def _read_gap(fields: Mapping[str, object]) -> Gap | None:
    if fields.get("incomplete") is not True:
        return None
    return Gap(
        files=int(str(fields["left_out_files"])),
        size=int(str(fields["left_out_bytes"])),
        actor=str(fields["closed_by"]),
        reason=str(fields["reason"]),
    )


def join_marker(blocks: Iterable[bytes]) -> bytes:
    """Return a marker's bytes from blocks. Raises: MalformedMessage when there are too many."""
    content = b""
    for block in blocks:
        content += block
        if len(content) > _MOST_BYTES:
            raise MalformedMessage(what="a completion marker", why=f"it passes {_MOST_BYTES} bytes")
    return content


def read_marker(content: bytes) -> Marker:
    """Return the marker that the bytes hold. Raises: MalformedMessage."""
    fields = _object(content, "a completion marker")
    if fields.get("labferry_marker") != VERSION:
        raise MalformedMessage(what="a completion marker", why="its version is not known")
    try:
        return Marker(
            run=RunKey.parse(str(fields["run"])),
            generation=int(str(fields["generation"])),
            manifest=str(fields["manifest"]),
            sha256=str(fields["manifest_sha256"]),
            files=int(str(fields["files"])),
            size=int(str(fields["bytes"])),
            total_files=int(str(fields["total_files"])),
            evidence=_counts(fields["evidence"]),
            superseded=int(str(fields.get("superseded", 0))),
            gap=_read_gap(fields),
        )
    except (KeyError, ValueError, BadName) as error:
        raise MalformedMessage(what="a completion marker", why=str(error)) from error


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise MalformedMessage(what="a completion marker", why="'evidence' is not an object")
    return {str(level): int(str(count)) for level, count in value.items()}


def _line(fields: Mapping[str, object]) -> bytes:
    return _ENCODER.encode(fields).encode() + b"\n"


def _object(line: bytes, what: str) -> dict[str, object]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(what=what, why=str(error)) from error
    if not isinstance(fields, dict):
        raise MalformedMessage(what=what, why="it is not an object")
    return fields

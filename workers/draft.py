"""What does the manifest of a run's newest generation say?

One pass over the run's records, sorted on disk: each line yields what must be in the bucket, and
the files that no earlier generation names, or names in an earlier edition, are written to the
manifest as they pass.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from labferry.editions import edition
from labferry.identity import Layout
from labferry.inventory import sorted_lines
from labferry.manifest import (
    Gap,
    LeftOut,
    Marker,
    entry_line,
    header,
    left_out_line,
    read_entry,
    read_header,
    read_left_out,
    split_lines,
    superseding,
)
from labferry.ports import Ledger, ObjectStore
from labferry.records import FileRecord, RunFacts
from labferry.s3.checksum import crc64nvme
from labferry.states import MOVE_OF, Actor, State

#: Lines that are hashed and written at once.
_LINES = 500
#: Between a path and its edition, where that is not the first; no path holds it.
_EDITION = "\x01"


def object_name(path: str, number: int) -> str:
    """Return what an object is called where records and listings are compared, in their order."""
    return path if number == 1 else f"{path}{_EDITION}{number:06}"


def path_of(name: str) -> str:
    """Return the path of an object so called."""
    return name.partition(_EDITION)[0]


def _number(name: bytes) -> int:
    """Return the edition of an object of this name."""
    number = name.partition(_EDITION.encode())[2]
    return int(number) if number else 1


class Draft:
    """A manifest being written to a file; whole once `facts` was read to its end."""

    def __init__(
        self, *, ledger: Ledger, store: ObjectStore, layout: Layout, facts: RunFacts
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._layout = layout
        self._run = facts.run
        self._generation = facts.generation
        self._counts = facts.counts
        self._closed = facts.closed
        self._unfinished = facts.unfinished
        self._sha256 = hashlib.sha256()
        self._files = self._total = self._size = 0
        #: Names of earlier editions; they stay in the bucket.
        self.superseded: set[str] = set()
        self._superseding = 0
        self._evidence: Counter[str] = Counter()
        self._given_up: list[tuple[str, FileRecord]] = []
        self.crc64 = 0
        self._waiting: list[bytes] = []

    def facts(self, folder: Path, manifest: BinaryIO) -> Iterator[bytes]:
        """Yield the fact line of every verified file, sorted; write the manifest meanwhile."""
        self._write(manifest, header(self._run, self._generation))
        earlier = groupby(self._earlier(folder), key=lambda line: line.partition(b"\0")[0])
        before = next(earlier, None)
        for line in sorted_lines(self._lines(), folder, "verified"):
            path, name, level, size, fact, key, entry = line.split(b"\0")
            self._total += 1
            while before is not None and before[0] < path:
                before = next(earlier, None)
            known = list(before[1]) if before is not None and before[0] == path else []
            known_keys = [one.rpartition(b"\0")[2] for one in known]
            if key not in known_keys:
                self._write(manifest, self._entry(entry, known_keys))
                self._files += 1
                self._size += int(size)
                self._evidence[level.decode()] += 1
            for number in range(1, _number(name)):
                self.superseded.add(object_name(path.decode(), number))
            yield name + b"\0" + fact + b"\n"
        for given_up, record in sorted(dict(self._given_up).items()):
            self._write(manifest, left_out_line(self._left_out(given_up, record)))
        self._flush(manifest)

    @property
    def agrees(self) -> bool:
        """Whether the records were read as they were counted when the run was found to be ready."""
        counted = self._counts[State.VERIFIED], self._counts[State.DISCARDED]
        return (self._total, len(dict(self._given_up))) == counted

    def _left_out(self, path: str, record: FileRecord) -> LeftOut:
        history = self._ledger.history(self._run.file(path))
        acts = [note for note in history if MOVE_OF[note.event].actor is Actor.OPERATOR]
        errors = [note for note in history if note not in acts and note.kind]
        return LeftOut(
            path=path,
            size=record.fingerprint.size,
            was=acts[-1].decision if acts else "",
            code=errors[-1].code if errors else "",
            message=errors[-1].message if errors else "",
        )

    def _gap(self) -> Gap | None:
        given_up = dict(self._given_up).values()
        if self._closed is None or not (given_up or self._unfinished):
            return None
        return Gap(
            files=len(given_up),
            size=sum(record.fingerprint.size for record in given_up),
            actor=self._closed.actor,
            reason=self._closed.reason,
        )

    def marker(self) -> Marker:
        """Return the marker of the manifest as it was written."""
        return Marker(
            run=self._run,
            generation=self._generation,
            manifest=self._layout.manifest(self._run, self._generation),
            sha256=self._sha256.hexdigest(),
            files=self._files,
            size=self._size,
            total_files=self._total,
            evidence=dict(sorted(self._evidence.items())),
            superseded=self._superseding,
            gap=self._gap(),
        )

    def _lines(self) -> Iterator[bytes]:
        prefix = self._layout.raw_prefix(self._run)
        for path, record in self._ledger.records(self._run):
            if record.state is State.DISCARDED:
                self._given_up.append((path, record))
            if record.state is State.VERIFIED and (evidence := record.evidence):
                name, key = path, prefix + path
                if record.series:
                    number = edition(self._ledger, self._run.file(path), record)
                    name = object_name(path, number)
                    key = self._layout.edition(self._run.file(path), number)
                size = record.fingerprint.size
                sorts = f"{path}\0{name}\0{evidence.level}\0{size}\0{size} {evidence.etag}\0{key}\0"
                yield sorts.encode() + entry_line(path, key, record)

    def _entry(self, entry: bytes, known_keys: list[bytes]) -> bytes:
        if not known_keys:
            return entry
        self._superseding += 1
        return superseding(entry, known_keys[-1].decode())

    def _write(self, manifest: BinaryIO, line: bytes) -> None:
        self._waiting.append(line)
        if len(self._waiting) == _LINES:
            self._flush(manifest)

    def _flush(self, manifest: BinaryIO) -> None:
        block = b"".join(self._waiting)
        self._waiting.clear()
        self._sha256.update(block)
        self.crc64 = crc64nvme(block, self.crc64)
        manifest.write(block)

    def _earlier(self, folder: Path) -> Iterator[bytes]:
        """Yield `path NUL generation NUL key` of the earlier generations' manifests, sorted."""
        for line in sorted_lines(self._named_earlier(), folder, "earlier"):
            yield line.rstrip(b"\n")

    def _named_earlier(self) -> Iterator[bytes]:
        for number in range(1, self._generation):
            lines = split_lines(self._store.read(self._layout.manifest(self._run, number)))
            read_header(next(lines))
            for line in lines:
                if read_left_out(line):
                    continue
                entry = read_entry(line)
                yield f"{entry.path}\0{number:08}\0{entry.key}\n".encode()

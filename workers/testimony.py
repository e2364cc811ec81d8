"""What does the bucket alone tell of one run: generations, their manifests, and dead letters?

Everything is checked before it is believed: a manifest by the digest in its marker, a key by the
file that it must be of, a document by the key under which it lies.
"""

import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from labferry.dead_letter import DeadLetter
from labferry.errors import MalformedMessage, StoreError
from labferry.identity import MARKER_NAMES, FileKey, Layout, RunKey
from labferry.manifest import (
    Entry,
    LeftOut,
    Marker,
    read_entry,
    read_header,
    read_left_out,
    read_marker,
)
from labferry.ports import ObjectStore
from labferry.reason_document import read_reason
from labferry.records import Level

#: Bytes of the longest marker, document or line of a manifest that is read.
MOST_BYTES = 16 * 1024 * 1024
#: Documents of one round.
_AT_ONCE = 64
_CHECKSUM = re.compile("[0-9a-f]{16}")
_LEVELS = frozenset(Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A generation with a marker; `key` is the marker's."""

    key: str
    marker: Marker


@dataclass(frozen=True, slots=True)
class Testimony:
    """What a bucket says of one run."""

    store: ObjectStore
    layout: Layout
    run: RunKey

    def generations(self) -> list[Generation]:
        """Return the generations from the first on, in order; one without a marker ends them.

        Raises: StoreError, MalformedMessage.
        """
        prefix, found = self.layout.runs_prefix(self.run), dict[int, Generation]()
        for one in self.store.list_objects(prefix):
            number, _, name = one.key.removeprefix(prefix).partition("/")
            if name in MARKER_NAMES and number.isdecimal():
                marker = read_marker(self._read(one.key))
                if (marker.run, str(marker.generation)) != (self.run, number):
                    raise MalformedMessage(what=one.key, why="it is the marker of something else")
                found[marker.generation] = Generation(key=one.key, marker=marker)
        count = next(number for number in range(1, len(found) + 2) if number not in found)
        return [found[number] for number in range(1, count)]

    def fetch(self, generation: Generation, file: BinaryIO) -> None:
        """Write the manifest of a generation to a file, once it is what its marker says.

        Raises: StoreError, MalformedMessage.
        """
        marker, digest = generation.marker, hashlib.sha256()
        for block in self.store.read(marker.manifest):
            digest.update(block)
            file.write(block)
        if digest.hexdigest() != marker.sha256:
            raise MalformedMessage(what=marker.manifest, why="it is not what its marker names")
        file.seek(0)
        if read_header(file.readline(MOST_BYTES)) != (self.run, marker.generation):
            raise MalformedMessage(what=marker.manifest, why="it is another run's")

    def lines(self, file: BinaryIO) -> Iterator[tuple[Entry, int] | LeftOut]:
        """Yield the files of a manifest that was fetched, each with its edition, and those that
        were left out. Raises: MalformedMessage."""
        file.seek(0)
        file.readline(MOST_BYTES)
        while line := file.readline(MOST_BYTES):
            if left := read_left_out(line):
                yield left
                continue
            entry = read_entry(line)
            found = self.layout.find_file(entry.key)
            if found is None or found[0] != self.run.file(entry.path):
                raise MalformedMessage(what="a manifest", why=f"{entry.key!r} is no key of its run")
            if not _CHECKSUM.fullmatch(entry.crc64nvme) or entry.evidence not in _LEVELS:
                raise MalformedMessage(what="a manifest", why=f"{entry.path!r} is not proven in it")
            yield entry, found[1]

    def letters(self, pool: Executor) -> Iterator[DeadLetter | str]:
        """Yield every dead letter that is told of, or why a document tells of none."""
        prefix = f"{self.layout.everything('quarantine')}{self.run}/"
        keys = (one.key for one in self.store.list_objects(prefix))
        while some := list(islice(keys, _AT_ONCE)):
            yield from pool.map(self._letter, some)

    def _letter(self, key: str) -> DeadLetter | str:
        try:
            letter = read_reason(self._read(key))
        except MalformedMessage as error:
            return f"{key}: {error}"
        is_here = letter.file.run == self.run and self.layout.reason(letter.file) == key
        return letter if is_here else f"{key}: it is of another file"

    def find_letter(self, file: FileKey) -> DeadLetter | None:
        """Return what is told of a dead letter. Raises: StoreError, MalformedMessage."""
        try:
            letter = read_reason(self._read(self.layout.reason(file)))
        except StoreError as error:
            if error.is_absence:
                return None
            raise
        return letter if letter.file == file else None

    def _read(self, key: str) -> bytes:
        content = b""
        for block in self.store.read(key):
            content += block
            if len(content) > MOST_BYTES:
                raise MalformedMessage(what=key, why=f"it is larger than {MOST_BYTES} bytes")
        return content

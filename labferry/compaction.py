"""How do the records of a run that is over get into the bucket, and back on the ledger?

Put away: written to an archive, read back, compared, and only then taken off the ledger, if nothing
moved meanwhile. What is hot in the ledger is so bounded by what is in flight. Both may run twice,
anywhere, and be cut short anywhere.
"""

import gzip
import hashlib
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from labferry.archive import Archive
from labferry.archive_lines import ArchivedFile, file_line, header, read_lines
from labferry.completion import may_put_away, run_state
from labferry.errors import MalformedMessage, NotFound, StoreError
from labferry.identity import FileKey, Layout, RunKey
from labferry.inventory import sorted_lines
from labferry.manifest import split_lines
from labferry.ports import Ledger, ObjectStore
from labferry.records import RunFacts
from labferry.s3.checksum import crc64nvme
from labferry.telemetry import emit

_BLOCK_BYTES = 1024 * 1024


class Records:
    """The records of runs that are over, on a ledger and in a bucket."""

    def __init__(self, *, ledger: Ledger, store: ObjectStore, layout: Layout) -> None:
        self._ledger = ledger
        self._store = store
        self._layout = layout

    def put_away(self, run: RunKey, *, keep_ms: int) -> bool:
        """Take a complete run's records off the ledger; return whether they are in the bucket.

        Not before they rested for `keep_ms`. Raises: StoreError, LedgerUnavailable.
        """
        facts = self._ledger.find_facts(run)
        if facts is None:
            return False
        if facts.archive is not None:  # an earlier call may have been cut short
            return self._ledger.put_away(run, facts.archive, facts.moves)
        if not may_put_away(facts) or facts.now_ms - facts.finished_ms < keep_ms:
            return False
        if not self._is_told(facts):
            return False
        with TemporaryDirectory(prefix="labferry-") as folder:
            archive = self._write(facts, Path(folder))
        if archive is None or not self._ledger.put_away(run, archive, facts.moves):
            return False
        emit("run.put_away", run=str(run), files=archive.files, archive=archive.key)
        return True

    def take_back(self, run: RunKey) -> bool:
        """Put a run's records on the ledger again; return whether they are there.

        Raises: StoreError, LedgerUnavailable, MalformedMessage for an archive that was damaged.
        """
        facts = self._ledger.find_facts(run)
        if facts is None or facts.archive is None:
            return facts is not None
        if not self._ledger.take_back(run, facts.archive, self.archived(run, facts.archive)):
            now = self._ledger.find_facts(run)
            return now is not None and now.archive is None
        emit("run.taken_back", run=str(run), files=facts.archive.files)
        return True

    def files(self, facts: RunFacts) -> Iterator[ArchivedFile]:
        """Yield every file of a run with its history, wherever its records are; one may come twice.

        Raises: StoreError, LedgerUnavailable, MalformedMessage.
        """
        if facts.archive is not None:
            return self.archived(facts.run, facts.archive)
        return self._ledger.archived_files(facts.run)

    def archived(self, run: RunKey, archive: Archive) -> Iterator[ArchivedFile]:
        """Yield the files of an archive, none before all of it is seen to be what was written.

        Raises: StoreError, MalformedMessage.
        """
        with TemporaryDirectory(prefix="labferry-") as folder:
            path = Path(folder) / "archive"
            with path.open("wb") as file:
                file.writelines(self._checked(archive))
            yield from read_lines(split_lines(_unzipped(path)), run)

    def get(self, file: FileKey, archive: Archive) -> ArchivedFile:
        """Return a file of an archive. Raises: NotFound, StoreError, MalformedMessage."""
        for one in self.archived(file.run, archive):
            if one.path == file.path:
                return one
        raise NotFound(
            what=f"the file {file}",
            step=f"The records of its run are in {archive.key}; it is not among them.",
        )

    def _is_told(self, facts: RunFacts) -> bool:
        """Whether the bucket says what the run holds, without the ledger."""
        keys = [facts.marker, self._layout.manifest(facts.run, facts.generation)]
        missing = [key for key in keys if self._store.find_object(key) is None]
        if missing:
            emit("run.kept", level=logging.WARNING, run=str(facts.run), missing=missing)
            self._ledger.alert(
                f"kept:{facts.run}:{facts.generation}",
                f"{facts.run} is {run_state(facts)}, and {', '.join(missing)} is not in the bucket."
                " Its records stay in the ledger. Find out who removed it.",
            )
        return not missing

    def _write(self, facts: RunFacts, folder: Path) -> Archive | None:
        """Write the archive and read it back; None where something moved meanwhile."""
        with (folder / "archive").open("w+b") as body:
            files = self._zip(facts.run, folder, body)
            if files != sum(facts.counts.values()):
                return None
            digest, crc64 = _digests(body)
            key = self._layout.records(facts.run, digest)
            body.seek(0)
            try:
                self._store.put_absent(key, body, crc64, "records")
            except StoreError as error:
                emit("archive.put_failed", run=str(facts.run), key=key, code=error.code)
                if self._store.find_object(key) is None:
                    raise
        archive = Archive(key=key, sha256=digest, files=files)
        for _ in self._checked(archive):
            pass
        return archive

    def _zip(self, run: RunKey, folder: Path, body: BinaryIO) -> int:
        count = 0
        lines = (file_line(one) for one in self._ledger.archived_files(run))
        with gzip.GzipFile(filename="", mode="wb", fileobj=body, mtime=0) as zipped:
            zipped.write(header(run))
            for line in sorted_lines(lines, folder, "records"):
                zipped.write(line)
                count += 1
        return count

    def _checked(self, archive: Archive) -> Iterator[bytes]:
        """Yield the object in blocks; demand that it was the archive, byte by byte."""
        digest = hashlib.sha256()
        for block in self._store.read(archive.key):
            digest.update(block)
            yield block
        if digest.hexdigest() != archive.sha256:
            raise MalformedMessage(what=archive.key, why="it is not what was written there")


def _digests(body: BinaryIO) -> tuple[str, int]:
    digest, crc64 = hashlib.sha256(), 0
    body.seek(0)
    while block := body.read(_BLOCK_BYTES):
        digest.update(block)
        crc64 = crc64nvme(block, crc64)
    return digest.hexdigest(), crc64


def _unzipped(path: Path) -> Iterable[bytes]:
    try:
        with gzip.open(path) as file:
            while block := file.read(_BLOCK_BYTES):
                yield block
    except (OSError, EOFError) as error:
        raise MalformedMessage(what="an archive", why=str(error)) from error

"""When may a run's completion marker be written, and how is it written once?

One path: all verified -> listed and compared -> manifest -> marker -> set and outbox. A crash at
any point repeats the same bytes against the same keys, so two completers, or a lost answer, end
with one marker. The lock only saves work.
"""

import logging
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event as Flag
from typing import BinaryIO

from labferry.completion import NextStep, next_step
from labferry.dead_letter import OBJECT_MISSING, OBJECT_REPLACED, loss
from labferry.editions import object_key
from labferry.errors import ObjectConflict, StoreError
from labferry.events import run_event
from labferry.identity import Layout, RunKey
from labferry.inventory import Differences, compare, fact_line, sorted_lines
from labferry.manifest import Marker, marker_bytes
from labferry.ports import Leadership, Ledger, ObjectStore
from labferry.records import Completion, RunFacts, Step
from labferry.s3.checksum import crc64nvme
from labferry.states import Event
from labferry.telemetry import emit
from workers.ahead import begun
from workers.draft import Draft, object_name, path_of

#: Completers that find another at work leave; a dead one's lock ends after this.
_LOCK_S = 60.0
#: Objects listed between two renewals of it.
_KEEP_EVERY = 10_000


def completion_of(marker: Marker, key: str, bucket: str) -> Completion:
    """Return what the ledger is told of a marker that is in the bucket."""
    return Completion(
        generation=marker.generation,
        file_count=marker.total_files,
        manifest_key=marker.manifest,
        manifest_digest=marker.sha256,
        marker_key=key,
        event=run_event(marker, key, bucket),
    )


class Completer:
    """Completes runs on a ledger and a bucket."""

    def __init__(
        self, *, ledger: Ledger, store: ObjectStore, layout: Layout, trusts_put: bool = False
    ) -> None:
        """`trusts_put` where the endpoint was proven to refuse wrong checksums and second objects:
        elsewhere manifest and marker are looked for before, and read back after."""
        self._trusts_put = trusts_put
        self._ledger = ledger
        self._store = store
        self._layout = layout

    def complete(self, run: RunKey) -> bool:
        """Complete a run that is ready; return whether its marker is on record afterwards.

        May run twice, also at the same time. Raises: StoreError, LedgerUnavailable,
        ObjectConflict when a manifest or marker with other content is there.
        """
        facts = self._ledger.find_facts(run)
        if facts is None or next_step(facts) is not NextStep.COMPLETE:
            return facts is not None and facts.is_over
        lock = self._ledger.leadership(f"complete:{run}", keep_s=_LOCK_S)
        if not lock.keep():
            return False
        try:
            with TemporaryDirectory(prefix="labferry-") as folder:
                return self._complete(facts, Path(folder), lock)
        finally:
            lock.release()

    def _complete(self, facts: RunFacts, folder: Path, lock: Leadership) -> bool:
        run = facts.run
        draft = Draft(ledger=self._ledger, store=self._store, layout=self._layout, facts=facts)
        goes_on = Flag()
        listed = sorted_lines(self._found(run, lock, goes_on), folder, "found")
        with (folder / "manifest").open("w+b") as manifest, begun(listed, goes_on) as found:
            differences = compare(draft.facts(folder, manifest), found)
            self._report_strangers(run, differences, draft.superseded)
            if not differences.whole and not self._look_again(run, differences):
                return False
            if facts.closed and not draft.agrees:
                return False  # something is being sent in again: its outcome decides
            marker = draft.marker()
            manifest.seek(0)
            self._put_same(marker.manifest, manifest, draft.crc64)
        return self._mark(run, marker)

    def _mark(self, run: RunKey, marker: Marker) -> bool:
        named = self._layout.incomplete_marker if marker.gap else self._layout.marker
        key, content = named(run, marker.generation), marker_bytes(marker)
        self._put_same(key, BytesIO(content), crc64nvme(content))
        if self._ledger.complete(run, completion_of(marker, key, self._store.bucket)):
            what = "run.incomplete" if marker.gap else "run.completed"
            emit(what, run=str(run), generation=marker.generation, marker=key)
        return True

    def _found(self, run: RunKey, lock: Leadership, goes_on: Flag) -> Iterator[bytes]:
        prefix, later = self._layout.raw_prefix(run), self._layout.editions_prefix(run)
        for number, one in enumerate(self._store.list_objects(prefix)):
            if not goes_on.is_set():
                return
            if number % _KEEP_EVERY == 0:
                lock.extend()
            yield fact_line(one.key.removeprefix(prefix), one.size, one.etag)
        for one in self._store.list_objects(later):
            edition, _, path = one.key.removeprefix(later).partition("/")
            if edition.isdecimal():
                yield fact_line(object_name(path, int(edition)), one.size, one.etag)

    def _report_strangers(
        self, run: RunKey, differences: Differences, superseded: set[str]
    ) -> None:
        strangers = [name for name in differences.unexpected if name not in superseded]
        if strangers or differences.unexpected_count > len(superseded):
            emit(
                "run.unexpected_objects",
                level=logging.WARNING,
                run=str(run),
                count=differences.unexpected_count,
                first=strangers[:3],
            )

    def _look_again(self, run: RunKey, differences: Differences) -> bool:
        """Ask for each object that the listing does not show as it was; quarantine what is lost.

        Return whether all are there after all: a listing may be late, or leave names out.
        """
        names = [*differences.missing, *differences.different]
        there = [self._is_there(run, path_of(name)) for name in names]
        count = differences.missing_count + differences.different_count
        if not all(there):
            return False
        emit(
            "run.listed_wrongly",
            level=logging.WARNING,
            run=str(run),
            count=count,
            first=names[:3],
            asked=len(names),
        )
        return len(names) == count

    def _is_there(self, run: RunKey, path: str) -> bool:
        """Whether a verified file's object is there as it was; if it is not, the file is lost."""
        record = self._ledger.find_record(run.file(path))
        if record is None or record.evidence is None:
            return False
        key = object_key(self._ledger, self._layout, run.file(path), record)
        found = self._store.find_object(key)
        if found and (found.etag, found.size) == (record.evidence.etag, record.fingerprint.size):
            return True
        code = OBJECT_REPLACED if found else OBJECT_MISSING
        self._ledger.move(run, Event.LOSE, [Step(path=path, note=loss(key, code))])
        emit("file.lost", level=logging.ERROR, run=str(run), file=path, code=code)
        return False

    def _put_same(self, key: str, body: BinaryIO, crc64: int) -> None:
        """Create an object that any completer would write with the same bytes."""
        if not self._trusts_put and self._same(key, body):
            return
        body.seek(0)
        try:
            self._store.put_absent(key, body, crc64, "completion")
        except StoreError as error:
            if not self._same(key, body):
                raise
            emit("object.adopted", key=key, code=error.code)
            return
        if not self._trusts_put and not self._same(key, body):
            raise StoreError(operation="PutObject", key=key, code="PutWithoutObject", status=200)

    def _same(self, key: str, body: BinaryIO) -> bool:
        """Whether the object holds these bytes; False when it is absent."""
        if self._store.find_object(key) is None:
            return False
        body.seek(0)
        for block in self._store.read(key):
            if body.read(len(block)) != block:
                raise ObjectConflict(key=key, why="its content is not what this run gives")
        if body.read(1):
            raise ObjectConflict(key=key, why="it is shorter than what this run gives")
        return True

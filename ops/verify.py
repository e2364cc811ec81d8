"""Is a run in the bucket what its manifests say? From the bucket alone: no ledger, and no source
unless that is asked for.

Every object below the run is listed and compared, by identity, size and ETag, with the manifests,
whose own digests the completion markers hold. A manifest without a marker is enough; without any
there is only a count, which says nothing of what is missing.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from labferry.errors import MalformedMessage, NotFound, StoreError
from labferry.identity import Layout, RunKey
from labferry.inventory import Differences, compare, fact_line, sorted_lines
from labferry.manifest import (
    Entry,
    Gap,
    Marker,
    join_marker,
    read_entry,
    read_header,
    read_left_out,
    read_marker,
    split_lines,
)
from labferry.ports import Clock, ObjectStore
from labferry.s3.checksum import crc64nvme
from labferry.stored import Listed
from ops.patience import OverBudget, Patience
from ops.verify_report import COUNTED, Basis, Report, Verdict, found_words, gap_words
from ops.verify_source import SourceFound, look_at_source

#: What hangs in one request is not waited for any longer than this after the deadline.
_HANGING_S = 1.0
#: Read of a manifest at a time.
_BLOCK_BYTES = 65_536


@dataclass(slots=True)
class _Manifest:
    """One manifest of the run, and its marker where there is one."""

    generation: int
    key: str
    marker: Marker | None = None
    path: Path = Path()


class Verification:
    """One look at one run, with one deadline for every read, retry, wait and page."""

    def __init__(  # noqa: PLR0913  what it is made of
        self,
        *,
        store: ObjectStore,
        layout: Layout,
        run: RunKey,
        clock: Clock,
        budget_s: float,
        deep: bool = False,
        root: Path | None = None,
    ) -> None:
        """`deep` reads every object back and hashes it, then the source below the `root`."""
        self._store = store
        self._layout = layout
        self._run = run
        self._budget_s = budget_s
        self._patience = Patience(clock, budget_s)
        self._deep = deep
        self._root = root
        self._generations: list[int] = []
        self._basis = Basis.COUNT
        self._files = self._size = self._read_files = self._read_size = 0
        self._gap: Gap | None = None
        self._source: SourceFound | None = None

    def report(self) -> Report:
        """Return what was found. Raises: NotFound when the bucket has nothing of the run."""
        with TemporaryDirectory(prefix="labferry-", ignore_cleanup_errors=True) as folder:
            return self._in_time(lambda: self._try(Path(folder)))

    def _in_time(self, look: Callable[[], Report]) -> Report:
        """Return the report, or that the time was over where a request hangs."""
        found: list[Report | Exception] = []

        def run() -> None:
            try:
                found.append(look())
            except Exception as error:  # noqa: BLE001  raised below, if anybody still waits
                found.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(min(self._budget_s + _HANGING_S, threading.TIMEOUT_MAX))
        result = found[0] if found else self._report(Verdict.INCOMPLETE, self._over())
        if isinstance(result, Exception):
            raise result
        return result

    def _over(self) -> str:
        return f"the {self._budget_s:g} s given were over"

    def _try(self, folder: Path) -> Report:
        try:
            return self._look(folder)
        except (OverBudget, StoreError) as error:
            return self._report(Verdict.INCOMPLETE, str(error))
        except MalformedMessage as error:
            return self._report(Verdict.PARTIAL, str(error))

    def _look(self, folder: Path) -> Report:
        manifests = self._manifests(folder)
        if not manifests:
            return self._count(folder)
        marked = all(one.marker for one in manifests)
        self._basis = Basis.MARKER if marked else Basis.MANIFEST
        expected = sorted_lines(self._expected(manifests), folder, "expected")
        differences = compare(expected, sorted_lines(self._found(folder), folder, "found"))
        newest = manifests[-1].marker
        self._gap = newest.gap if newest else None
        if self._deep:
            self._read_back(manifests, differences)
            self._read_source(manifests)
        whole = differences.whole and self._gap is None
        why = found_words(differences) + ("" if marked else "; no marker vouches for it")
        why += gap_words(self._gap) if self._gap else ""
        why += f"; {self._source.words()}" if self._source else ""
        return self._report(Verdict.COMPLETE if whole else Verdict.PARTIAL, why, differences)

    def _manifests(self, folder: Path) -> list[_Manifest]:
        """Return the run's manifests, by generation, each with its content in the folder."""
        prefix = self._layout.runs_prefix(self._run)
        names = {one.key for one in self._listed(prefix)}
        found = []
        for number in sorted(_generations(names, prefix)):
            manifest = _Manifest(number, self._layout.manifest(self._run, number))
            for marker in (
                self._layout.marker(self._run, number),
                self._layout.incomplete_marker(self._run, number),
            ):
                if marker in names:
                    manifest.marker = read_marker(self._content(marker))
            if manifest.marker or manifest.key in names:
                manifest.path = folder / f"manifest-{number}"
                self._save(manifest)
                found.append(manifest)
        self._generations = [one.generation for one in found]
        return found

    def _listed(self, prefix: str) -> list[Listed]:
        return self._patience.persist(
            lambda: list(self._patience.in_time(self._store.list_objects(prefix)))
        )

    def _content(self, key: str) -> bytes:
        return self._patience.persist(
            lambda: join_marker(self._patience.in_time(self._store.read(key)))
        )

    def _save(self, manifest: _Manifest) -> None:
        def copy() -> str:
            digest = hashlib.sha256()
            with manifest.path.open("wb") as file:
                for block in self._patience.in_time(self._store.read(manifest.key)):
                    digest.update(block)
                    file.write(block)
            return digest.hexdigest()

        try:
            digest = self._patience.persist(copy)
        except StoreError as error:
            if error.is_absence:
                raise MalformedMessage(what=manifest.key, why="it is gone") from error
            raise
        if manifest.marker and digest != manifest.marker.sha256:
            raise _not_the_one(manifest.key)

    def _entries(self, manifest: _Manifest) -> Iterator[Entry]:
        with manifest.path.open("rb") as file:
            lines = split_lines(iter(partial(file.read, _BLOCK_BYTES), b""))
            if read_header(next(lines, b"")) != (self._run, manifest.generation):
                raise MalformedMessage(what=manifest.key, why="it is another run's")
            for line in self._patience.in_time(lines):
                if not read_left_out(line):
                    yield read_entry(line)

    def _expected(self, manifests: Iterable[_Manifest]) -> Iterator[bytes]:
        for manifest in manifests:
            files = 0
            for entry in self._entries(manifest):
                files += 1
                self._size += entry.size
                yield fact_line(entry.key, entry.size, entry.etag)
            self._files += files
            if manifest.marker and files != manifest.marker.files:
                raise _not_the_one(manifest.key)

    def _found(self, folder: Path) -> Iterator[bytes]:
        """Yield what the bucket has of the run's files; a listing that broke off is made again."""
        for number, prefix in enumerate(self._layout.object_prefixes(self._run)):
            path = folder / f"listed-{number}"
            self._patience.persist(partial(self._list, prefix, path))
            with path.open("rb") as file:
                yield from file

    def _list(self, prefix: str, path: Path) -> None:
        with path.open("wb") as file:
            for one in self._patience.in_time(self._store.list_objects(prefix)):
                file.write(fact_line(one.key, one.size, one.etag))

    def _count(self, folder: Path) -> Report:
        """Report how much is there, where no manifest says what should be."""
        for line in self._found(folder):
            self._files += 1
            self._size += int(line.partition(b"\0")[2].split()[0])
        if not self._files:
            raise NotFound(
                what=f"in the bucket, the run {self._run}",
                step="`labferry status` lists what is on its way.",
            )
        return self._report(Verdict.UNKNOWN, COUNTED)

    def _read_back(self, manifests: Iterable[_Manifest], differences: Differences) -> None:
        for manifest in manifests:
            for entry in self._entries(manifest):
                self._patience.check()
                crc64 = self._patience.persist(partial(self._crc64, entry))
                if crc64 is None:
                    if entry.version_id:  # else the listing has told
                        differences.differs(entry.key)
                    continue
                self._read_files += 1
                self._read_size += entry.size
                if f"{crc64:016x}" != entry.crc64nvme:
                    differences.differs(entry.key)

    def _read_source(self, manifests: Sequence[_Manifest]) -> None:
        """Read the newest edition of each file at the source."""
        self._source = SourceFound()
        older = {
            entry.supersedes
            for manifest in manifests[1:]
            for entry in self._entries(manifest)
            if entry.supersedes
        }
        entries = (
            entry
            for manifest in manifests
            for entry in self._entries(manifest)
            if entry.key not in older
        )
        look_at_source(self._source, self._root, self._run, entries, self._patience.check)

    def _crc64(self, entry: Entry) -> int | None:
        """Return the checksum of an object's bytes, of the version that was proven."""
        crc64 = 0
        try:
            for block in self._patience.in_time(self._store.read(entry.key, entry.version_id)):
                crc64 = crc64nvme(block, crc64)
        except StoreError as error:
            if error.is_absence:
                return None
            raise
        return crc64

    def _report(self, verdict: Verdict, why: str, differences: Differences | None = None) -> Report:
        return Report(
            run=self._run,
            verdict=verdict,
            basis=self._basis,
            why=why,
            generations=tuple(self._generations),
            files=self._files,
            size=self._size,
            differences=differences or Differences(),
            gap=self._gap,
            read_files=self._read_files,
            read_size=self._read_size,
            source=self._source,
        )


def _generations(names: Iterable[str], prefix: str) -> set[int]:
    """Return the generations that keys below a run's prefix are of."""
    numbers = (name.removeprefix(prefix).partition("/")[0] for name in names)
    return {int(number) for number in numbers if number.isdecimal()}


def _not_the_one(key: str) -> MalformedMessage:
    return MalformedMessage(what=key, why="it is not the manifest that its marker names")

"""Where do ledger, bucket and source disagree about one run? Only looked at.

The ledger is read before the bucket is listed, and asked again about whatever the listing holds: so
what moves meanwhile is no drift. A difference is asked for once more before it counts. Streamed:
what does not fit in memory is sorted on disk.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from labferry.clock import SystemClock
from labferry.dead_letter import UNUSABLE_NAME
from labferry.editions import edition, object_key
from labferry.identity import MARKER_NAMES, FileKey, Layout, RunKey
from labferry.inventory import Differences, compare, fact_line, sorted_lines
from labferry.ports import Ledger, ObjectStore
from labferry.source.claims import RunReader
from labferry.source.share import is_here, run_path
from labferry.source.tally import Names
from labferry.states import State
from labferry.stored import Listed
from ops.verify import Verification

#: Files asked about in one call.
BATCH_FILES = 500
#: A run of which the manifests are compared is looked at for so long.
MANIFESTS_S = 3600.0
#: No source is needed for these any more.
_GIVEN_UP = frozenset({State.SKIPPED, State.DISCARDED})


class Kind(StrEnum):
    """What can be wrong."""

    MISSING = "missing"  # verified, and its object is not in the bucket
    DIFFERENT = "different"  # verified, and its object is another one
    UNKNOWN = "unknown"  # an object of a file that the ledger does not know
    SOURCELESS = "sourceless"  # its run is not complete, and it is not at the source any more
    UNKNOWN_MARKER = "unknown marker"  # in the bucket, and the ledger does not know of it
    LOST_MARKER = "lost marker"  # on record, and not in the bucket


@dataclass(slots=True)
class Drift:
    """What was found of one run; `is_source_seen` is False where a source is needed
    still, and its share is not on this host."""

    run: RunKey
    found: dict[Kind, Names] = field(default_factory=lambda: {kind: Names() for kind in Kind})
    is_source_seen: bool = True

    def __bool__(self) -> bool:
        return any(self.found.values())

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry reconcile --json`."""
        found = {
            str(kind): {"count": names.count, "first": names.first}
            for kind, names in self.found.items()
            if names
        }
        return {"run": str(self.run), "drift": found}


class Comparison:
    """Compares runs; `roots` are the instruments' folders on this host."""

    def __init__(
        self, *, ledger: Ledger, store: ObjectStore, layout: Layout, roots: Mapping[str, Path]
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._layout = layout
        self._roots = roots

    def look(self, run: RunKey) -> Drift:
        """Return what is wrong with a run. Raises: LedgerUnavailable, StoreError."""
        drift, before = Drift(run), self._ledger.markers(run)
        facts = self._ledger.find_facts(run)
        if facts is not None and facts.archive is not None:
            self._look_at_manifests(drift)
            self._compare_markers(drift, before)
            return drift
        with TemporaryDirectory(prefix="labferry-") as name:
            folder = Path(name)
            expected = sorted_lines(self._verified(run), folder, "verified")
            found = sorted_lines(self._listed(drift), folder, "found")
            self._confirm(drift, compare(expected, found))
            self._look_for_sources(drift, folder)
        self._compare_markers(drift, before)
        return drift

    def _look_at_manifests(self, drift: Drift) -> None:
        """Compare a run whose records were put away: its manifests say what must be there."""
        verification = Verification(
            store=self._store,
            layout=self._layout,
            run=drift.run,
            clock=SystemClock(),
            budget_s=MANIFESTS_S,
        )
        differences = verification.report().differences
        for kind, names, count in (
            (Kind.MISSING, differences.missing, differences.missing_count),
            (Kind.DIFFERENT, differences.different, differences.different_count),
            (Kind.UNKNOWN, differences.unexpected, differences.unexpected_count),
        ):
            drift.found[kind].add(names)
            drift.found[kind].count = count

    def _verified(self, run: RunKey) -> Iterator[bytes]:
        for path, record in self._ledger.records(run):
            if record.state is State.VERIFIED and record.evidence:
                key = object_key(self._ledger, self._layout, run.file(path), record)
                yield fact_line(key, record.fingerprint.size, record.evidence.etag)

    def _listed(self, drift: Drift) -> Iterator[bytes]:
        """Yield what the bucket holds; note what the ledger has no file for."""
        for prefix in self._layout.object_prefixes(drift.run):
            objects = iter(self._store.list_objects(prefix))
            while batch := list(islice(objects, BATCH_FILES)):
                drift.found[Kind.UNKNOWN].add(self._unknown(drift.run, batch))
                for one in batch:
                    yield fact_line(one.key, one.size, one.etag)

    def _unknown(self, run: RunKey, batch: Sequence[Listed]) -> Iterator[str]:
        files = [self._layout.find_file(one.key) for one in batch]
        paths = [found[0].path if found else "" for found in files]
        records = self._ledger.find_records(run, paths)
        for one, found, record in zip(batch, files, records, strict=True):
            known = found and record and found[1] <= edition(self._ledger, found[0], record)
            if not known:
                yield one.key

    def _confirm(self, drift: Drift, differences: Differences) -> None:
        """Count what the listing does not show as it is on record, once it was asked for by name:
        a listing may be late, or leave names out."""
        names = [*differences.missing, *differences.different]
        for key in names:
            if kind := self._find_fault(key):
                drift.found[kind].add([key])
        drift.found[Kind.MISSING].count += differences.missing_count - len(differences.missing)
        drift.found[Kind.DIFFERENT].count += differences.different_count - len(
            differences.different
        )

    def _find_fault(self, key: str) -> Kind | None:
        named = self._layout.find_file(key)
        record = self._ledger.find_record(named[0]) if named else None
        if named is None or record is None or record.evidence is None:
            return None
        if (
            record.state is not State.VERIFIED
            or edition(self._ledger, *named[:1], record) != named[1]
        ):
            return None
        found = self._store.find_object(key)
        if found is None:
            return Kind.MISSING
        same = (found.size, found.etag) == (record.fingerprint.size, record.evidence.etag)
        return None if same else Kind.DIFFERENT

    def _look_for_sources(self, drift: Drift, folder: Path) -> None:
        facts = self._ledger.find_facts(drift.run)
        is_over = facts is not None and facts.is_over
        needed = sorted_lines(self._needed(drift.run, is_over=is_over), folder, "needed")
        root = self._roots.get(drift.run.instrument)
        if root is None or not is_here(root):
            drift.is_source_seen = next(needed, None) is None
            return
        reader = RunReader(run_path(root, drift.run))
        try:
            for line in needed:
                path = line.decode().removesuffix("\n")
                if not reader.is_file(path):
                    drift.found[Kind.SOURCELESS].add([path])
        except OSError:
            drift.is_source_seen = False
        finally:
            reader.close()

    def _needed(self, run: RunKey, *, is_over: bool) -> Iterator[bytes]:
        for path, record in self._ledger.records(run):
            is_safe = is_over and record.state is State.VERIFIED
            if is_safe or record.state in _GIVEN_UP:
                continue
            never_settled = record.state is State.QUARANTINED and not record.settled_ms
            if not (never_settled and self._is_stand_in(run.file(path))):
                yield f"{path}\n".encode()

    def _is_stand_in(self, file: FileKey) -> bool:
        """Whether its own name is one that no key can hold: under this one no source ever was."""
        return any(note.code == UNUSABLE_NAME for note in self._ledger.history(file))

    def _compare_markers(self, drift: Drift, before: set[int]) -> None:
        prefix = self._layout.runs_prefix(drift.run)
        there = {
            int(number): one.key
            for one in self._store.list_objects(prefix)
            for number, _, name in [one.key.removeprefix(prefix).partition("/")]
            if name in MARKER_NAMES and number.isdecimal()
        }
        unknown = set(there) - self._ledger.markers(drift.run)
        drift.found[Kind.UNKNOWN_MARKER].add(there[number] for number in sorted(unknown))
        lost = sorted(before - set(there))
        drift.found[Kind.LOST_MARKER].add(self._layout.marker(drift.run, one) for one in lost)

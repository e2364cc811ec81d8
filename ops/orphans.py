"""Which multipart uploads does nobody own, and how are they ended without ending a live one?

An upload is owned while the ledger has it as the plan of a file that may go on, and live while its
file is under a lease: between Create and its record nobody else knows of it. The server is asked
first and the ledger after it, so what is nobody's then never will be anybody's: whoever made it was
fenced out. Its age decides nothing: there are servers on which every upload is of 2010.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import NamedTuple

from labferry.audit import Act
from labferry.editions import edition
from labferry.errors import StoreError
from labferry.identity import FileKey, Layout, RunKey
from labferry.ports import Ledger, ObjectStore
from labferry.records import Lane
from labferry.source.tally import Names
from labferry.states import LEASED, State
from labferry.telemetry import emit

#: Keys asked about in one round, and how many at a time.
_ROUND, _THREADS = 200, 8
#: Nothing goes on from here with the upload that was begun.
_ENDED = frozenset({State.VERIFIED, State.DISCARDED, State.SKIPPED})


class Open(NamedTuple):
    """One open upload."""

    key: str
    upload_id: str


@dataclass(slots=True)
class Uploads:
    """What was found: `owned` go on, or are under way, `foreign` are of no instrument that is known
    here and never ended. `orphans` are nobody's; of them `aborted` and `left`, with the reasons.
    """

    owned: int = 0
    foreign: int = 0
    orphans: Names = field(default_factory=Names)
    aborted: int = 0
    left: Names = field(default_factory=Names)

    @property
    def remaining(self) -> int:
        """How many orphans are still open."""
        return self.orphans.count - self.aborted

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry reconcile --json`."""
        return {
            "owned": self.owned,
            "foreign": self.foreign,
            "orphans": self.orphans.count,
            "first": self.orphans.first,
            "aborted": self.aborted,
            "not_aborted": self.left.first,
        }


class OrphanSearch:
    """Looks for open uploads of all runs, or of some."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        store: ObjectStore,
        layout: Layout,
        instruments: Collection[str],
    ) -> None:
        """`instruments` are those of this site: uploads of others are another site's."""
        self._ledger = ledger
        self._store = store
        self._layout = layout
        self._instruments = instruments

    def look(self, runs: Sequence[RunKey], run: RunKey | None, act: Act | None) -> Uploads:
        """Find the orphans of `run`, or of all; end them where there is an act to go on record.

        `runs` are those on record. Raises: LedgerUnavailable, StoreError.
        """
        report = Uploads()
        for one in self._open(runs, run):
            found = self._layout.find_file(one.key)
            if found is None or found[0].run.instrument not in self._instruments:
                report.foreign += 1
            elif self._is_owned(found[0], one.upload_id):
                report.owned += 1
            else:
                report.orphans.add([f"{one.key} {one.upload_id}"])
                if act is not None:
                    self._abort(one, found[0].run if found[0].run in runs else None, act, report)
        return report

    def _open(self, runs: Sequence[RunKey], run: RunKey | None) -> Iterator[Open]:
        """Yield each open upload once."""
        seen: set[Open] = set()
        for one in chain(self._listed(run), self._asked_for(runs)):
            if one not in seen:
                seen.add(one)
                yield one

    def _listed(self, run: RunKey | None) -> Iterator[Open]:
        layout = self._layout
        for prefix in (
            layout.raw_prefix(run) if run else layout.everything("raw"),
            layout.editions_prefix(run) if run else layout.everything("editions"),
        ):
            for key, upload_id in self._store.list_uploads(prefix):
                yield Open(key, upload_id)

    def _asked_for(self, runs: Sequence[RunKey]) -> Iterator[Open]:
        """Ask for each key by name: MinIO lists the uploads of exact keys alone."""
        keys = (key for run in runs for key in self._keys(run))
        with ThreadPoolExecutor(_THREADS) as pool:
            while some := list(islice(keys, _ROUND)):
                for key, found in zip(some, pool.map(self._store.find_uploads, some), strict=True):
                    yield from (Open(key, upload_id) for upload_id in found)

    def _keys(self, run: RunKey) -> Iterator[str]:
        """Yield the keys under which files of a run may ever have been sent in parts."""
        for path, record in self._ledger.records(run):
            if record.lane is Lane.LARGE:
                file = run.file(path)
                for number in range(1, edition(self._ledger, file, record) + 1):
                    yield self._layout.edition(file, number)

    def _is_owned(self, file: FileKey, upload_id: str) -> bool:
        record = self._ledger.find_record(file)
        if record is None or record.state in _ENDED:
            return False
        if record.state in LEASED:
            return True
        plan = self._ledger.find_upload(file)
        return plan is not None and plan.upload_id == upload_id

    def _abort(self, one: Open, run: RunKey | None, act: Act, report: Uploads) -> None:
        self._ledger.record_act(run, replace(act, selector=f"{one.key} {one.upload_id}"))
        try:
            self._store.abort_upload(one.key, one.upload_id)
        except StoreError as error:
            report.left.add([str(error)])
            return
        report.aborted += 1
        emit("upload.aborted", level=logging.WARNING, key=one.key, upload_id=one.upload_id)

"""Which verified files are not in the bucket any more? They become dead letters, to be sent again.

An object may be deleted long after its run was complete. What a person released from custody may be
gone. The ledger is read before the bucket is listed, and what the listing lacks is asked for by
name. Streamed: what does not fit in memory is sorted on disk.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from labferry.archive_lines import ArchivedFile
from labferry.compaction import Records
from labferry.dead_letter import OBJECT_MISSING, DeadLetter, loss
from labferry.editions import edition_after
from labferry.errors import StoreError
from labferry.identity import FileKey, Layout, RunKey
from labferry.inventory import fact_line, missing_names, sorted_lines
from labferry.ports import Ledger, ObjectStore
from labferry.records import RunFacts, Step
from labferry.states import Event, State

#: Files of one call to the ledger.
_MOVED_FILES = 500


class Losses:
    """Looks for what is lost, and tells it as the dead letter that it is to be."""

    def __init__(
        self, *, ledger: Ledger, store: ObjectStore, layout: Layout, records: Records
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._layout = layout
        self._records = records

    def of_run(self, run: RunKey) -> Iterator[DeadLetter]:
        """Yield the letters of a run's files that are lost; none where the bucket cannot be asked.

        Raises: LedgerUnavailable.
        """
        facts = self._ledger.find_facts(run)
        if facts is None or not facts.counts[State.VERIFIED] or self._may_be_gone(run):
            return
        try:
            paths = self._absent(facts)
        except StoreError:
            return  # the preview says so
        if not paths:
            return
        for one in self._verified(facts):
            if one.path in paths and (lost := self._letter(run.file(one.path), one)):
                yield lost

    def of_file(self, file: FileKey, one: ArchivedFile) -> DeadLetter | None:
        """Return the letter of a file that is lost, or None. Raises: LedgerUnavailable."""
        if one.record.state is not State.VERIFIED or self._may_be_gone(file.run):
            return None
        return self._letter(file, one)

    def _may_be_gone(self, run: RunKey) -> bool:
        return str(run) in self._ledger.out_of_custody()

    def _letter(self, file: FileKey, one: ArchivedFile) -> DeadLetter | None:
        key = self._key(file, one)
        try:
            if self._store.find_object(key) is not None:
                return None
        except StoreError:
            return None
        record = replace(one.record, state=State.QUARANTINED)
        note = loss(key, OBJECT_MISSING)
        return DeadLetter(file=file, at_ms=self._ledger.now_ms(), record=record, notes=(note,))

    def _absent(self, facts: RunFacts) -> set[str]:
        """Return the paths of verified files that a listing does not show."""
        with TemporaryDirectory(prefix="labferry-") as name:
            expected = sorted_lines(self._expected(facts), Path(name), "verified")
            found = sorted_lines(self._listed(facts.run), Path(name), "found")
            named = map(self._layout.find_file, missing_names(expected, found))
            return {one[0].path for one in named if one}

    def _expected(self, facts: RunFacts) -> Iterator[bytes]:
        for one in self._verified(facts):
            yield fact_line(self._key(facts.run.file(one.path), one), 0, "")

    def _listed(self, run: RunKey) -> Iterator[bytes]:
        for prefix in self._layout.object_prefixes(run):
            for one in self._store.list_objects(prefix):
                yield fact_line(one.key, 0, "")

    def _verified(self, facts: RunFacts) -> Iterator[ArchivedFile]:
        files = self._records.files(facts)
        return (one for one in files if one.record.state is State.VERIFIED)

    def _key(self, file: FileKey, one: ArchivedFile) -> str:
        return self._layout.edition(file, edition_after(one.history))


def put_on_record(ledger: Ledger, lost: Iterable[DeadLetter]) -> None:
    """Let files be dead letters on the ledger; one that moved meanwhile stays as it is."""
    steps: dict[RunKey, list[Step]] = defaultdict(list)
    for one in lost:
        steps[one.file.run].append(Step(path=one.file.path, note=one.cause))
    for run, found in steps.items():
        for first in range(0, len(found), _MOVED_FILES):
            ledger.move(run, Event.LOSE, found[first : first + _MOVED_FILES])

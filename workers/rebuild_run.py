"""How is one run put on record again, in the order in which it lived?

Its generations first, each with its files and then its marker; then its dead letters; then what the
bucket holds beyond the manifests, if the source says the same. Streamed: of a run of any size some
hundred files are in memory.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from labferry.audit import Act
from labferry.dead_letter import OBJECT_MISSING, OBJECT_REPLACED, DeadLetter
from labferry.identity import FileKey, Layout
from labferry.inventory import sorted_lines
from labferry.manifest import Entry, LeftOut, Marker
from labferry.ports import Ledger, ObjectStore
from labferry.records import Fingerprint, Note, Proof, Step
from labferry.settings import Settings
from labferry.states import MOVE_OF, Event, State
from workers.adoption import Adoption, Lost, Proven, Standing
from workers.complete import completion_of
from workers.rebuild_report import Rebuilt
from workers.testimony import Generation, Testimony
from workers.witness import Witness

#: Files of one call to the ledger, and how many are proven at a time.
_BATCH, _THREADS = 200, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a rebuild works with; nothing is written where it is a `dry_run`."""

    ledger: Ledger
    store: ObjectStore
    layout: Layout
    settings: Settings
    proof: Proof
    holder: int
    act: Act
    dry_run: bool


def rebuild_run(site: Site, report: Rebuilt) -> None:
    """Put the run of a report on record, and fill the report in.

    Raises: StoreError, MalformedMessage, LedgerUnavailable; what was done until then stays.
    """
    witness = Witness(site.store, site.proof, site.settings, report.run)
    try:
        with TemporaryDirectory(prefix="labferry-") as folder, ThreadPoolExecutor(_THREADS) as pool:
            _Run(site, report, witness, pool, Path(folder)).rebuild()
    finally:
        witness.close()


class _Run:
    def __init__(
        self,
        site: Site,
        report: Rebuilt,
        witness: Witness,
        pool: ThreadPoolExecutor,
        folder: Path,
    ) -> None:
        run = report.run
        self.report = report
        self._site = site
        self._ledger = site.ledger
        self._run = run
        self._witness = witness
        self._pool = pool
        self._folder = folder
        self._testimony = Testimony(site.store, site.layout, run)
        self._adoption = Adoption(site.ledger, run, site.settings.store.lane, site.holder)

    def rebuild(self) -> None:
        facts = self._ledger.find_facts(self._run)
        if facts is not None and facts.archive is not None:
            self.report.known += facts.archive.files
            return
        generations = self._testimony.generations()
        with (self._folder / "named").open("w+b") as named:
            for generation in generations:
                self._generation(generation, named, is_newest=generation is generations[-1])
            self._letters()
            named.seek(0)
            self._beyond(sorted_lines(named, self._folder, "named"))
        if self.report.changed and not self._site.dry_run:
            words = f"{self.report.verified} files, {self.report.letters} dead letters"
            self._ledger.record_act(self._run, replace(self._site.act, selector=words))

    # -- what manifests and markers say

    def _generation(self, generation: Generation, named: BinaryIO, *, is_newest: bool) -> None:
        marker = generation.marker
        with (self._folder / "manifest").open("w+b") as manifest:
            self._testimony.fetch(generation, manifest)
            lines = self._testimony.lines(manifest)
            while batch := list(islice(lines, _BATCH)):
                entries = [one for one in batch if not isinstance(one, LeftOut)]
                named.writelines(f"{entry.key}\n".encode() for entry, _ in entries)
                self._take_over(entries)
                left_out = [one for one in batch if isinstance(one, LeftOut)]
                if is_newest and (closed := _closed(marker)):
                    self._give_up(left_out, closed)
        if marker.generation in self._ledger.markers(self._run):
            return
        self.report.generations.append(marker.generation)
        if not self._site.dry_run:
            self._close(marker)
            completion = completion_of(marker, generation.key, self._site.store.bucket)
            self._ledger.complete(self._run, completion)

    def _close(self, marker: Marker) -> None:
        if marker.gap is None or marker.gap.files:  # else it was not known to be whole
            self._ledger.seal(self._run, (), 0)
        if closed := _closed(marker):
            self._ledger.close(self._run, closed)

    def _take_over(self, entries: Sequence[tuple[Entry, int]]) -> None:
        wanted = [(entry.path, number) for entry, number in entries]
        unknown = [entries[place] for place in self._open(wanted)]
        found = self._pool.map(self._witness.named, (entry for entry, _ in unknown))
        proven, lost = list[Proven](), list[Lost]()
        for (entry, number), evidence in zip(unknown, found, strict=True):
            seen = self._seen(entry)
            if not isinstance(evidence, str):
                proven.append(Proven(entry.path, number, seen, evidence))
            elif evidence in (OBJECT_MISSING, OBJECT_REPLACED):
                lost.append(Lost(entry.path, seen, evidence, entry.key))
            else:
                self.report.unproven.add([f"{entry.path}: {evidence}"])
        self._verify(proven)
        self.report.lost.add(one.path for one in lost)
        if lost and not self._site.dry_run:
            self._adoption.lose(lost)

    def _open(self, wanted: Sequence[tuple[str, int]]) -> list[int]:
        """Return the places of what the ledger does not know, and count the rest."""
        places = []
        for place, standing in enumerate(self._adoption.standings(wanted)):
            path, number = wanted[place]
            if standing is Standing.KNOWN:
                self.report.known += 1
            # A dry run leaves earlier editions off the record, too.
            elif standing is Standing.OPEN or self._site.dry_run:
                places.append(place)
            else:
                why = "the edition before it is not on record"
                self.report.unproven.add([f"{path} ({number}): {why}"])
        return places

    def _seen(self, entry: Entry) -> Fingerprint:
        """Return what the source shows, where it is the file that was sent."""
        seen = self._witness.look(entry.path)
        if seen is not None and seen[:2] == (entry.size, entry.mtime_ns):
            return seen
        return Fingerprint(entry.size, entry.mtime_ns, 0, 0)

    def _verify(self, proven: Sequence[Proven]) -> None:
        taken = self._adoption.verify(proven) if proven and not self._site.dry_run else []
        self.report.verified += len(proven) - len(taken)
        self.report.unproven.add(f"{path}: somebody took it meanwhile" for path in taken)

    def _give_up(self, left_out: Sequence[LeftOut], closed: Act) -> None:
        """Discard what the run was closed without, with what is told of it."""
        for left in left_out:
            file = self._run.file(left.path)
            if self._ledger.find_record(file) is not None:
                continue
            self.report.given_up += 1
            if self._site.dry_run:
                continue
            letter = self._testimony.find_letter(file)
            if letter is None or not self._adoption.recall(_before_its_end(letter)):
                seen = self._witness.look(left.path) or Fingerprint(left.size, 0, 0, 0)
                self._ledger.discover(self._run, [(left.path, seen)])
            self._discard(left.path, _end_of(letter), closed, left.was)

    def _discard(self, path: str, told: Note | None, act: Act, was: str = "") -> None:
        event = told.event if told else Event.CLOSE
        if told is not None:
            said = "as its document says"
            act = Act(actor=told.worker, reason=told.message, what=event, selector=said)
        note = Note(
            event=event,
            kind="operator",
            code=act.what,
            message=act.reason,
            worker=act.actor,
            decision=was,
        )
        self._ledger.act(self._run, event, [Step(path=path, note=note)], act)

    # -- what documents of dead letters say

    def _letters(self) -> None:
        for letter in self._testimony.letters(self._pool):
            if isinstance(letter, str):
                self.report.strange.add([letter])
            elif letter.record.state is not State.ELIGIBLE:  # not sent in again since
                self._letter(letter)

    def _letter(self, letter: DeadLetter) -> None:
        end = _end_of(letter)
        if self._site.dry_run:
            is_new = self._ledger.find_record(letter.file) is None
        else:
            is_new = self._adoption.recall(_before_its_end(letter))
            if is_new and end is not None:
                self._discard(letter.file.path, end, self._site.act)
        self.report.letters += is_new and end is None
        self.report.given_up += is_new and end is not None

    # -- what the bucket holds beyond

    def _beyond(self, named: Iterator[bytes]) -> None:
        """Take over objects that no manifest names, if their sources are the same."""
        listed = sorted_lines(self._listed(), self._folder, "listed")
        beyond = _missing_in(named, listed)
        while batch := list(islice(beyond, _BATCH)):
            keys = [line.decode().removesuffix("\n") for line in batch]
            found = [(key, self._site.layout.find_file(key)) for key in keys]
            self.report.unproven.add(f"{key}: no file of this run" for key, one in found if not one)
            files = [(key, *one) for key, one in found if one]
            open_ = self._open([(file.path, number) for _, file, number in files])
            self._match([files[place] for place in open_])

    def _match(self, files: Sequence[tuple[str, FileKey, int]]) -> None:
        if files and not self._witness.sees_source:
            self.report.is_source_seen = False
            return
        found = self._pool.map(lambda one: self._witness.matched(one[1], one[0]), files)
        proven = list[Proven]()
        for (_, file, number), match in zip(files, found, strict=True):
            if isinstance(match, str):
                self.report.unproven.add([f"{file.path}: {match}"])
            else:
                proven.append(Proven(file.path, number, *match))
        self._verify(proven)

    def _listed(self) -> Iterator[bytes]:
        for prefix in self._site.layout.object_prefixes(self._run):
            for one in self._site.store.list_objects(prefix):
                yield f"{one.key}\n".encode()


def _closed(marker: Marker) -> Act | None:
    """Return the act by which a generation was closed."""
    if marker.gap is None:
        return None
    said = "as its marker says"
    return Act(actor=marker.gap.actor, reason=marker.gap.reason, what="close", selector=said)


def _missing_in(known: Iterator[bytes], lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the sorted lines that are not among others, sorted too."""
    other = next(known, None)
    for line in lines:
        while other is not None and other < line:
            other = next(known, None)
        if other != line:
            yield line


def _end_of(letter: DeadLetter | None) -> Note | None:
    """Return the act by which a letter was given up."""
    if letter is None or letter.record.state is not State.DISCARDED:
        return None
    ends = [note for note in letter.acts if MOVE_OF[note.event].target is State.DISCARDED]
    return ends[-1] if ends else None


def _before_its_end(letter: DeadLetter) -> DeadLetter:
    end = _end_of(letter)
    return replace(letter, notes=tuple(note for note in letter.notes if note is not end))

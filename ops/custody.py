"""Is what was proven once still in the bucket? A look at a few objects of each run, paced.

Nothing is repaired: a loss is told of while the source may still be there. What a person released
is not looked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from labferry.alerts import custody_key, custody_text
from labferry.errors import MalformedMessage, StoreError
from labferry.identity import Layout, RunKey
from labferry.manifest import Entry, read_entry, read_header, read_left_out, split_lines
from labferry.ports import Clock, Ledger, ObjectStore
from labferry.stored import StoredObject
from ops.exits import Exit
from ops.patience import OverBudget, Patience


class Fault(StrEnum):
    """What is wrong with an object."""

    GONE = "gone"
    CHANGED = "another one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An object that is not as it was proven."""

    run: RunKey
    key: str
    fault: Fault


@dataclass(slots=True)
class Found:
    """What one pass came to; `unread` are runs that could not be looked at, each with why."""

    runs: int = 0
    objects: int = 0
    released: int = 0
    incidents: list[Incident] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> Exit:
        """How the command ends."""
        if self.incidents:
            return Exit.PARTIAL
        return Exit.UNAVAILABLE if self.unread else Exit.DONE

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry custody --json`."""
        return {
            "runs": self.runs,
            "objects": self.objects,
            "released_runs": self.released,
            "incidents": [
                {"run": str(one.run), "key": one.key, "fault": one.fault} for one in self.incidents
            ],
            "unread": self.unread,
        }


class Custody:
    """Looks at runs that have a marker; `sample` objects of each, 0 for all."""

    def __init__(  # noqa: PLR0913  what it is made of
        self,
        *,
        ledger: Ledger,
        store: ObjectStore,
        layout: Layout,
        clock: Clock,
        sample: int,
        per_second: float,
        budget_s: float,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._layout = layout
        self._clock = clock
        self._sample = sample
        self._pause_s = 1 / per_second
        self._patience = Patience(clock, budget_s)

    def look(self, runs: Sequence[RunKey]) -> Found:
        """Look at these runs, in an order of chance, until all are seen or the time is up."""
        found, released = Found(), self._ledger.out_of_custody()
        for run in sorted(runs, key=lambda _: self._clock.uniform()):
            if str(run) in released:
                found.released += 1
                continue
            try:
                self._look_at(run, found)
            except OverBudget as error:
                found.unread.append(str(error))
                break
            except (StoreError, MalformedMessage) as error:
                found.unread.append(f"{run}: {error}")
        return found

    def _look_at(self, run: RunKey, found: Found) -> None:
        generations = sorted(self._ledger.markers(run))
        if not generations:
            return
        found.runs += 1
        for number in generations:
            keys = self._layout.marker(run, number), self._layout.incomplete_marker(run, number)
            if not any(self._find(key) for key in keys):
                self._tell(found, Incident(run=run, key=keys[0], fault=Fault.GONE))
            self._look_at_files(run, number, found)

    def _look_at_files(self, run: RunKey, number: int, found: Found) -> None:
        manifest = self._layout.manifest(run, number)
        try:
            chosen = self._patience.persist(lambda: self._chosen(manifest))
        except StoreError as error:
            if not error.is_absence:
                raise
            self._tell(found, Incident(run=run, key=manifest, fault=Fault.GONE))
            return
        for entry in chosen:
            found.objects += 1
            if fault := self._fault(entry):
                self._tell(found, Incident(run=run, key=entry.key, fault=fault))

    def _chosen(self, manifest: str) -> list[Entry]:
        """Return some of a manifest's files, each with the same chance."""
        chosen: list[Entry] = []
        for number, entry in enumerate(self._entries(manifest), start=1):
            if not self._sample or len(chosen) < self._sample:
                chosen.append(entry)
            elif (place := int(self._clock.uniform() * number)) < self._sample:
                chosen[place] = entry
        return chosen

    def _entries(self, manifest: str) -> Iterator[Entry]:
        lines = split_lines(self._patience.in_time(self._store.read(manifest)))
        read_header(next(lines, b""))
        for line in lines:
            if not read_left_out(line):
                yield read_entry(line)

    def _find(self, key: str) -> StoredObject | None:
        self._clock.sleep_s(self._pause_s)
        return self._patience.persist(lambda: self._store.find_object(key))

    def _fault(self, entry: Entry) -> Fault | None:
        found = self._find(entry.key)
        if found is None:
            return Fault.GONE
        crc64 = f"{found.crc64:016x}" if found.crc64 is not None else entry.crc64nvme
        is_same = (found.size, found.etag, crc64) == (entry.size, entry.etag, entry.crc64nvme)
        return None if is_same else Fault.CHANGED

    def _tell(self, found: Found, incident: Incident) -> None:
        """Note an incident, and let a person know of it, once."""
        found.incidents.append(incident)
        text = custody_text(incident.run, incident.key, incident.fault)
        self._ledger.alert(custody_key(incident.run, incident.key, incident.fault), text, 0)

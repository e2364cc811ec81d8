"""Does a laboratory keep its promises, whatever it has been through? DESIGN section 1 as code.

`Promises` remembers what it saw and demands, at each look, that nothing went back that must not.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from labferry.audit import find_fault, read_line
from labferry.editions import object_key
from labferry.manifest import read_entry, read_left_out, read_marker, split_lines
from labferry.records import FileRecord, Note, RunFacts
from labferry.s3.checksum import crc64nvme
from labferry.states import AT_REST, LEASED, State
from tests.ledger_indexes import Indexes
from tests.model_lab import RUN, Lab

PARKED = {State.FAILED, State.HELD}


@dataclass
class Promises:
    """What was seen of one laboratory at the last look."""

    records: dict[str, FileRecord] = field(default_factory=dict)
    history: dict[str, list[Note]] = field(default_factory=dict)
    audit: list[str] = field(default_factory=list)
    markers: set[int] = field(default_factory=set)
    objects: dict[str, bytes] = field(default_factory=dict)
    #: Objects that were taken out of the bucket behind labferry's back.
    stolen: set[str] = field(default_factory=set)

    def demand(self, lab: Lab, indexes: Indexes) -> None:
        """Demand all promises, and remember what was seen."""
        facts = lab.ledger.find_facts(RUN)
        if facts is None:
            return
        records = dict(lab.ledger.records(RUN))
        self._each_file_has_one_mover(records, indexes)
        self._nothing_goes_back(lab, records)
        self._dead_letters_stay(lab, records)
        self._verified_is_proven(lab, records)
        self._nothing_is_written_over(lab)
        self._markers_are_of_whole_runs(lab, records, facts)

    def _each_file_has_one_mover(self, records: dict[str, FileRecord], has: Indexes) -> None:
        """1, 2: one state, one thing that moves it next, one lease at most; indexes agree."""
        in_state = {
            state: {path for path, one in records.items() if one.state is state} for state in State
        }
        assert has.leases == set[str]().union(*(in_state[one] for one in LEASED))
        assert has.due == set[str]().union(*(in_state[one] for one in PARKED))
        assert has.dead == in_state[State.QUARANTINED]
        assert has.bundles == has.sent
        waiting = Counter(has.ready) + Counter(has.carried)
        forgotten = [path for path in in_state[State.ELIGIBLE] if not waiting[path]]
        assert not forgotten, f"no message will move {forgotten}"

    def _nothing_goes_back(self, lab: Lab, records: dict[str, FileRecord]) -> None:
        """1, 7: no record, no token, no series, no line of a history or an audit goes back."""
        for path, before in self.records.items():
            assert path in records, f"{path} was forgotten"
            assert records[path].token >= before.token, path
            assert records[path].series >= before.series, path
            kept = lab.ledger.history(RUN.file(path))
            assert kept[: len(self.history[path])] == self.history[path], path
        self.history = {path: lab.ledger.history(RUN.file(path)) for path in records}
        audit = list(lab.ledger.audit(RUN))
        assert find_fault(audit, lab.ledger.audit_head(RUN)) is None
        assert audit[: len(self.audit)] == self.audit

    def _dead_letters_stay(self, lab: Lab, records: dict[str, FileRecord]) -> None:
        """7: what left quarantine did so by an act on record; what was given up, too."""
        audit = list(lab.ledger.audit(RUN))
        acted = {
            change["path"] for line in audit[len(self.audit) :] for change in read_line(line).files
        }
        for path, before in self.records.items():
            left = before.state is State.QUARANTINED and records[path].state is not before.state
            given_up = (
                records[path].state is State.DISCARDED and before.state is not State.DISCARDED
            )
            assert not (left or given_up) or path in acted, f"{path} is gone and nobody did it"
        self.audit, self.records = audit, records

    def _verified_is_proven(self, lab: Lab, records: dict[str, FileRecord]) -> None:
        """3: the object is there with the bytes that the evidence is of."""
        for path, record in records.items():
            assert (record.state is State.VERIFIED) <= (record.evidence is not None), path
            if record.state is State.VERIFIED and record.evidence:
                key = object_key(lab.ledger, lab.layout, RUN.file(path), record)
                if key in self.stolen:
                    continue
                assert crc64nvme(lab.store.objects[key].body) == record.evidence.crc64, path
                assert len(lab.store.objects[key].body) == record.fingerprint.size, path

    def _nothing_is_written_over(self, lab: Lab) -> None:
        """4: no object but labferry's own documents ever changes or goes."""
        assert lab.store.overwritten == []
        kept = {
            key: stored.body
            for key, stored in lab.store.objects.items()
            if not key.startswith("quarantine/")
        }
        for key, body in self.objects.items():
            assert kept.get(key) == body or key in self.stolen, key
        self.objects = kept
        self.stolen -= set(kept)

    def _markers_are_of_whole_runs(
        self, lab: Lab, records: dict[str, FileRecord], facts: RunFacts
    ) -> None:
        """5: a marker is emitted once a generation, after all that it names is there."""
        markers = lab.ledger.markers(RUN)
        assert self.markers <= markers
        assert facts.completed == max(markers, default=0)
        told = [json.loads(line) for line in lab.ledger.told(RUN)]
        assert sum("generation" in event for event in told) == len(markers)
        for generation in markers - self.markers:
            self._marker_is_true(lab, records, generation)
        self.markers = markers

    def _marker_is_true(self, lab: Lab, records: dict[str, FileRecord], generation: int) -> None:
        whole, lacking = (
            lab.layout.marker(RUN, generation),
            lab.layout.incomplete_marker(RUN, generation),
        )
        (key,) = [one for one in (whole, lacking) if one in lab.store.objects]
        marker = read_marker(lab.store.objects[key].body)
        named = set[str]()
        for number in range(1, generation + 1):
            body = lab.store.objects[lab.layout.manifest(RUN, number)].body
            _, *lines = split_lines([body])
            entries = [read_entry(line) for line in lines if not read_left_out(line)]
            left_out = {one.path for line in lines if (one := read_left_out(line))}
            named = (named | {entry.path for entry in entries}) - left_out
            for entry in entries:
                stored = lab.store.objects.get(entry.key)
                assert stored or entry.key in self.stolen, entry.key
                if stored:
                    assert f"{crc64nvme(stored.body):016x}" == entry.crc64nvme
        assert marker.total_files == len(named)
        partial = {path for path, one in records.items() if not _is_settled(one)} & named
        assert key == lacking or not partial, f"the marker names {partial}"


def _is_settled(record: FileRecord) -> bool:
    return record.state in {State.VERIFIED, State.SKIPPED}


def left_over(lab: Lab) -> dict[str, Any]:
    """Return what of a run is not at its end; nothing but dead letters may wait for a person."""
    facts = lab.ledger.find_facts(RUN)
    assert facts is not None
    records = dict(lab.ledger.records(RUN))
    found = {
        "moving": {path: one.state for path, one in records.items() if one.state not in AT_REST},
        "dead": lab.dead(),
        "uploads": sorted(upload.key for upload in lab.store.uploads.values()),
        "unmarked": not facts.is_over,
        "untold": facts.reasons_due,
    }
    return {what: one for what, one in found.items() if one}

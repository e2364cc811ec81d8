"""May the source of a run be deleted? Every file proven and unchanged, or the reasons why not.

Looked at anew whenever it is asked: the ledger, the bucket, and the source, file by file. labferry
itself never deletes. Streamed: what does not fit in memory is sorted on disk.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from labferry.compaction import Records
from labferry.completion import RunState, run_state
from labferry.dead_letter import iso
from labferry.editions import edition_after
from labferry.identity import Layout, RunKey
from labferry.inventory import sorted_lines
from labferry.ports import Ledger, ObjectStore
from labferry.profiles import Profile
from labferry.records import FileRecord, Fingerprint, RunFacts
from labferry.source.claims import RunReader
from labferry.source.scan import Batch, LeftOut, scan
from labferry.source.share import run_path
from labferry.states import State
from ops.shown import counted
from ops.source_checksum import source_checksum
from ops.verify_report import Basis, Report, Verdict

#: Read of a source at a time.
#: Reasons of one kind that are named; all are counted.
_NAMED = 10
_AT_REST = frozenset({State.VERIFIED, State.SKIPPED})


@dataclass(slots=True)
class Judgement:
    """What was found: nothing speaks against it, or `reasons` do, by what is wrong."""

    run: RunKey
    reasons: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    files: int = 0
    size: int = 0
    left_out: int = 0
    gone: int = 0

    def against(self, why: str, name: str = "") -> None:
        """Note what speaks against it."""
        self.counts[why] = self.counts.get(why, 0) + 1
        named = self.reasons.setdefault(why, [])
        if name and len(named) < _NAMED:
            named.append(name)

    @property
    def is_safe(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry safe-to-delete --json` where it is refused."""
        return {
            "run": str(self.run),
            "verdict": "safe" if self.is_safe else "refused",
            "reasons": [
                {"why": why, "count": self.counts[why], "first": named}
                for why, named in self.reasons.items()
            ],
        }


class Examiner:
    """Compares the records of a run with its source."""

    def __init__(self, *, ledger: Ledger, store: ObjectStore, layout: Layout) -> None:
        self._ledger = ledger
        self._store = store
        self._layout = layout

    def examine(self, facts: RunFacts, report: Report) -> Judgement:
        """Return what the ledger's state of the run, and the bucket, have against it."""
        judgement = Judgement(run=facts.run)
        state = run_state(facts)
        if state is not RunState.COMPLETE:
            judgement.against(f"the run is {state}, not complete")
        if word := self._ledger.out_of_custody().get(str(facts.run)):
            judgement.against(f"its objects may go, says {word.actor}: {word.reason}")
        if facts.hold:
            judgement.against(f"it is held by {facts.hold.actor}: {facts.hold.reason}")
        for one, count in facts.counts.items():
            if count and one not in _AT_REST and facts.archive is None:
                judgement.against(f"{counted(count)} of it: {one}")
        if report.verdict is not Verdict.COMPLETE:
            judgement.against(f"the bucket is {report.verdict}: {report.why}")
        elif report.basis is not Basis.MARKER:
            judgement.against("no completion marker vouches for the manifest")
        return judgement

    def compare(
        self, facts: RunFacts, root: Path, profile: Profile, folder: Path, out: TextIO
    ) -> Judgement:
        """Look at every file at the source; write a JSON line for each of the run's files.

        Raises: StoreError, LedgerUnavailable, MalformedMessage.
        """
        run, judgement = facts.run, Judgement(run=facts.run)
        source = run_path(root, run)
        reader = RunReader(source)
        batches = scan(source, run, profile, self._layout)
        lines = sorted_lines(
            _both(self._recorded(facts), _seen(batches, judgement)), folder, "both"
        )
        try:
            for path, of_path in groupby(lines, key=lambda line: line.partition(b"\0")[0]):
                sides = {
                    name: json.loads(text)
                    for _, name, text in (one.split(b"\0") for one in of_path)
                }
                for fields in _judged(path.decode(), sides, judgement, reader):
                    out.write(json.dumps(fields) + "\n")
        finally:
            reader.close()
        if not judgement.files:
            judgement.against("there is no file on record")
        return judgement

    def _recorded(self, facts: RunFacts) -> Iterator[tuple[str, dict[str, Any]]]:
        for path, record, key in self._records(facts):
            if record.state is State.VERIFIED and record.evidence:
                yield path, _proof(record, key)
            else:
                yield path, {"state": record.state}

    def _records(self, facts: RunFacts) -> Iterator[tuple[str, FileRecord, str]]:
        records = Records(ledger=self._ledger, store=self._store, layout=self._layout)
        for one in records.files(facts):
            key = ""
            if one.record.state is State.VERIFIED:
                file = facts.run.file(one.path)
                key = self._layout.edition(file, edition_after(one.history))
            yield one.path, one.record, key


def _proof(record: FileRecord, key: str) -> dict[str, Any]:
    assert record.evidence is not None  # noqa: S101  asked before
    return {
        "state": record.state,
        "key": key,
        "fingerprint": list(record.fingerprint),
        "crc64nvme": f"{record.evidence.crc64:016x}",
        "etag": record.evidence.etag,
        "version_id": record.evidence.version_id,
        "evidence": record.evidence.level,
        "verified_at": iso(record.verified_ms),
        "unchanged_since": iso(record.settled_ms),
    }


def _crc64(reader: RunReader, path: str) -> str:
    """Return the checksum of what is at the source now, '' where it cannot be read."""
    try:
        _, crc64 = source_checksum(reader, path)
    except OSError:
        return ""
    return f"{crc64:016x}"


def _both(
    recorded: Iterator[tuple[str, dict[str, Any]]], seen: Iterator[tuple[str, dict[str, Any]]]
) -> Iterator[bytes]:
    """Yield `path NUL side NUL JSON` of both sides."""
    for side, found in (("record", recorded), ("source", seen)):
        for path, fields in found:
            yield f"{path}\0{side}\0{json.dumps(fields, sort_keys=True)}\n".encode()


def _seen(batches: Iterator[Batch], judgement: Judgement) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is at the source; what cannot be looked at speaks against it."""
    for batch in batches:
        for unreadable in batch.unreadable:
            judgement.against(
                f"the source cannot be read ({unreadable.errno_name})", unreadable.path
            )
        for path in batch.temporary:
            judgement.against("a name at the source is a temporary one", path)
        for path in batch.vanished:
            judgement.against("something vanished at the source while it was looked at", path)
        for path, fingerprint in batch.files:
            yield path, {"fingerprint": list(fingerprint)}
        yield from _left_out(batch.left_out, judgement)


def _left_out(entries: list[LeftOut], judgement: Judgement) -> Iterator[tuple[str, dict[str, Any]]]:
    for left in entries:
        if left.code == "apart":
            judgement.against("a folder in it is a run of its own", left.path)
        elif left.refused:
            judgement.against(f"not in the bucket, and may be data: {left.message}", left.path)
        else:
            yield left.path, {"left_out": left.code, "fingerprint": list(left.fingerprint)}


def _judged(
    path: str, sides: Mapping[bytes, dict[str, Any]], judgement: Judgement, reader: RunReader
) -> Iterator[dict[str, object]]:
    """Yield the line of a file, and note what speaks against it."""
    record, source = sides.get(b"record"), sides.get(b"source")
    if record is None or record["state"] != State.VERIFIED:
        if source and "left_out" in source:
            judgement.left_out += 1
            yield {"path": path, "left_out": source["left_out"]}
        elif source:
            judgement.against("a file at the source is not in the bucket", path)
        return
    was = Fingerprint(*record.pop("fingerprint"))
    now = Fingerprint(*source["fingerprint"]) if source else was
    if not was.same_file(now) or (
        # A change can put size and time back, not the ctime; but a link or chmod moves that too.
        now.ctime_ns != was.ctime_ns and _crc64(reader, path) != record["crc64nvme"]
    ):
        judgement.against("a file at the source changed since it was verified", path)
        return
    judgement.files += 1
    judgement.size += was.size
    judgement.gone += source is None
    record.pop("state")
    yield {
        "path": path,
        "size": was.size,
        "mtime_ns": was.mtime_ns,
        "source": "unchanged" if source else "gone",
        **record,
    }

"""What happened to this one file, where does it stand, and what moves it next?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labferry.archive_lines import ArchivedFile
from labferry.breakers import Breaker
from labferry.compaction import Records
from labferry.completion import run_state
from labferry.editions import edition_after, object_key
from labferry.errors import BadName, NotFound
from labferry.failures import Scope
from labferry.identity import FileKey, Layout
from labferry.ports import Ledger
from labferry.records import FileRecord, Note, RunFacts, Upload
from labferry.s3.store import open_store
from labferry.settings import Settings
from labferry.states import AT_REST, LEASED, State
from ops.naming import first_found
from ops.overview import find_run
from ops.shown import instant
from ops.troubles import breaker_json, breakers_before

#: What moves a file on from each state; `{when}` is its due time where the ledger knows one.
_NEXT = {
    State.DISCOVERED: "the agent: it settles once it did not change for the settle window",
    State.ELIGIBLE: "a worker, when its message arrives; a lost message the sweep sends again",
    State.UPLOADING: "its worker, which renews the lease{when}; if that ends, the sweep retries",
    State.UPLOADED: "its worker, which proves what is stored{when}; else the sweep retries",
    State.VERIFIED: "nothing: it is proven at the destination",
    State.FAILED: "the sweep, which lets it be tried again{when}",
    State.HELD: "the sweep, which lets it be tried again{when}; no attempt was spent",
    State.QUARANTINED: "a person: see `labferry dead-letters show`, then requeue or discard",
    State.DISCARDED: "nothing: a person gave it up",
    State.SKIPPED: "nothing, unless a scan finds that it is to be moved after all",
}


#: States of a file that what is in everybody's way keeps from going on.
_STOPPED = frozenset({State.ELIGIBLE, State.FAILED, State.HELD, State.UPLOADING, State.UPLOADED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the ledger knows of a file; `due_ms` is None where no clock moves it."""

    file: FileKey
    record: FileRecord
    run: RunFacts
    object_key: str | None  # None where no key can hold the name
    due_ms: int | None
    worker: str
    upload: Upload | None
    history: tuple[Note, ...]
    in_the_way: tuple[Breaker, ...] = ()

    @property
    def next_step(self) -> str:
        """Return what moves the file next, and when."""
        step = _NEXT[self.record.state].format(when=self._when)
        # What one host lacks leaves the others free.
        for_all = [one for one in self.in_the_way if one.cause.scope is Scope.ENDPOINT]
        if for_all:
            step = f"{step}; not while {for_all[0].name} is in the way"
        hold = self.run.hold
        if hold is None or self.record.state in AT_REST:
            return step
        return f"whoever releases it: held by {hold.actor}, {hold.reason}; then {step}"

    @property
    def _when(self) -> str:
        if self.due_ms is None:
            return ""
        wait_s = (self.due_ms - self.run.now_ms) / 1000
        word = "until" if self.record.state in LEASED else "at"
        relation = f"in {wait_s:.0f} s" if wait_s > 0 else "any moment"
        return f" {word} {instant(self.due_ms)} ({relation})"

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry explain --json`."""
        record = self.record
        return {
            "file": str(self.file),
            "state": record.state,
            "next": self.next_step,
            "due_ms": self.due_ms,
            "object_key": self.object_key,
            "run_state": run_state(self.run),
            "archive": self.run.archive.key if self.run.archive else None,
            "source": record.fingerprint._asdict(),
            "discovered_ms": record.discovered_ms or None,
            "changed_ms": record.changed_ms or None,
            "settled_ms": record.settled_ms or None,
            "claimed_ms": record.claimed_ms or None,
            "verified_ms": record.verified_ms or None,
            "failed_attempts": record.attempt,
            "workers_lost": record.lost,
            "source_changes": record.rounds,
            "replays": record.series,
            "token": record.token,
            "worker": self.worker or None,
            "evidence": evidence_json(record),
            "upload": _upload_json(self.upload),
            "breakers": [breaker_json(one) for one in self.in_the_way],
            "history": [_note_json(note) for note in self.history],
        }


def explain_key(settings: Settings, ledger: Ledger, key: str) -> Explanation:
    """Return what is known of the file a person named, by whichever of its names.

    Raises: NotFound, SettingsError, LedgerUnavailable, StoreError.
    """
    layout = Layout(settings.store.prefix)

    def open_records() -> Records:
        return Records(ledger=ledger, store=open_store(settings.store), layout=layout)

    roots = {name: one.root for name, one in settings.instruments.items()}
    return first_found(key, layout, roots, lambda file: explain(ledger, layout, file, open_records))


def explain(
    ledger: Ledger, layout: Layout, file: FileKey, open_records: Callable[[], Records]
) -> Explanation:
    """Return what is known of a file; the records of a run that is over may be in the bucket.

    Raises: NotFound, StoreError.
    """
    run = find_run(ledger, file.run)
    if run.archive is not None:
        return _explain_archived(layout, file, run, open_records().get(file, run.archive))
    record = ledger.find_record(file)
    if record is None:
        raise NotFound(
            what=f"the file {file}",
            step="A scan records it; KEY is INSTRUMENT/RUN/PATH, the path as below the run folder.",
        )
    return Explanation(
        file=file,
        record=record,
        run=run,
        object_key=_object_key(ledger, layout, file, record),
        due_ms=ledger.find_due(file),
        worker=ledger.worker_name(record.holder) if record.holder else "",
        upload=ledger.find_upload(file),
        history=tuple(ledger.history(file)),
        in_the_way=_in_the_way(ledger, file, record),
    )


def _explain_archived(
    layout: Layout, file: FileKey, run: RunFacts, found: ArchivedFile
) -> Explanation:
    try:
        key = layout.edition(file, edition_after(found.history))
    except BadName:
        key = None
    return Explanation(
        file=file,
        record=found.record,
        run=run,
        object_key=key,
        due_ms=None,
        worker="",
        upload=None,
        history=found.history,
    )


def _in_the_way(ledger: Ledger, file: FileKey, record: FileRecord) -> tuple[Breaker, ...]:
    if record.state not in _STOPPED:
        return ()
    return breakers_before(ledger.conditions(), file.run.instrument)


def _object_key(ledger: Ledger, layout: Layout, file: FileKey, record: FileRecord) -> str | None:
    try:
        return object_key(ledger, layout, file, record)
    except BadName:
        return None


def _note_json(note: Note) -> dict[str, Any]:
    return {name: getattr(note, name) for name in note.__slots__}


def evidence_json(record: FileRecord) -> dict[str, object] | None:
    """Return the proof of a file, if there is one."""
    if record.evidence is None:
        return None
    shown: dict[str, object] = {
        "level": record.evidence.level,
        "crc64nvme": f"{record.evidence.crc64:016x}",
        "etag": record.evidence.etag,
    }
    if record.evidence.version_id:
        shown["version_id"] = record.evidence.version_id
    return shown


def _upload_json(upload: Upload | None) -> dict[str, object] | None:
    if upload is None:
        return None
    return {
        "upload_id": upload.upload_id,
        "part_size": upload.part_size,
        "parts_acknowledged": parts_done(upload),
    }


def parts_done(upload: Upload) -> int:
    """Return how many parts the server acknowledged."""
    return sum(1 for part in upload.parts.values() if part.etag)

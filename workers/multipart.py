"""How does a large file become an object, so that no crash and no lost answer spoils it?

The plan is frozen and on record before the server hears of it, its upload id before the first part,
each part's checksum before the part. Complete is decided by HEAD alone; while its outcome is open,
nothing is aborted and nothing is asked for again. Source: research on S3 servers, where this order
was tried with 177 injected crashes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from labferry.concurrency import Concurrency
from labferry.errors import (
    Fenced,
    SidecarMismatch,
    SourceChanged,
    SourceRefused,
    SourceVanished,
    StoreError,
)
from labferry.failures import DIGESTS, Kind, classify
from labferry.ports import Clock, Ledger, ObjectStore
from labferry.records import Evidence, Part, Upload
from labferry.s3.checksum import combine
from labferry.settings import Settings
from labferry.stored import StoredObject
from workers.attempt import Attempt, Damage, Undone
from workers.crew import ByteGate
from workers.evidence import Content, Prover
from workers.parts import PartSender, Room
from workers.plan import Plan
from workers.source import RunFolder, SourceFile

#: Uploads, and within one of them Completes, that one attempt at a file may use up.
_ROUNDS = 2
_COMPLETES = 2
#: Waits between two looks for the object of a Complete without an answer.
_FIRST_LOOK_S, _LATER_LOOK_S = 0.5, 30.0
#: The object is awaited for as long again as the answer was.
_PATIENCE = 2
#: The upload is of no use any more, if the object is not there.
_GONE = ("NoSuchUpload", "ConditionalRequestConflict")


class _Again(Exception):
    """This upload cannot become the object: go on with the plan, or a new one."""

    def __init__(self, error: StoreError) -> None:
        self.error = error
        super().__init__(str(error))


@dataclass(frozen=True, slots=True)
class Multipart:
    """Sends large files of one run, one at a time."""

    ledger: Ledger
    store: ObjectStore
    clock: Clock
    settings: Settings
    folder: RunFolder
    prover: Prover
    concurrency: Concurrency
    gate: ByteGate
    pace: float

    def send(self, attempt: Attempt) -> Evidence:
        """Store and prove one file.

        Raises: SourceError, StoreError, Undone, ObjectConflict, ChecksumMismatch, WeakEvidence,
        Fenced, Stopping, LedgerUnavailable.
        """
        self.prover.demand(attempt.key, in_parts=True)
        plan = Plan(self.ledger, self.store, attempt)
        return _LargeFile(self, attempt, plan).send()


class _LargeFile:
    """One attempt at one large file."""

    def __init__(self, ports: Multipart, attempt: Attempt, plan: Plan) -> None:
        self._ports = ports
        self._store = ports.store
        self._attempt = attempt
        self._plan = plan

    def send(self) -> Evidence:
        claim = self._attempt.claim
        self._attempt.lease.check()
        upload = self._plan.load()
        found = self._look()
        if found is None and upload is not None and upload.complete_sent_ms:
            found = self._await_object(upload)
        try:
            with self._ports.folder.open(claim.path, claim.record.fingerprint) as source:
                return self._compare(found, source) if found else self._carry_out(source)
        except (SourceChanged, SourceVanished, SourceRefused, SidecarMismatch):
            self._plan.discard()
            raise
        except Fenced:
            self._plan.leave()
            raise

    def _carry_out(self, source: SourceFile) -> Evidence:
        damage, left = Damage(), _ROUNDS
        while True:
            try:
                return self._round(source)
            except _Again as again:
                left -= 1
                if damage.is_first(again.error):
                    left = max(left, 1)
                elif left == 0:
                    raise Undone(again.error) from again.error

    def _round(self, source: SourceFile) -> Evidence:
        upload = self._plan.ready(self._ports.settings.store)
        try:
            parts = self._send_parts(upload, source)
        except StoreError as error:
            if error.code != "NoSuchUpload":
                raise
            return self._after_loss(source, error)
        source.confirm()
        return self._complete(parts, source)

    def _send_parts(self, upload: Upload, source: SourceFile) -> dict[int, Part]:
        done = self._plan.acknowledged()
        count = -(-source.size // upload.part_size)
        ports = self._ports
        room = Room(ports.concurrency, ports.gate, upload.part_size, ports.pace)
        sender = PartSender(
            ports.ledger, self._store, ports.clock, self._attempt, source, upload, room
        )
        sender.send(number for number in range(1, count + 1) if number not in done)
        return done | sender.sent

    def _complete(self, parts: dict[int, Part], source: SourceFile) -> Evidence:
        crc64 = _whole_checksum(parts)
        for _ in range(_COMPLETES):
            self._attempt.lease.check()
            if not self._ports.prover.completes_only and (found := self._look()):
                return self._compare(found, source, crc64)
            upload = self._plan.mark_complete(self._ports.ledger.now_ms())
            error = self._ask(upload, parts, crc64)
            found = self._look()
            if found is None and _is_refusal(error):
                self._refused(error)
            if found is None:
                found = self._await_object(upload)
            if found is not None:
                return self._compare(found, source, crc64)
            if not self._plan.is_open():
                return self._after_loss(source, error)
        raise Undone(error)

    def _ask(self, upload: Upload, parts: dict[int, Part], crc64: int) -> StoreError:
        """Send Complete; return why its object might not be there."""
        key = self._attempt.key
        try:
            self._store.complete_upload(key, upload.upload_id, parts, crc64)
        except StoreError as error:
            return error
        code = "CompleteWithoutObject"
        return StoreError(operation="CompleteMultipartUpload", key=key, code=code, status=200)

    def _refused(self, error: StoreError) -> None:
        """Raise what follows from a Complete that the server clearly refused."""
        self._plan.mark_complete(0)
        if error.code == "NoSuchUpload":
            self._plan.forget()
        elif error.code in DIGESTS or error.code == "ConditionalRequestConflict":
            self._plan.discard()
        elif error.code == "InvalidPart":
            self._plan.load()
        else:
            raise error
        raise _Again(error)

    def _after_loss(self, source: SourceFile, error: StoreError) -> Evidence:
        """Tell what became of an upload that the server does not know any more."""
        found = self._look()
        if found is not None:
            return self._compare(found, source)
        self._plan.forget()
        raise _Again(error)

    def _look(self) -> StoredObject | None:
        return self._store.find_object(self._attempt.key)

    def _await_object(self, upload: Upload) -> StoredObject | None:
        """Look until a Complete that was sent cannot be under way any more."""
        grace_s = self._ports.settings.store.complete_timeout_s * _PATIENCE
        end_ms = upload.complete_sent_ms + grace_s * 1000
        pause_s = _FIRST_LOOK_S
        while (left_s := (end_ms - self._ports.ledger.now_ms()) / 1000) > 0:
            self._ports.clock.sleep_s(min(pause_s, left_s))
            self._attempt.lease.check()
            if found := self._look():
                return found
            pause_s = min(pause_s * 2, _LATER_LOOK_S)
        return None

    def _compare(
        self, found: StoredObject, source: SourceFile, crc64: int | None = None
    ) -> Evidence:
        """Prove the object that is there, whoever made it."""
        upload = self._plan.upload
        is_ours = (
            upload is not None
            and self._plan.is_current()
            and found.attempt_token == upload.attempt_token
        )
        if upload is not None and is_ours:
            crc64 = _recorded_checksum(upload, source) if crc64 is None else crc64
            self._plan.end_strays()
        else:
            # Nothing of ours can become this object any more.
            self._plan.abort_all()
        if found.size != source.size:
            crc64 = 0  # the sizes decide
        elif crc64 is None:
            crc64 = source.checksum(self._attempt.lease.check)
        content = Content(source.size, crc64)
        return self._ports.prover.prove(found, content, self._attempt.lease, is_ours=is_ours)


def _whole_checksum(parts: Mapping[int, Part]) -> int:
    crc64 = 0
    for _, part in sorted(parts.items()):
        crc64 = combine(crc64, part.crc64, part.size)
    return crc64


def _recorded_checksum(upload: Upload, source: SourceFile) -> int | None:
    """Return the checksum of a file whose every part was sent, or None."""
    if (
        not upload.complete_sent_ms
        or sum(part.size for part in upload.parts.values()) < source.size
    ):
        return None
    return _whole_checksum(upload.parts)


def _is_refusal(error: StoreError) -> bool:
    """Whether the answer to a Complete says clearly that it was not carried out."""
    if error.code in _GONE:
        return True
    return error.status is not None and classify(error).kind is not Kind.AMBIGUOUS

"""How well is it proven that an object holds the bytes that were read?

Levels are in docs/evidence.md. A checksum that the server shows proves something only where the
server was seen to refuse a wrong one: else it may be an echo of what it was told.
"""

import hashlib
from typing import NamedTuple, Protocol

from labferry.errors import ChecksumMismatch, ObjectConflict, WeakEvidence
from labferry.ports import ObjectStore
from labferry.records import Evidence, Level, Proof
from labferry.s3.checksum import crc64nvme, to_base64
from labferry.stored import StoredObject


class Content(NamedTuple):
    """What was read of a source file; `body` where it is in memory."""

    size: int
    crc64: int
    body: bytes | None = None


class Held(Protocol):
    """The right to work on a file, as far as a proof asks for it; workers.heartbeat has it."""

    def check(self) -> None:
        """Raise unless work on the file may go on."""
        ...

    def mark_stored(self) -> None:
        """Record that the object is there and not yet proven."""
        ...


class Prover:
    """What this endpoint can prove, and the proof of one object."""

    def __init__(self, store: ObjectStore, proof: Proof, minimum: Level) -> None:
        self._store = store
        self._proof = proof
        self._minimum = minimum
        self.put_proves = proof.put_proves
        #: Where these do not hold, the server is asked what is there just before.
        self.creates_only = proof.conditional_put
        self.completes_only = proof.conditional_complete

    def demand(self, key: str, *, in_parts: bool) -> None:
        """Refuse to send what could not be proven well enough. Raises: WeakEvidence."""
        self.accept(key, self._proof.reach(in_parts=in_parts))

    def prove(
        self, stored: StoredObject, content: Content, lease: Held, *, is_ours: bool
    ) -> Evidence:
        """Compare an object with what was read; `is_ours` when it bears our attempt token.

        Reads the object back where the server attests nothing. Raises: ObjectConflict,
        ChecksumMismatch, WeakEvidence, Fenced, Stopping, StoreError.
        """
        if stored.size != content.size:
            raise _difference(stored, f"{content.size} bytes", f"{stored.size} bytes", is_ours)
        if stored.crc64 not in (None, content.crc64):
            raise _crc_difference(stored, content.crc64, stored.crc64 or 0, is_ours)
        level = self._attested(stored, content) or Level.D
        if level > self._minimum and not is_ours:
            raise ObjectConflict(key=stored.key, why=f"it can be proven to level {level} alone")
        self.accept(stored.key, level)
        if level is Level.D:
            lease.mark_stored()
            found = self._read_back(stored, lease)
            if found != content.crc64:
                raise _crc_difference(stored, content.crc64, found, is_ours)
        return Evidence(
            level=level, crc64=content.crc64, etag=stored.etag, version_id=stored.version_id
        )

    def attests(self, stored: StoredObject) -> bool:
        """Whether the checksum that an object shows is what the server makes of its bytes."""
        proof = self._proof
        shows = proof.full_object if "-" in stored.etag else proof.attests_checksum
        return stored.crc64 is not None and shows and proof.refuses_wrong_checksum

    def _attested(self, stored: StoredObject, content: Content) -> Level | None:
        if self.attests(stored):
            return Level.A
        if content.body is not None and self._proof.content_md5 and "-" not in stored.etag:
            digest = hashlib.md5(content.body, usedforsecurity=False).hexdigest()
            return Level.C if stored.etag == digest else None
        return None

    def _read_back(self, stored: StoredObject, lease: Held) -> int:
        crc64 = 0
        for block in self._store.read(stored.key, stored.version_id):
            lease.check()
            crc64 = crc64nvme(block, crc64)
        return crc64

    def accept(self, key: str, level: Level) -> None:
        """Refuse what is not proven well enough. Raises: WeakEvidence."""
        if level > self._minimum:  # A is the strongest
            raise WeakEvidence(key=key, level=level, minimum=self._minimum)


def _crc_difference(
    stored: StoredObject, ours: int, theirs: int, is_ours: bool
) -> ChecksumMismatch | ObjectConflict:
    return _difference(stored, f"CRC64NVME {to_base64(ours)}", to_base64(theirs), is_ours)


def _difference(
    stored: StoredObject, ours: str, theirs: str, is_ours: bool
) -> ChecksumMismatch | ObjectConflict:
    if is_ours:
        return ChecksumMismatch(key=stored.key, ours=ours, theirs=theirs)
    return ObjectConflict(key=stored.key, why=f"it has {theirs}, the source {ours}")

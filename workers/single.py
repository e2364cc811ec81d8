"""How does a small file become an object? By one conditional Put from memory.

The file is read once, hashed, and sent with its hash; where the endpoint was proven, a clear
success is the end of it. Whatever else comes back is decided by HEAD, and an object that is there
is compared, never replaced.
"""

from labferry.errors import StoreError
from labferry.failures import Kind, classify
from labferry.ports import ObjectStore
from labferry.records import Evidence, Level
from labferry.s3.checksum import crc64nvme
from workers.attempt import Attempt, Damage, Undone
from workers.evidence import Content, Prover
from workers.source import RunFolder

_FORBIDDEN = 403


class SinglePut:
    """Sends small files of one run. Safe in threads."""

    def __init__(self, store: ObjectStore, folder: RunFolder, prover: Prover, nonce: str) -> None:
        """`nonce` makes the attempt tokens of this bundle unlike all others."""
        self._store = store
        self._folder = folder
        self._prover = prover
        self._nonce = nonce
        #: Whether a clear success of many Puts at a time needs no other request.
        self.flies = prover.put_proves and store.puts_many()

    def send(self, attempt: Attempt) -> Evidence:
        """Store and prove one file.

        Raises: SourceError, StoreError, Undone, ObjectConflict, ChecksumMismatch, WeakEvidence,
        Fenced, Stopping, LedgerUnavailable.
        """
        return self.prepare(attempt).send()

    def prepare(self, attempt: Attempt) -> "Put":
        """Read one file. Raises: SourceError, WeakEvidence, Fenced, Stopping."""
        claim = attempt.claim
        self._prover.demand(attempt.key, in_parts=False)
        with self._folder.open(claim.path, claim.record.fingerprint) as file:
            body = file.read()
            file.confirm()
        put = Put(self._store, self._prover, attempt, body, f"{self._nonce}-{claim.token}")
        attempt.lease.check()
        return put


class Put:
    """One Put and what is made of its outcome."""

    __slots__ = ("_damage", "_prover", "_store", "attempt", "attempt_token", "body", "crc64")

    def __init__(
        self, store: ObjectStore, prover: Prover, attempt: Attempt, body: bytes, token: str
    ) -> None:
        self._store = store
        self._prover = prover
        self.attempt = attempt
        self.body = body
        self.crc64 = crc64nvme(body)
        self.attempt_token = token
        self._damage: Damage | None = None

    @property
    def key(self) -> str:
        """The object's key."""
        return self.attempt.key

    def send(self) -> Evidence:
        """Put and prove."""
        # An endpoint that would overwrite is asked before.
        if not self._prover.creates_only and (evidence := self._find_evidence()):
            return evidence
        self.attempt.bytes_sent = len(self.body)
        try:
            etag = self._store.put_fast(self.key, self.body, self.attempt_token)
        except StoreError as error:
            return self.reconcile(error)
        return self.landed(etag)

    def landed(self, etag: str) -> Evidence:
        """Return the proof of a Put that ended well."""
        return self._counted(self._stored(etag, ""))

    def reconcile(self, error: StoreError) -> Evidence:
        """Find out what became of a Put that did not, and do what follows."""
        return self._counted(self._reconciled(error))

    def _counted(self, evidence: Evidence) -> Evidence:
        self.attempt.sent(len(self.body))
        return evidence

    def _stored(self, etag: str, version_id: str) -> Evidence:
        if self._prover.put_proves and etag:
            return Evidence(level=Level.A, crc64=self.crc64, etag=etag, version_id=version_id)
        code = "PutWithoutObject"
        return self._decide(StoreError(operation="PutObject", key=self.key, code=code, status=200))

    def _reconciled(self, error: StoreError) -> Evidence:
        self._is_first_damage(error)
        kind = classify(error).kind
        if kind in (Kind.ENVIRONMENT, Kind.THROTTLED):
            # Nothing is to be asked of the server now; the next attempt meets what this one left.
            raise error
        try:
            evidence = self._find_evidence()
        except StoreError as blind:
            # The refusal of a HEAD says nothing; what the Put was told says more.
            raise (error if blind.status == _FORBIDDEN else blind) from error
        return evidence or self._send_again()

    def _find_evidence(self) -> Evidence | None:
        """Return the proof that the object is there already, if it is there at all."""
        found = self._store.find_object(self.key)
        if found is None:
            return None
        is_ours = found.attempt_token == self.attempt_token
        content = Content(len(self.body), self.crc64, self.body)
        return self._prover.prove(found, content, self.attempt.lease, is_ours=is_ours)

    def _is_first_damage(self, error: StoreError) -> bool:
        self._damage = self._damage or Damage()
        return self._damage.is_first(error)

    def _send_again(self) -> Evidence:
        """Send the same bytes once more, by the other client."""
        self.attempt.lease.check()
        try:
            stored = self._store.put_absent(self.key, self.body, self.crc64, self.attempt_token)
        except StoreError as error:
            if self._is_first_damage(error):
                return self._send_again()
            if classify(error).kind is not Kind.AMBIGUOUS:
                raise
            return self._decide(error)
        return self._stored(stored.etag, stored.version_id)

    def _decide(self, error: StoreError) -> Evidence:
        evidence = self._find_evidence()
        if evidence is None:
            raise Undone(error) from error
        return evidence

"""What does an endpoint really do with a wrong checksum and with a second create?

A header that is accepted but not enforced is the dangerous case, and only wrong input on purpose
shows it. Every probe first does the right thing, so that a refusal of the wrong one means
something; scratch objects are removed again as far as that is allowed.

That If-None-Match is obeyed is seen one request after the other. Of requests at the same instant
SeaweedFS 4.48 lets exactly one Put win (6,304 races), but tells both of two Completes success and
keeps the later (1,788 of 3,152 races): for an upload, the lease and HEAD decide, not the answer.
"""

import base64
import contextlib
import hashlib
import secrets
from collections.abc import Callable
from typing import Protocol

from labferry.errors import StoreError
from labferry.failures import Kind, classify
from labferry.identity import Layout
from labferry.ports import Ledger, ObjectStore
from labferry.records import Part, Proof
from labferry.s3.checksum import crc64nvme

_BODY = b"labferry asks whether a wrong checksum is refused"
_CRC64 = crc64nvme(_BODY)
_WRONG = _CRC64 ^ 1
_ATTEMPT = "probe"
#: A proof is taken again after a day.
_KEEP_S = 86_400
_BAD_REQUEST, _CONFLICTS = 400, {409, 412}
_NOT_ABOUT_THE_REQUEST = (Kind.ENVIRONMENT, Kind.THROTTLED, Kind.TRANSIENT)


class Probed(ObjectStore, Protocol):
    """An object store that can also send a Content-MD5."""

    def put_with_md5(self, key: str, body: bytes, md5: str) -> str:
        """Create a scratch object with that Content-MD5 (base64); return its ETag."""
        ...


def prove(store: Probed, layout: Layout, *, now_ms: int) -> Proof:
    """Return what the endpoint was seen to do, at an instant of the ledger's clock.

    Raises: StoreError when the right requests fail too: nothing is proven then.
    """
    probe = _Probe(store, layout.probe(secrets.token_hex(8)))
    try:
        single = probe.single()
        multipart = probe.multipart()
        return Proof(
            refuses_wrong_checksum=single.refuses_wrong and multipart.refuses_wrong,
            attests_checksum=single.attests,
            full_object=multipart.attests and multipart.refuses_wrong_whole,
            conditional_put=single.conditional,
            conditional_complete=multipart.conditional,
            content_md5=probe.content_md5(),
            proven_ms=now_ms,
        )
    finally:
        probe.clean_up()


def proven(store: Probed, layout: Layout, ledger: Ledger) -> Proof:
    """Return what the endpoint was seen to do today; ask it when nobody has, and put it on record.

    Raises: StoreError, LedgerUnavailable.
    """
    proof = ledger.find_proof(store.endpoint)
    if proof is None:
        proof = prove(store, layout, now_ms=ledger.now_ms())
        ledger.save_proof(store.endpoint, proof, keep_s=_KEEP_S)
    return proof


class _Found:
    """What one kind of upload was seen to do."""

    refuses_wrong = refuses_wrong_whole = attests = conditional = False


class _Probe:
    """The scratch objects of one proof."""

    def __init__(self, store: Probed, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._keys: list[str] = []
        self._uploads: list[tuple[str, str]] = []

    def single(self) -> _Found:
        """Probe a single Put."""
        found, key, wrong = _Found(), self._key("put"), self._key("put-wrong")
        self._put(key, _CRC64)
        found.refuses_wrong = _refused(lambda: self._put(wrong, _WRONG), {_BAD_REQUEST})
        found.attests = self._attests(key)
        found.conditional = _refused(lambda: self._put(key, _CRC64), _CONFLICTS)
        return found

    def multipart(self) -> _Found:
        """Probe an upload of one part, and a second one to the same key."""
        found, key = _Found(), self._key("multipart")
        first = self._upload(key)
        parts = {1: self._part(key, first, _CRC64)}
        found.refuses_wrong = _refused(lambda: self._part(key, first, _WRONG), {_BAD_REQUEST})
        found.refuses_wrong_whole = _refused(
            lambda: self._store.complete_upload(key, first, parts, _WRONG), {_BAD_REQUEST}
        )
        if found.refuses_wrong_whole:
            self._store.complete_upload(key, first, parts, _CRC64)
        found.attests = self._attests(key)
        second = self._upload(key)
        parts = {1: self._part(key, second, _CRC64)}
        found.conditional = _refused(
            lambda: self._store.complete_upload(key, second, parts, _CRC64), _CONFLICTS
        )
        return found

    def content_md5(self) -> bool:
        """Whether a wrong Content-MD5 is refused and the ETag is the MD5."""
        right, wrong = hashlib.md5(_BODY), hashlib.md5(b"")  # noqa: S324  what S3 speaks
        etag = self._store.put_with_md5(self._key("md5"), _BODY, _base64(right.digest()))
        key = self._key("md5-wrong")
        refused = _refused(
            lambda: self._store.put_with_md5(key, _BODY, _base64(wrong.digest())), {_BAD_REQUEST}
        )
        return refused and etag == right.hexdigest()

    def clean_up(self) -> None:
        """Remove the scratch objects; what may not be removed stays, under `probe/`."""
        for key, upload_id in self._uploads:
            with contextlib.suppress(StoreError):
                self._store.abort_upload(key, upload_id)
        for key in self._keys:
            with contextlib.suppress(StoreError):
                if stored := self._store.find_object(key):
                    self._store.delete(key, stored.version_id)

    def _key(self, name: str) -> str:
        key = f"{self._prefix}/{name}"
        self._keys.append(key)
        return key

    def _put(self, key: str, crc64: int) -> None:
        self._store.put_absent(key, _BODY, crc64, _ATTEMPT)

    def _upload(self, key: str) -> str:
        upload_id = self._store.create_upload(key, _ATTEMPT)
        self._uploads.append((key, upload_id))
        return upload_id

    def _part(self, key: str, upload_id: str, crc64: int) -> Part:
        etag = self._store.put_part(key, upload_id, 1, _BODY, crc64)
        return Part(crc64, len(_BODY), etag)

    def _attests(self, key: str) -> bool:
        stored = self._store.find_object(key)
        return stored is not None and stored.crc64 == _CRC64


def _refused(act: Callable[[], object], statuses: set[int]) -> bool:
    """Whether the endpoint says no in the expected way; any other failure proves nothing.

    A 400 may also be of an expired token, a 409 of another operation in the way.
    """
    try:
        act()
    except StoreError as error:
        if error.status not in statuses or classify(error).kind in _NOT_ABOUT_THE_REQUEST:
            raise
        return True
    return False


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()

"""Does the proof say of an endpoint what it does, and leave nothing behind?"""

import contextlib
from typing import Any, BinaryIO

import pytest

from labferry.errors import StoreError
from labferry.identity import Layout
from labferry.records import Part, Proof
from labferry.s3.checksum import crc64nvme
from labferry.s3.probe import prove
from labferry.store_port import Buffer
from labferry.stored import StoredObject
from tests.memory_store import Breaking, MemoryStore

EVERYTHING = Proof(
    refuses_wrong_checksum=True,
    attests_checksum=True,
    full_object=True,
    conditional_put=True,
    conditional_complete=True,
    content_md5=True,
    proven_ms=7,
)


class Credulous(MemoryStore):
    """Takes every checksum and every condition for granted, as some servers do."""

    def put_absent(
        self, key: str, body: bytes | BinaryIO, crc64: int, attempt_token: str
    ) -> StoredObject:
        assert isinstance(body, bytes)
        self.objects.pop(key, None)
        return super().put_absent(key, body, crc64nvme(body), attempt_token)

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        return super().put_part(key, upload_id, number, body, crc64nvme(body))

    def complete_upload(self, key: str, upload_id: str, parts: dict[int, Part], crc64: int) -> None:
        self.objects.pop(key, None)
        (part,) = parts.values()
        super().complete_upload(key, upload_id, parts, part.crc64)

    def put_with_md5(self, key: str, body: bytes, md5: str) -> str:
        return self.put_absent(key, body, 0, "").etag


class KeepsParts(MemoryStore):
    """Refuses a wrong whole, takes a wrong part."""

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        return super().put_part(key, upload_id, number, body, crc64nvme(body))


class SecretEtag(MemoryStore):
    """Its ETag is no MD5, as with SSE-KMS."""

    def put_with_md5(self, key: str, body: bytes, md5: str) -> str:
        return f"kms-{super().put_with_md5(key, body, md5)}"


def test_a_sound_endpoint_is_proven() -> None:
    assert prove(MemoryStore(), Layout("lab"), now_ms=7) == EVERYTHING


def test_a_credulous_endpoint_is_seen_through() -> None:
    proof = prove(Credulous(), Layout("lab"), now_ms=7)
    assert proof == Proof(
        refuses_wrong_checksum=False,
        attests_checksum=True,
        full_object=False,
        conditional_put=False,
        conditional_complete=False,
        content_md5=False,
        proven_ms=7,
    )


def test_an_endpoint_whose_head_tells_no_checksum_attests_none() -> None:
    proof = prove(MemoryStore(attests=False), Layout(), now_ms=7)
    assert not proof.attests_checksum
    assert not proof.full_object
    assert proof.refuses_wrong_checksum


def test_parts_must_be_checked_too() -> None:
    assert not prove(KeepsParts(), Layout(), now_ms=7).refuses_wrong_checksum


def test_an_etag_that_is_no_md5_is_no_evidence() -> None:
    assert not prove(SecretEtag(), Layout(), now_ms=7).content_md5


@pytest.mark.parametrize("make", [MemoryStore, Credulous])
def test_nothing_is_left_behind(make: type[MemoryStore]) -> None:
    store = make()
    prove(store, Layout("lab"), now_ms=7)
    assert (store.objects, store.uploads) == ({}, {})


def test_probes_stay_below_the_probe_prefix() -> None:
    keys: set[str] = set()

    class Watching(MemoryStore):
        def put_absent(self, key: str, *rest: Any) -> StoredObject:
            keys.add(key)
            return super().put_absent(key, *rest)

        def create_upload(self, key: str, attempt_token: str) -> str:
            keys.add(key)
            return super().create_upload(key, attempt_token)

    prove(Watching(), Layout("lab"), now_ms=7)
    assert keys
    assert all(key.startswith("lab/probe/") for key in keys)


@pytest.mark.parametrize("method", ["delete", "abort_upload"])
def test_a_denied_clean_up_is_no_error(method: str) -> None:
    denied = StoreError(operation="x", key="k", code="AccessDenied", status=403)
    store = Breaking(MemoryStore(), 1, method=method, error=denied)
    assert prove(store, Layout(), now_ms=7) == EVERYTHING


@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("status", [403, 503, None])
def test_a_failure_of_another_kind_proves_nothing(nth: int, status: int | None) -> None:
    memory = MemoryStore()
    failure = StoreError(operation="x", key="k", code="Failed", status=status)
    store = Breaking(memory, nth, error=failure)
    with pytest.raises(StoreError, match="Failed"):
        prove(store, Layout(), now_ms=7)
    assert (memory.objects, memory.uploads) == ({}, {})


@pytest.mark.parametrize(
    ("code", "status"),
    [("ExpiredToken", 400), ("RequestTimeout", 400), ("OperationAborted", 409), ("SlowDown", 400)],
)
def test_a_refusal_for_another_reason_proves_nothing(code: str, status: int) -> None:
    failure = StoreError(operation="PutObject", key="k", code=code, status=status)
    credulous = prove(Credulous(), Layout(), now_ms=7)
    for nth in range(1, 30):
        with contextlib.suppress(StoreError):  # or the proof is taken another time
            store = Breaking(Credulous(), nth, error=failure)
            assert prove(store, Layout(), now_ms=7) == credulous

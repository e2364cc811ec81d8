"""Which level is reached with what an endpoint was seen to do?"""

from dataclasses import replace
from typing import Any

import pytest

from labferry.errors import ChecksumMismatch, ObjectConflict, StoreError, WeakEvidence
from labferry.records import Level, Proof
from labferry.s3.checksum import crc64nvme
from labferry.stored import StoredObject
from tests.dock import PROVEN, UNPROVEN
from tests.memory_store import MemoryStore
from workers.evidence import Content, Prover

BODY = b"what was read"
CONTENT = Content(len(BODY), crc64nvme(BODY), BODY)
FROM_DISK = CONTENT._replace(body=None)
MD5_ONLY = replace(UNPROVEN, content_md5=True)
ECHO = replace(UNPROVEN, attests_checksum=True, full_object=True, conditional_put=True)


class Held:
    """A lease that is never lost."""

    def __init__(self) -> None:
        self.stored = 0

    def check(self) -> None:
        pass

    def mark_stored(self) -> None:
        self.stored += 1


def stored_object(body: bytes = BODY, *, attests: bool = True) -> tuple[MemoryStore, StoredObject]:
    store = MemoryStore(attests=attests)
    store.put_absent("k", body, crc64nvme(body), "t")
    found = store.find_object("k")
    assert found is not None
    return store, found


def prove(
    proof: Proof,
    *,
    body: bytes = BODY,
    attests: bool = True,
    minimum: Level = Level.D,
    content: Content = CONTENT,
    is_ours: bool = True,
    **changes: Any,
) -> tuple[Level, Held]:
    store, found = stored_object(body, attests=attests)
    lease = Held()
    evidence = Prover(store, proof, minimum).prove(
        replace(found, **changes), content, lease, is_ours=is_ours
    )
    assert evidence.crc64 == content.crc64
    return evidence.level, lease


def test_a_checksum_that_the_server_would_have_refused_is_level_a() -> None:
    level, lease = prove(PROVEN)
    assert (level, lease.stored) == (Level.A, 0)


def test_a_checksum_that_may_be_an_echo_is_read_back() -> None:
    level, lease = prove(ECHO)
    assert (level, lease.stored) == (Level.D, 1)


def test_without_a_checksum_an_md5_etag_is_level_c() -> None:
    assert prove(MD5_ONLY, attests=False)[0] is Level.C


@pytest.mark.parametrize(
    ("proof", "changes", "content"),
    [
        (UNPROVEN, {}, CONTENT),
        (MD5_ONLY, {"etag": "0" * 32}, CONTENT),  # encrypted under a key: no MD5
        (MD5_ONLY, {"etag": "0" * 32 + "-2"}, CONTENT),  # sent in parts
        (MD5_ONLY, {}, FROM_DISK),
    ],
)
def test_what_nothing_attests_is_read_back(
    proof: Proof, changes: dict[str, Any], content: Content
) -> None:
    level, lease = prove(proof, attests=False, content=content, **changes)
    assert (level, lease.stored) == (Level.D, 1)


def test_parts_need_a_server_that_attests_whole_objects() -> None:
    in_parts: dict[str, Any] = {"etag": "0" * 32 + "-2"}
    assert prove(PROVEN, **in_parts)[0] is Level.A
    assert prove(replace(PROVEN, full_object=False), **in_parts)[0] is Level.D


OTHER = b"what was ruined"


@pytest.mark.parametrize(
    ("proof", "attests", "body"),
    [
        (PROVEN, True, OTHER[: len(BODY)]),
        (PROVEN, True, OTHER),
        (UNPROVEN, False, OTHER[: len(BODY)]),
        (MD5_ONLY, False, OTHER[: len(BODY)]),
    ],
)
def test_an_object_with_other_bytes_is_never_evidence(
    proof: Proof, attests: bool, body: bytes
) -> None:
    with pytest.raises(ChecksumMismatch):
        prove(proof, attests=attests, body=body)
    with pytest.raises(ObjectConflict):
        prove(proof, attests=attests, body=body, is_ours=False)


def test_an_object_of_another_size_is_not_even_read() -> None:
    store, found = stored_object(OTHER, attests=False)
    store.delete("k")
    lease = Held()
    with pytest.raises(ObjectConflict, match="15 bytes, the source 13 bytes"):
        Prover(store, UNPROVEN, Level.D).prove(found, CONTENT, lease, is_ours=False)


def test_evidence_below_the_minimum_is_refused_before_anything_is_read_back() -> None:
    store, found = stored_object(attests=False)
    lease = Held()
    with pytest.raises(WeakEvidence):
        Prover(store, UNPROVEN, Level.C).prove(found, CONTENT, lease, is_ours=True)
    assert lease.stored == 0


def test_anothers_object_that_cannot_be_proven_well_enough_is_a_conflict() -> None:
    with pytest.raises(ObjectConflict):
        prove(PROVEN, attests=False, minimum=Level.A, is_ours=False, content=FROM_DISK)


@pytest.mark.parametrize(
    ("proof", "in_parts", "reach"),
    [
        (PROVEN, False, Level.A),
        (PROVEN, True, Level.A),
        (replace(PROVEN, full_object=False), True, Level.D),
        (replace(PROVEN, conditional_put=False), False, Level.A),
        (replace(PROVEN, conditional_put=False, attests_checksum=False), False, Level.C),
        (MD5_ONLY, False, Level.C),
        (MD5_ONLY, True, Level.D),
        (ECHO, False, Level.D),
        (UNPROVEN, False, Level.D),
    ],
)
def test_nothing_is_sent_that_could_not_be_proven(
    proof: Proof, in_parts: bool, reach: Level
) -> None:
    for minimum in Level:
        prover = Prover(MemoryStore(), proof, minimum)
        if reach <= minimum:
            prover.demand("k", in_parts=in_parts)
        else:
            with pytest.raises(WeakEvidence):
                prover.demand("k", in_parts=in_parts)


def test_an_object_gone_while_it_is_read_back_is_no_evidence() -> None:
    store, found = stored_object(attests=False)
    store.delete("k")
    lease = Held()
    with pytest.raises(StoreError):
        Prover(store, UNPROVEN, Level.D).prove(found, CONTENT, lease, is_ours=True)

"""Does every object store keep the port's promises? Run on the memory one and on a real server."""

import io
import os
import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest

from labferry.errors import StoreError
from labferry.ports import ObjectStore
from labferry.records import Part
from labferry.s3.checksum import combine, crc64nvme
from labferry.s3.store import open_store
from labferry.stored import Listed, ServerPart, StoredObject
from tests.memory_store import MemoryStore

MIB = 1024 * 1024
TOKEN = "attempt-7f3a"
NO_CRC = 0

#: What a share may hold, as the path below the run. Source: research table of keys.
NAMES = [
    "plain.txt",
    "a name with  spaces.txt",
    " leading and trailing ",
    "50%.txt",
    "50%25.txt",
    "%2F.txt",
    "a+b.txt",
    "a#b.txt",
    "a?b=c&d.txt",
    "quote'double\".txt",
    "[x](y){z}.txt",
    "*^`|<>~!@$,;=:.txt",
    "Grüße-Übersicht.txt",
    "Gru\u0308\u00dfe-nfd.txt",
    "日本語.txt",
    "emoji-🧬.txt",
    "CASE.txt",
    "case.txt",
    "..dots..",
    "...",
    ".hidden/.x",
    "deep/er/and/deep/er/file.bcl.gz",
    "s" * 255,
    "no-break\u00a0space",
    "zero-width\u200bspace",
    "right-to-left\u202emark",
    "-dash",
    "~tilde",
]


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    if request.param == "memory":
        return MemoryStore()
    return open_store(request.getfixturevalue("store_settings"))


@pytest.fixture
def prefix() -> str:
    return f"contract-{secrets.token_hex(6)}"


@pytest.fixture
def key(prefix: str) -> str:
    return f"{prefix}/raw/seq1/run1/file.txt"


def put(store: ObjectStore, key: str, body: bytes, token: str = TOKEN) -> StoredObject:
    return store.put_absent(key, body, crc64nvme(body), token)


def put_part(store: ObjectStore, key: str, upload_id: str, number: int, body: bytes) -> Part:
    crc64 = crc64nvme(body)
    return Part(crc64, len(body), store.put_part(key, upload_id, number, body, crc64))


def whole(parts: dict[int, Part]) -> int:
    crc64 = NO_CRC
    for _, part in sorted(parts.items()):
        crc64 = combine(crc64, part.crc64, part.size)
    return crc64


def content(store: ObjectStore, key: str) -> bytes:
    return b"".join(store.read(key))


# -- single objects


def test_what_is_not_there_is_none(store: ObjectStore, key: str) -> None:
    assert store.find_object(key) is None


@pytest.mark.parametrize("body", [b"", b"x", os.urandom(3 * MIB + 1)], ids=["0", "1", "3MiB"])
def test_a_put_is_found_with_its_facts(store: ObjectStore, key: str, body: bytes) -> None:
    stored = put(store, key, body)
    assert stored.attempt_token == TOKEN
    assert store.find_object(key) == StoredObject(
        key=key,
        size=len(body),
        etag=stored.etag,
        version_id="",
        crc64=crc64nvme(body),
        attempt_token=TOKEN,
    )
    assert content(store, key) == body


@pytest.mark.parametrize("body", [b"", b"x", os.urandom(3 * MIB + 1)], ids=["0", "1", "3MiB"])
def test_a_fast_put_is_found_with_its_facts(store: ObjectStore, key: str, body: bytes) -> None:
    etag = store.put_fast(key, body, TOKEN)
    found = store.find_object(key)
    assert found is not None
    assert (found.size, found.etag, found.crc64) == (len(body), etag, crc64nvme(body))
    assert found.attempt_token == TOKEN
    assert content(store, key) == body


def test_an_open_file_can_be_put(store: ObjectStore, key: str) -> None:
    stored = store.put_absent(key, io.BytesIO(b"manifest"), crc64nvme(b"manifest"), TOKEN)
    assert stored.size == 8
    assert content(store, key) == b"manifest"


def test_etags_have_no_quotes(store: ObjectStore, key: str, prefix: str) -> None:
    etags = {put(store, key, b"x").etag}
    etags |= {listed.etag for listed in store.list_objects(prefix)}
    assert etags == {"9dd4e461268c8034f5c8564e155c67a6"}


@pytest.mark.parametrize("how", ["put_absent", "put_fast"])
def test_an_object_is_never_overwritten(store: ObjectStore, key: str, how: str) -> None:
    put(store, key, b"first")
    with pytest.raises(StoreError) as refused:
        if how == "put_fast":
            store.put_fast(key, b"second", "another")
        else:
            put(store, key, b"second", "another")
    assert (refused.value.code, refused.value.status) == ("PreconditionFailed", 412)
    assert (refused.value.operation, refused.value.key) == ("PutObject", key)
    assert content(store, key) == b"first"
    found = store.find_object(key)
    assert found is not None
    assert found.attempt_token == TOKEN


def test_a_wrong_checksum_leaves_no_object(store: ObjectStore, key: str) -> None:
    with pytest.raises(StoreError) as refused:
        store.put_absent(key, b"bytes", crc64nvme(b"other bytes"), TOKEN)
    assert (refused.value.code, refused.value.status) == ("BadDigest", 400)
    assert store.find_object(key) is None


@pytest.mark.parametrize("how", ["put_absent", "put_fast"])
def test_of_eight_writers_one_wins(store: ObjectStore, key: str, how: str) -> None:
    def write(number: int) -> int | None:
        body = f"writer {number}".encode()
        try:
            if how == "put_fast":
                store.put_fast(key, body, f"writer-{number}")
            else:
                put(store, key, body, f"writer-{number}")
        except StoreError as error:
            assert error.status in {409, 412}
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(write, range(8)) if number is not None]
    assert len(winners) == 1
    found = store.find_object(key)
    assert found is not None
    assert found.attempt_token == f"writer-{winners[0]}"


def test_a_document_replaces_the_one_before(store: ObjectStore, key: str) -> None:
    store.put_document(key, b'{"status": "dead"}')
    store.put_document(key, b'{"status": "replayed"}')
    assert b"".join(store.read(key)) == b'{"status": "replayed"}'


def test_reading_what_is_not_there_is_refused(store: ObjectStore, key: str) -> None:
    with pytest.raises(StoreError) as refused:
        content(store, key)
    assert (refused.value.operation, refused.value.code) == ("GetObject", "NoSuchKey")
    assert refused.value.status == 404


def test_a_body_is_read_in_blocks(store: ObjectStore, key: str) -> None:
    body = os.urandom(2 * MIB + 5)
    put(store, key, body)
    blocks = list(store.read(key))
    assert len(blocks) >= 3
    assert b"".join(blocks) == body


def test_a_deleted_scratch_object_is_gone_and_a_second_delete_is_harmless(
    store: ObjectStore, key: str
) -> None:
    put(store, key, b"x")
    store.delete(key)
    store.delete(key)
    assert store.find_object(key) is None


# -- names


@pytest.mark.parametrize("how", ["put_absent", "put_fast"])
def test_every_name_comes_back_as_it_is(store: ObjectStore, prefix: str, how: str) -> None:
    bodies = {f"{prefix}/{name}": name.encode() for name in NAMES}
    for key, body in bodies.items():
        if how == "put_fast":
            store.put_fast(key, body, TOKEN)
        else:
            put(store, key, body)
    assert {listed.key for listed in store.list_objects(f"{prefix}/")} == set(bodies)
    for key, body in bodies.items():
        found = store.find_object(key)
        assert found is not None, key
        assert found.key == key
        assert content(store, key) == body


# -- multipart uploads


def test_parts_become_one_object(store: ObjectStore, key: str) -> None:
    bodies = [os.urandom(5 * MIB), os.urandom(5 * MIB), b"tail"]
    upload_id = store.create_upload(key, TOKEN)
    parts = {n: put_part(store, key, upload_id, n, body) for n, body in enumerate(bodies, 1)}
    assert store.list_parts(key, upload_id) == {
        ServerPart(number, part.etag, part.size) for number, part in parts.items()
    }
    assert store.find_object(key) is None

    store.complete_upload(key, upload_id, parts, whole(parts))

    found = store.find_object(key)
    assert found is not None
    assert found.size == sum(map(len, bodies))
    assert found.crc64 == crc64nvme(b"".join(bodies))
    assert found.attempt_token == TOKEN
    assert content(store, key) == b"".join(bodies)
    assert store.find_uploads(key) == []


def test_one_small_part_is_enough(store: ObjectStore, key: str) -> None:
    upload_id = store.create_upload(key, TOKEN)
    parts = {1: put_part(store, key, upload_id, 1, b"tail")}
    store.complete_upload(key, upload_id, parts, whole(parts))
    assert content(store, key) == b"tail"


def test_uploads_are_found_by_exact_key(store: ObjectStore, key: str) -> None:
    first, second = store.create_upload(key, TOKEN), store.create_upload(key, TOKEN)
    longer = store.create_upload(f"{key}.gz", TOKEN)
    assert sorted(store.find_uploads(key)) == sorted([first, second])
    assert store.find_uploads(f"{key}.gz") == [longer]
    assert store.find_uploads(key[:-1]) == []
    for name, upload_id in ((key, first), (key, second), (f"{key}.gz", longer)):
        store.abort_upload(name, upload_id)


def test_uploads_below_a_prefix_are_listed_with_their_keys(store: ObjectStore, prefix: str) -> None:
    keys = [f"{prefix}/run1/a ü+%.bin", f"{prefix}/run1/b/c", f"{prefix}/run10/a"]
    opened = [(key, store.create_upload(key, TOKEN)) for key in [*keys, keys[0]]]
    expected = sorted(one for one in opened if one[0].startswith(f"{prefix}/run1/"))
    assert sorted(store.list_uploads(f"{prefix}/run1/")) == expected
    for key, upload_id in opened:
        store.abort_upload(key, upload_id)
    assert list(store.list_uploads(f"{prefix}/")) == []


def test_an_aborted_upload_is_gone_and_a_second_abort_is_harmless(
    store: ObjectStore, key: str
) -> None:
    upload_id = store.create_upload(key, TOKEN)
    part = put_part(store, key, upload_id, 1, b"x")
    store.abort_upload(key, upload_id)
    store.abort_upload(key, upload_id)
    assert store.find_uploads(key) == []
    for call in (
        lambda: store.list_parts(key, upload_id),
        lambda: put_part(store, key, upload_id, 1, b"x"),
        lambda: store.complete_upload(key, upload_id, {1: part}, part.crc64),
    ):
        with pytest.raises(StoreError) as refused:
            call()
        assert (refused.value.code, refused.value.status) == ("NoSuchUpload", 404)


def test_a_part_with_a_wrong_checksum_is_refused(store: ObjectStore, key: str) -> None:
    upload_id = store.create_upload(key, TOKEN)
    with pytest.raises(StoreError) as refused:
        store.put_part(key, upload_id, 1, b"bytes", crc64nvme(b"other bytes"))
    assert (refused.value.operation, refused.value.code) == ("UploadPart", "BadDigest")
    assert store.list_parts(key, upload_id) == set()
    store.abort_upload(key, upload_id)


def test_a_wrong_whole_leaves_no_object_and_the_upload_open(store: ObjectStore, key: str) -> None:
    upload_id = store.create_upload(key, TOKEN)
    parts = {1: put_part(store, key, upload_id, 1, b"bytes")}
    with pytest.raises(StoreError) as refused:
        store.complete_upload(key, upload_id, parts, crc64nvme(b"other bytes"))
    assert (refused.value.operation, refused.value.code) == ("CompleteMultipartUpload", "BadDigest")
    assert store.find_object(key) is None
    store.complete_upload(key, upload_id, parts, whole(parts))
    assert content(store, key) == b"bytes"


def test_a_part_sent_again_is_listed_and_the_recorded_one_decides(
    store: ObjectStore, key: str
) -> None:
    upload_id = store.create_upload(key, TOKEN)
    old = put_part(store, key, upload_id, 1, b"old bytes")
    new = put_part(store, key, upload_id, 1, b"new bytes")
    listed = store.list_parts(key, upload_id)
    assert ServerPart(1, new.etag, 9) in listed
    with pytest.raises(StoreError) as refused:
        store.complete_upload(key, upload_id, {1: old}, new.crc64)
    assert refused.value.code in {"BadDigest", "InvalidPart"}
    store.complete_upload(key, upload_id, {1: new}, new.crc64)
    assert content(store, key) == b"new bytes"


def test_a_part_that_was_never_sent_is_refused(store: ObjectStore, key: str) -> None:
    upload_id = store.create_upload(key, TOKEN)
    part = put_part(store, key, upload_id, 1, b"x")
    unsent = Part(part.crc64, 1, "0" * 32)
    with pytest.raises(StoreError) as refused:
        store.complete_upload(key, upload_id, {1: unsent}, part.crc64)
    assert (refused.value.code, refused.value.status) == ("InvalidPart", 400)
    assert store.find_object(key) is None
    store.abort_upload(key, upload_id)


def test_a_small_part_in_the_middle_is_refused(store: ObjectStore, key: str) -> None:
    upload_id = store.create_upload(key, TOKEN)
    parts = {n: put_part(store, key, upload_id, n, b"x") for n in (1, 2)}
    with pytest.raises(StoreError) as refused:
        store.complete_upload(key, upload_id, parts, whole(parts))
    assert (refused.value.code, refused.value.status) == ("EntityTooSmall", 400)
    store.abort_upload(key, upload_id)


def test_an_upload_never_overwrites(store: ObjectStore, key: str) -> None:
    upload_id = store.create_upload(key, "another")
    parts = {1: put_part(store, key, upload_id, 1, b"second")}
    put(store, key, b"first")
    with pytest.raises(StoreError) as refused:
        store.complete_upload(key, upload_id, parts, whole(parts))
    assert (refused.value.code, refused.value.status) == ("PreconditionFailed", 412)
    assert content(store, key) == b"first"
    assert store.find_uploads(key) == [upload_id]
    store.abort_upload(key, upload_id)


def test_a_second_complete_is_no_second_object(store: ObjectStore, key: str) -> None:
    upload_id = store.create_upload(key, TOKEN)
    parts = {1: put_part(store, key, upload_id, 1, b"bytes")}
    store.complete_upload(key, upload_id, parts, whole(parts))
    with pytest.raises(StoreError) as refused:
        store.complete_upload(key, upload_id, parts, whole(parts))
    assert refused.value.code in {"PreconditionFailed", "NoSuchUpload"}
    assert content(store, key) == b"bytes"


def test_after_eight_racing_completes_one_object_stands_and_head_names_its_writer(
    store: ObjectStore, key: str
) -> None:
    """SeaweedFS 4.48 tells several Completes at the same instant that they made the object, and
    the last of them stands: so an answer decides nothing, and the token that HEAD shows does."""

    def complete(number: int) -> int | None:
        upload_id = store.create_upload(key, f"writer-{number}")
        parts = {1: put_part(store, key, upload_id, 1, f"writer {number}".encode())}
        try:
            store.complete_upload(key, upload_id, parts, whole(parts))
        except StoreError as error:
            assert error.status in {409, 412}
            store.abort_upload(key, upload_id)
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        told = {number for number in pool.map(complete, range(8)) if number is not None}
    found = store.find_object(key)
    assert found is not None
    assert found.attempt_token in {f"writer-{number}" for number in told}
    body = found.attempt_token.replace("-", " ").encode()
    assert (found.crc64, content(store, key)) == (crc64nvme(body), body)
    assert store.find_uploads(key) == []


# -- listings


def test_a_listing_holds_what_is_below_the_prefix(store: ObjectStore, prefix: str) -> None:
    for name in ("run1/a", "run1/b/c", "run10/a", "run2/a"):
        put(store, f"{prefix}/{name}", name.encode())
    listed = {entry.key: entry.size for entry in store.list_objects(f"{prefix}/run1/")}
    assert listed == {f"{prefix}/run1/a": 6, f"{prefix}/run1/b/c": 8}
    assert list(store.list_objects(f"{prefix}/run3/")) == []


def test_folders_directly_below_a_prefix_are_listed_once(store: ObjectStore, prefix: str) -> None:
    for name in ("run 1/a", "run 1/b/c", "ü+%25/d", "no folder"):
        put(store, f"{prefix}/{name}", b"x")
    assert sorted(store.list_folders(f"{prefix}/")) == ["run 1", "ü+%25"]
    assert list(store.list_folders(f"{prefix}/run 1/b/")) == []


def test_open_uploads_are_not_listed_as_objects(store: ObjectStore, key: str, prefix: str) -> None:
    upload_id = store.create_upload(key, TOKEN)
    put_part(store, key, upload_id, 1, b"x")
    assert list(store.list_objects(prefix)) == []
    store.abort_upload(key, upload_id)


def test_a_listing_goes_past_one_page(store: ObjectStore, prefix: str) -> None:
    keys = [f"{prefix}/{number:04} ü+%.bin" for number in range(1005)]
    with ThreadPoolExecutor(16) as pool:
        etags = list(pool.map(lambda key: store.put_fast(key, b"x", TOKEN), keys))
    expected = [Listed(key, 1, etag) for key, etag in zip(keys, etags, strict=True)]
    assert sorted(store.list_objects(f"{prefix}/")) == expected

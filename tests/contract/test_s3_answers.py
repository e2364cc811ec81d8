"""Does the S3 adapter ask rightly, and is it not deceived by answers no test server gives?"""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labferry.errors import BadListing, StoreError
from labferry.records import Part
from labferry.s3.checksum import crc64nvme
from labferry.s3.store import S3Store, open_store
from labferry.settings import StoreSettings
from tests.canned_server import Answer, CannedServer
from tests.contract.test_object_store import NAMES

KEY = "raw/seq1/run 1/größe#1+%.bin"
BODY = b"bytes of the instrument"
CRC64 = crc64nvme(BODY)
PART = Part(CRC64, len(BODY), "p1")
STORED = Answer(200, headers={"ETag": '"e1"'})
HTML = "<html><body>Please log in to the guest network</body></html>"
XML = {"Content-Type": "application/xml"}

CREATIONS: dict[str, Callable[[S3Store], object]] = {
    "put_fast": lambda store: store.put_fast(KEY, BODY, "t"),
    "put_absent": lambda store: store.put_absent(KEY, BODY, CRC64, "t"),
    "put_part": lambda store: store.put_part(KEY, "u", 1, BODY, CRC64),
    "complete_upload": lambda store: store.complete_upload(KEY, "u", {1: PART}, CRC64),
}
CALLS: dict[str, Callable[[S3Store], object]] = CREATIONS | {
    "find_object": lambda store: store.find_object(KEY),
    "create_upload": lambda store: store.create_upload(KEY, "t"),
    "find_uploads": lambda store: store.find_uploads(KEY),
    "list_parts": lambda store: store.list_parts(KEY, "u"),
    "abort_upload": lambda store: store.abort_upload(KEY, "u"),
    "list_objects": lambda store: list(store.list_objects("raw/")),
    "read": lambda store: list(store.read(KEY)),
    "delete": lambda store: store.delete(KEY),
}


@pytest.fixture(scope="module")
def server() -> Iterator[CannedServer]:
    with CannedServer() as server:
        yield server


@pytest.fixture(scope="module")
def settings(server: CannedServer) -> Iterator[StoreSettings]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "user")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield StoreSettings(
            bucket="lab-bucket",
            endpoint_url=server.url,
        )


@pytest.fixture(scope="module")
def store(settings: StoreSettings) -> S3Store:
    """One for all tests, because it takes longer to make than to use."""
    return open_store(settings)


@pytest.fixture(scope="module")
def impatient(settings: StoreSettings) -> S3Store:
    """One that waits long for a Complete alone."""
    return open_store(settings.model_copy(update={"read_timeout_s": 0.3}))


def error_xml(code: str, message: str = "no") -> str:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'


def failure_of(call: Callable[[S3Store], object], store: S3Store) -> StoreError:
    with pytest.raises(StoreError) as failed:
        call(store)
    return failed.value


# -- what is asked


@pytest.mark.parametrize("how", ["put_fast", "put_absent"])
def test_a_put_carries_condition_checksum_and_token_and_no_digest_of_its_own(
    server: CannedServer, store: S3Store, how: str
) -> None:
    server.answer(STORED)
    CALLS[how](store)
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("PUT", f"/lab-bucket/{KEY}")
    assert asked.body == BODY
    assert asked.headers["if-none-match"] == "*"
    assert asked.headers["x-amz-meta-labferry-attempt"] == "t"
    assert asked.headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
    checksums = {name for name in asked.headers if name.startswith("x-amz-checksum")}
    assert checksums == {"x-amz-checksum-crc64nvme"}
    assert "x-amz-trailer" not in asked.headers
    assert "content-encoding" not in asked.headers
    assert "transfer-encoding" not in asked.headers


@pytest.mark.parametrize("name", [*NAMES, "tab\there", "a//b", "end/", "./a", "../a", "\x7f"])
def test_the_fast_way_sends_the_same_key_as_the_exact_way(
    server: CannedServer, store: S3Store, name: str
) -> None:
    server.answer(STORED)
    store.put_fast(f"raw/{name}", BODY, "t")
    store.put_absent(f"raw/{name}", BODY, CRC64, "t")
    fast, exact = server.asked
    assert fast.path == exact.path == f"/lab-bucket/raw/{name}"


def test_an_upload_names_its_checksum_in_all_three_places(
    server: CannedServer, store: S3Store
) -> None:
    created = (
        "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
    )
    completed = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
    server.answer(Answer(200, created, XML), STORED, Answer(200, completed, XML))
    assert store.create_upload(KEY, "t") == "u"
    assert store.put_part(KEY, "u", 1, BODY, CRC64) == "e1"
    store.complete_upload(KEY, "u", {1: PART}, CRC64)
    create, part, complete = server.asked
    assert create.headers["x-amz-checksum-algorithm"] == "CRC64NVME"
    assert create.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    assert create.headers["x-amz-meta-labferry-attempt"] == "t"
    checksum = part.headers["x-amz-checksum-crc64nvme"]
    assert part.headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
    assert complete.headers["x-amz-checksum-crc64nvme"] == checksum
    assert complete.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    assert complete.headers["if-none-match"] == "*"
    assert complete.headers["x-amz-mp-object-size"] == str(len(BODY))
    assert f"<ChecksumCRC64NVME>{checksum}</ChecksumCRC64NVME>" in complete.body.decode()


def test_a_read_is_pinned_to_the_version(server: CannedServer, store: S3Store) -> None:
    server.answer(Answer(200, "body", {"ETag": '"e"'}))
    assert b"".join(store.read(KEY, "v7")) == b"body"
    assert server.asked[0].query["versionId"] == "v7"


def test_a_version_and_a_checksum_of_the_whole_are_told(
    server: CannedServer, store: S3Store
) -> None:
    facts = {"ETag": '"e1"', "x-amz-version-id": "v7", "x-amz-checksum-crc64nvme": "AAAAAAAAAAU="}
    server.answer(Answer(200, headers=facts))
    found = store.find_object(KEY)
    assert found is not None
    assert (found.etag, found.version_id, found.crc64) == ("e1", "v7", 5)
    assert server.asked[0].headers["x-amz-checksum-mode"] == "ENABLED"
    server.answer(Answer(200, headers=facts | {"x-amz-checksum-type": "COMPOSITE"}))
    composite = store.find_object(KEY)
    assert composite is not None
    assert composite.crc64 is None


# -- one attempt


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("status", [500, 503])
def test_a_failed_call_is_not_repeated(
    server: CannedServer, store: S3Store, name: str, status: int
) -> None:
    server.answer(Answer(status, error_xml("SlowDown"), XML))
    failure = failure_of(CALLS[name], store)
    assert failure.status == status
    assert len(server.asked) == 1


@pytest.mark.parametrize("name", CALLS)
def test_a_dropped_connection_is_told_and_not_repeated(
    server: CannedServer, store: S3Store, name: str
) -> None:
    server.answer(Answer(then="drop"))
    failure = failure_of(CALLS[name], store)
    assert (failure.code, failure.status) == ("ConnectionClosedError", None)
    assert len(server.asked) == 1


@pytest.mark.parametrize("name", ["put_fast", "put_absent", "find_object", "list_objects"])
def test_an_answer_that_does_not_come_is_a_timeout(
    server: CannedServer, impatient: S3Store, name: str
) -> None:
    server.answer(Answer(then="hang"))
    failure = failure_of(CALLS[name], impatient)
    assert (failure.code, failure.status) == ("ReadTimeoutError", None)


def test_a_complete_is_waited_for_longer(server: CannedServer, impatient: S3Store) -> None:
    body = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
    server.answer(Answer(200, body, XML, after_s=0.8))
    impatient.complete_upload(KEY, "u", {1: PART}, CRC64)
    assert len(server.asked) == 1


def test_an_endpoint_that_is_not_there_is_told(settings: StoreSettings) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        store = open_store(settings.model_copy(update={"endpoint_url": url}))
        failures = [failure_of(call, store) for call in CALLS.values()]
    assert {(failure.code, failure.status) for failure in failures} == {
        ("EndpointConnectionError", None)
    }


# -- facts of a refusal


@pytest.mark.parametrize("name", [name for name in CALLS if name != "find_object"])
def test_code_and_status_of_a_refusal_are_kept(
    server: CannedServer, store: S3Store, name: str
) -> None:
    server.answer(Answer(400, error_xml("ExpiredToken", "too old"), XML))
    failure = failure_of(CALLS[name], store)
    assert (failure.code, failure.status) == ("ExpiredToken", 400)
    assert "too old" in failure.detail


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, 7),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30,
        ),
        ({"x-amz-retry-after": "1500"}, 1.5),
        ({}, None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_told(
    server: CannedServer, store: S3Store, headers: dict[str, str], expected: float | None
) -> None:
    server.answer(Answer(503, error_xml("SlowDown"), XML | headers))
    assert failure_of(CALLS["put_absent"], store).retry_after_s == expected


@pytest.mark.parametrize("status", [400, 403])
def test_a_refused_head_is_not_absence(server: CannedServer, store: S3Store, status: int) -> None:
    server.answer(Answer(status))
    failure = failure_of(CALLS["find_object"], store)
    assert (failure.code, failure.status) == (str(status), status)


def test_a_missing_bucket_is_told_from_a_missing_object(
    server: CannedServer, settings: StoreSettings
) -> None:
    server.answer(Answer(404))
    failure = failure_of(CALLS["find_object"], open_store(settings))
    assert (failure.code, failure.status) == ("NoSuchBucket", 404)


@pytest.mark.parametrize("bucket_status", [200, 403])
def test_a_missing_object_is_absent_and_the_bucket_asked_for_once(
    server: CannedServer, settings: StoreSettings, bucket_status: int
) -> None:
    store = open_store(settings)
    server.answer(Answer(404), Answer(bucket_status), Answer(404))
    assert store.find_object(KEY) is None
    assert store.find_object(KEY) is None
    assert [asked.path for asked in server.asked].count("/lab-bucket") == 1


def test_a_gone_upload_counts_as_aborted(server: CannedServer, store: S3Store) -> None:
    server.answer(Answer(404, error_xml("NoSuchUpload"), XML))
    store.abort_upload(KEY, "u")


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "AccessDenied"), (501, "NotImplemented"), (405, "MethodNotAllowed")],
)
def test_uploads_that_cannot_be_listed_are_none(
    server: CannedServer, store: S3Store, status: int, code: str
) -> None:
    server.answer(Answer(status, error_xml(code), XML))
    assert store.find_uploads(KEY) == []


# -- answers that claim success


@pytest.mark.parametrize("body", ["", HTML], ids=["empty", "html"])
@pytest.mark.parametrize("name", CREATIONS)
def test_a_success_without_etag_is_none(
    server: CannedServer, store: S3Store, name: str, body: str
) -> None:
    server.answer(Answer(200, body))
    failure = failure_of(CALLS[name], store)
    assert (failure.code, failure.status) == ("NoETag", 200)


def test_a_head_without_etag_is_no_object(server: CannedServer, store: S3Store) -> None:
    server.answer(Answer(200, HTML))
    assert failure_of(CALLS["find_object"], store).code == "NoETag"


def test_a_create_without_id_is_none(server: CannedServer, store: S3Store) -> None:
    server.answer(Answer(200, HTML))
    assert failure_of(CALLS["create_upload"], store).code == "NoUploadId"


def test_an_error_inside_a_success_is_an_error(server: CannedServer, store: S3Store) -> None:
    server.answer(Answer(200, error_xml("InternalError"), XML))
    assert failure_of(CALLS["complete_upload"], store).code == "InternalError"
    assert len(server.asked) == 1


def test_a_body_that_ends_early_raises(server: CannedServer, store: S3Store) -> None:
    server.answer(Answer(200, "x" * 1000, {"ETag": '"e"'}, then="cut"))
    failure = failure_of(CALLS["read"], store)
    assert (failure.operation, failure.status) == ("GetObject", None)
    assert failure.code in {"ResponseStreamingError", "ConnectionClosedError"}


@pytest.mark.parametrize("name", ["put_fast", "put_absent", "find_object", "list_objects"])
@pytest.mark.parametrize(
    "answer",
    [Answer(301), Answer(302, HTML, {"Location": "http://portal.example/"})],
    ids=["region", "portal"],
)
def test_a_host_that_redirects_everything_is_told(
    server: CannedServer, store: S3Store, name: str, answer: Answer
) -> None:
    server.answer(answer)
    assert failure_of(CALLS[name], store).code in {"PermanentRedirect", "302"}


# -- credentials


def test_no_credentials_are_told(
    settings: StoreSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name in ("put_fast", "put_absent", "find_object"):
        assert failure_of(CALLS[name], open_store(settings)).code == "NoCredentialsError"


@pytest.mark.parametrize("name", ["put_fast", "put_absent"])
def test_credentials_are_read_again_after_they_were_refused(
    server: CannedServer,
    settings: StoreSettings,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    store = open_store(settings)
    server.answer(Answer(400, error_xml("ExpiredToken"), XML), STORED)
    failure_of(CALLS[name], store)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "renewed")
    CALLS[name](store)
    used = [asked.headers["authorization"].split("Credential=")[1] for asked in server.asked]
    assert [credential.split("/")[0] for credential in used] == ["user", "renewed"]


def test_no_variable_of_another_tool_moves_the_bucket(
    server: CannedServer, settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_BUCKET", "elsewhere")
    monkeypatch.setenv("AWS_CHECKSUM_ALGORITHM", "SHA256")
    server.answer(STORED)
    store = open_store(settings)
    for name in ("put_fast", "put_absent"):
        CALLS[name](store)
    assert [asked.path for asked in server.asked] == [f"/lab-bucket/{KEY}"] * 2
    assert all("x-amz-checksum-crc64nvme" in asked.headers for asked in server.asked)


# -- listings


def objects(*keys: str, token: str | None = None, truncated: bool = False) -> Answer:
    contents = "".join(
        f"<Contents><Key>{key}</Key><Size>1</Size><ETag>e</ETag></Contents>" for key in keys
    )
    following = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return Answer(
        200,
        f"<ListBucketResult><Name>lab-bucket</Name>{contents}{following}"
        f"<IsTruncated>{str(truncated).lower()}</IsTruncated></ListBucketResult>",
        XML,
    )


def parts(*numbers: int, marker: int | None = None, truncated: bool = False) -> Answer:
    entries = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>e{number}</ETag><Size>1</Size></Part>"
        for number in numbers
    )
    following = "" if marker is None else f"<NextPartNumberMarker>{marker}</NextPartNumberMarker>"
    return Answer(
        200,
        f"<ListPartsResult><Bucket>lab-bucket</Bucket>{entries}{following}"
        f"<IsTruncated>{str(truncated).lower()}</IsTruncated></ListPartsResult>",
        XML,
    )


def uploads(*pairs: tuple[str, str], marker: str = "", truncated: bool = False) -> Answer:
    entries = "".join(
        f"<Upload><Key>{key}</Key><UploadId>{upload_id}</UploadId></Upload>"
        for key, upload_id in pairs
    )
    return Answer(
        200,
        f"<ListMultipartUploadsResult><Bucket>lab-bucket</Bucket>{entries}"
        f"<NextKeyMarker>{marker}</NextKeyMarker><NextUploadIdMarker>{marker}</NextUploadIdMarker>"
        f"<IsTruncated>{str(truncated).lower()}</IsTruncated></ListMultipartUploadsResult>",
        XML,
    )


def bad_listing(call: Callable[[S3Store], object], store: S3Store) -> str:
    failure = failure_of(call, store)
    assert isinstance(failure, BadListing)
    return failure.code


def test_pages_are_followed_by_their_cursor(server: CannedServer, store: S3Store) -> None:
    server.answer(objects("raw/a", token="t1", truncated=True), objects("raw/b"))
    assert [entry.key for entry in store.list_objects("raw/")] == ["raw/a", "raw/b"]
    assert [asked.query.get("continuation-token") for asked in server.asked] == [None, "t1"]


@pytest.mark.parametrize(
    ("pages", "code"),
    [
        ([objects("raw/a", truncated=True)], "MissingCursor"),
        (
            [
                objects("raw/a", token="t1", truncated=True),
                objects("raw/b", token="t1", truncated=True),
            ],
            "RepeatedCursor",
        ),
        (
            [
                objects("raw/a", token="t1", truncated=True),
                objects("raw/b", token="t2", truncated=True),
                objects("raw/c", token="t1", truncated=True),
            ],
            "RepeatedCursor",
        ),
        (
            [
                objects("raw/a", token="t1", truncated=True),
                objects("raw/a", token="t2", truncated=True),
            ],
            "RepeatedPage",
        ),
        ([objects("raw/a", "elsewhere/b")], "ForeignEntry"),
        ([Answer(200, "")], "NotAListing"),
        ([Answer(200, HTML)], "NotAListing"),
    ],
)
def test_a_listing_of_objects_that_cannot_be_trusted_is_refused(
    server: CannedServer, store: S3Store, pages: list[Answer], code: str
) -> None:
    server.answer(*pages)
    assert bad_listing(CALLS["list_objects"], store) == code


def test_a_part_may_stand_twice(server: CannedServer, store: S3Store) -> None:
    server.answer(parts(1, 2, marker=2, truncated=True), parts(2, 3))
    assert {part.number for part in store.list_parts(KEY, "u")} == {1, 2, 3}
    assert [asked.query.get("part-number-marker") for asked in server.asked] == [None, "2"]


@pytest.mark.parametrize(
    ("pages", "code"),
    [
        ([parts(1, truncated=True)], "MissingCursor"),
        ([parts(1, marker=0, truncated=True)], "CursorDoesNotGrow"),
        (
            [parts(1, marker=5, truncated=True), parts(6, marker=3, truncated=True)],
            "CursorDoesNotGrow",
        ),
        ([parts(number, marker=number, truncated=True) for number in range(1, 60)], "TooManyPages"),
        ([Answer(200, "")], "NotAListing"),
    ],
)
def test_a_listing_of_parts_that_cannot_be_trusted_is_refused(
    server: CannedServer, store: S3Store, pages: list[Answer], code: str
) -> None:
    server.answer(*pages)
    assert bad_listing(CALLS["list_parts"], store) == code


def test_only_uploads_of_exactly_the_key_are_found(server: CannedServer, store: S3Store) -> None:
    server.answer(
        uploads(("raw/a", "u1"), ("raw/ab", "u2"), ("", "u3"), marker="raw/ab", truncated=True),
        uploads(("raw/a", "u4")),
    )
    assert store.find_uploads("raw/a") == ["u1", "u4"]


@pytest.mark.parametrize(
    ("pages", "code"),
    [
        ([uploads(("raw/a", "u1"), truncated=True)], "MissingCursor"),
        ([uploads(("raw/a", "u1"), marker="raw/a", truncated=True)], "RepeatedCursor"),
        ([Answer(200, HTML)], "NotAListing"),
    ],
)
def test_a_listing_of_uploads_that_cannot_be_trusted_is_refused(
    server: CannedServer, store: S3Store, pages: list[Answer], code: str
) -> None:
    server.answer(*pages)
    assert bad_listing(CALLS["find_uploads"], store) == code

"""Is every error that research knows classified as it says, when it really happens?

One case a row of research's table: through botocore and the wire, from a server's own refusal or
one that the fault proxy forges, and from real files. Rows about the ledger and the worker's own
stop are in tests/integration/test_transfer.py.
"""

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.parsers import ResponseParserError

from labferry.errors import LabferryError, StoreError
from labferry.failure_table import ANSWERS, ERRNOS, Row
from labferry.failures import Cause, Failure, Kind, Scope, classify
from labferry.identity import RunKey
from labferry.records import Fingerprint, Part
from labferry.s3 import bucket
from labferry.s3.checksum import crc64nvme
from labferry.s3.store import S3Store, open_store
from labferry.settings import StoreSettings
from ops.embedded import Weed
from tests.fault_proxy import FaultProxy
from tests.faults import (
    HTML,
    Answer,
    DropAfter,
    DropBefore,
    EditReply,
    Fault,
    FlipByte,
    Hang,
    ResetMid,
    Truncate,
    rule,
)
from workers.source import RunFolder

KEY = "raw/scope/run 1/größe#1.bin"
BODY = b"bytes of the instrument" * 1000
CRC64 = crc64nvme(BODY)
PARTS = {1: Part(CRC64, len(BODY), "e" * 32)}
MIB = 1024 * 1024

PUT, PART, HEAD, GET = "PutObject", "UploadPart", "HeadObject", "GetObject"
CREATE, COMPLETE, ABORT = (
    "CreateMultipartUpload",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
)
LIST, LIST_PARTS, LIST_UPLOADS = "ListObjectsV2", "ListParts", "ListMultipartUploads"
FAST = "PutObject over the wire"

CALLS: dict[str, Callable[[S3Store], object]] = {
    PUT: lambda store: store.put_absent(KEY, BODY, CRC64, "t"),
    FAST: lambda store: store.put_fast(KEY, BODY, "t"),
    CREATE: lambda store: store.create_upload(KEY, "t"),
    PART: lambda store: store.put_part(KEY, "u", 1, BODY, CRC64),
    COMPLETE: lambda store: store.complete_upload(KEY, "u", PARTS, CRC64),
    ABORT: lambda store: store.abort_upload(KEY, "u"),
    HEAD: lambda store: store.find_object(KEY),
    GET: lambda store: b"".join(store.read(KEY)),
    LIST: lambda store: list(store.list_objects("raw/")),
    LIST_PARTS: lambda store: store.list_parts(KEY, "u"),
    LIST_UPLOADS: lambda store: store.find_uploads(KEY),
}
WRITES = (PUT, FAST, CREATE, COMPLETE)
READS = (PART, GET, LIST, LIST_PARTS, LIST_UPLOADS, ABORT)
ALL = (*WRITES, *READS)


@pytest.fixture(scope="module")
def proxy(weed: Weed) -> Iterator[FaultProxy]:
    with FaultProxy(weed.endpoint) as proxy:
        yield proxy


@pytest.fixture
def settings(store_settings: StoreSettings, proxy: FaultProxy) -> StoreSettings:
    """The real server behind the proxy."""
    proxy.script()
    return store_settings.model_copy(update={"endpoint_url": proxy.url})


@pytest.fixture(scope="module")
def shared(proxy: FaultProxy, weed: Weed) -> Iterator[S3Store]:
    """One store for all forged answers, because it takes longer to make than to use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", weed.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", weed.secret_key)
        yield open_store(StoreSettings(bucket=weed.bucket, endpoint_url=proxy.url))


@pytest.fixture(scope="module")
def impatient(shared: S3Store, proxy: FaultProxy, weed: Weed) -> S3Store:
    """One that soon gives up."""
    assert shared
    return open_store(
        StoreSettings(
            bucket=weed.bucket, endpoint_url=proxy.url, read_timeout_s=0.5, complete_timeout_s=0.5
        )
    )


def failure_of(call: Callable[[], object]) -> Failure:
    with pytest.raises(LabferryError) as failed:
        call()
    return classify(failed.value)


def facts(failure: Failure) -> tuple[str, Kind, Scope | Cause]:
    return failure.code, failure.kind, failure.cause or failure.scope


# -- answers with a code


@dataclass(frozen=True)
class Case:
    """One answer to some operations, and what it is to mean."""

    operation: str
    status: int | None
    code: str
    kind: Kind
    whose: Scope | Cause

    @property
    def expected(self) -> tuple[str, Kind, Scope | Cause]:
        return self.code, self.kind, self.whose

    def __str__(self) -> str:
        return f"{self.operation}-{self.status}-{self.code}"


def cases(
    codes: str, status: int, kind: Kind, whose: Scope | Cause, on: tuple[str, ...] = (PUT, FAST)
) -> list[Case]:
    return [Case(one, status, code, kind, whose) for code in codes.split() for one in on]


CODED = [
    # network and HTTP
    *cases("InternalError", 500, Kind.AMBIGUOUS, Cause.ENDPOINT, WRITES),
    *cases("InternalError", 500, Kind.TRANSIENT, Cause.ENDPOINT, READS),
    *cases("ServiceUnavailable", 503, Kind.AMBIGUOUS, Cause.ENDPOINT, WRITES),
    *cases("ServiceUnavailable", 503, Kind.TRANSIENT, Cause.ENDPOINT, READS),
    *cases("PermanentRedirect", 301, Kind.ENVIRONMENT, Cause.ENDPOINT, (FAST,)),
    *cases("AuthorizationHeaderMalformed", 400, Kind.ENVIRONMENT, Cause.ENDPOINT),
    *cases("IncompleteBody RequestTimeout", 400, Kind.TRANSIENT, Scope.FILE, (PUT, FAST, PART)),
    *cases("NotImplemented", 501, Kind.ENVIRONMENT, Cause.ENDPOINT, WRITES),
    *cases("MethodNotAllowed", 405, Kind.ENVIRONMENT, Cause.ENDPOINT),
    *cases("InsufficientStorage XMinioStorageFull", 507, Kind.ENVIRONMENT, Cause.QUOTA),
    *cases("QuotaExceeded StorageFull", 403, Kind.ENVIRONMENT, Cause.QUOTA),
    # throttle
    *cases("SlowDown", 503, Kind.THROTTLED, Cause.THROTTLE, ALL),
    *cases("Throttling ThrottlingException", 400, Kind.THROTTLED, Cause.THROTTLE),
    *cases("RequestLimitExceeded BandwidthLimitExceeded", 503, Kind.THROTTLED, Cause.THROTTLE),
    *cases("TooManyRequests", 429, Kind.THROTTLED, Cause.THROTTLE),
    *cases("KMS.ThrottlingException", 400, Kind.THROTTLED, Cause.THROTTLE),
    *cases("OperationAborted", 409, Kind.TRANSIENT, Scope.FILE, (*WRITES, PART)),
    # credentials and clock
    # each of these makes new clients, which takes long
    *cases("ExpiredToken", 400, Kind.ENVIRONMENT, Cause.CREDENTIALS, (PUT, FAST, COMPLETE, LIST)),
    *cases("ExpiredTokenException", 400, Kind.ENVIRONMENT, Cause.CREDENTIALS, (PART,)),
    *cases("TokenRefreshRequired", 400, Kind.ENVIRONMENT, Cause.CREDENTIALS, (PART,)),
    *cases("RequestExpired InvalidToken", 400, Kind.ENVIRONMENT, Cause.CREDENTIALS, (PART,)),
    *cases("InvalidAccessKeyId", 403, Kind.ENVIRONMENT, Cause.CREDENTIALS, (FAST,)),
    *cases("SignatureDoesNotMatch", 403, Kind.ENVIRONMENT, Cause.CREDENTIALS, (PUT,)),
    *cases("RequestTimeTooSkewed", 403, Kind.ENVIRONMENT, Cause.CLOCK, (PUT, FAST, PART, COMPLETE)),
    *cases("AccessDenied", 403, Kind.PERMANENT, Scope.RUN, (*WRITES, PART, GET, LIST)),
    *cases("AccessDenied", 403, Kind.PERMANENT, Cause.BUCKET, (ABORT,)),
    *cases("KMS.DisabledException KMS.NotFoundException", 400, Kind.ENVIRONMENT, Cause.BUCKET),
    *cases("KMS.InvalidStateException", 400, Kind.ENVIRONMENT, Cause.BUCKET),
    *cases("AccountProblem AllAccessDisabled NotSignedUp", 403, Kind.ENVIRONMENT, Cause.BUCKET),
    *cases("NoSuchBucket", 404, Kind.ENVIRONMENT, Cause.BUCKET, ALL),
    # integrity and parts
    *cases("BadDigest InvalidDigest", 400, Kind.PERMANENT, Scope.FILE, (PUT, FAST, PART, COMPLETE)),
    *cases("XAmzContentChecksumMismatch", 400, Kind.PERMANENT, Scope.FILE),
    *cases("XAmzContentSHA256Mismatch", 400, Kind.PERMANENT, Scope.FILE),
    *cases("InvalidPart", 400, Kind.TRANSIENT, Scope.FILE, (COMPLETE,)),
    *cases("InvalidPartOrder EntityTooSmall", 400, Kind.PERMANENT, Scope.FILE, (COMPLETE,)),
    *cases("MalformedXML InvalidRequest", 400, Kind.PERMANENT, Scope.FILE, (COMPLETE, CREATE)),
    *cases("InvalidArgument", 400, Kind.PERMANENT, Scope.FILE, (PART,)),
    *cases("EntityTooLarge MaxMessageLengthExceeded", 400, Kind.PERMANENT, Scope.FILE),
    *cases("KeyTooLongError InvalidURI", 400, Kind.PERMANENT, Scope.FILE, (PUT, FAST, CREATE)),
    *cases("MetadataTooLarge", 400, Kind.PERMANENT, Scope.RUN, (PUT, FAST, CREATE)),
    *cases("NoSuchUpload", 404, Kind.AMBIGUOUS, Scope.FILE, (PART, LIST_PARTS, COMPLETE)),
    *cases("PreconditionFailed", 412, Kind.AMBIGUOUS, Scope.FILE, (PUT, FAST, COMPLETE)),
    *cases("ConditionalRequestConflict", 409, Kind.AMBIGUOUS, Scope.FILE, (PUT, FAST, COMPLETE)),
    *cases("InvalidObjectState ObjectLocked", 403, Kind.PERMANENT, Scope.FILE),
    *cases("ObjectAlreadyInActiveTierError", 403, Kind.PERMANENT, Scope.FILE),
    # nobody knows it
    *cases("XNeverHeardOf", 400, Kind.UNKNOWN, Scope.FILE, ALL),
]


@pytest.mark.parametrize("case", CODED, ids=str)
def test_an_answer_with_a_code_means_what_research_says(
    proxy: FaultProxy, shared: S3Store, case: Case
) -> None:
    assert case.status is not None
    proxy.script(rule(Answer(case.status, case.code)))
    assert facts(failure_of(lambda: CALLS[case.operation](shared))) == case.expected
    assert len(proxy.log) == 1


def bare(
    statuses: str, kind: Kind, whose: Scope | Cause, on: tuple[str, ...] = (PUT, FAST)
) -> list[Case]:
    return [Case(one, int(code), code, kind, whose) for code in statuses.split() for one in on]


BARE = [
    *bare("500 502 503 504 408 425", Kind.AMBIGUOUS, Cause.ENDPOINT, WRITES),
    *bare("500 502 503 504 408 425", Kind.TRANSIENT, Cause.ENDPOINT, (HEAD, *READS)),
    *bare("429", Kind.THROTTLED, Cause.THROTTLE, (HEAD, *ALL)),
    *bare("411 413 414", Kind.PERMANENT, Scope.FILE),
    *bare("405 407 501", Kind.ENVIRONMENT, Cause.ENDPOINT),
    *bare("303 308", Kind.ENVIRONMENT, Cause.ENDPOINT, (PART,)),
    *bare("401", Kind.ENVIRONMENT, Cause.CREDENTIALS),
    *bare("507", Kind.ENVIRONMENT, Cause.QUOTA),
    *bare("403", Kind.PERMANENT, Scope.RUN),
    *bare("409 412", Kind.AMBIGUOUS, Scope.FILE, WRITES),
    *bare("403", Kind.UNKNOWN, Cause.BUCKET, (HEAD,)),
    *bare("400", Kind.UNKNOWN, Cause.CREDENTIALS, (HEAD,)),
    *bare("418", Kind.UNKNOWN, Scope.FILE, (HEAD, *ALL)),
]


@pytest.mark.parametrize("case", BARE, ids=str)
def test_a_bare_status_means_what_research_says(
    proxy: FaultProxy, shared: S3Store, case: Case
) -> None:
    assert case.status is not None
    proxy.script(rule(Answer(case.status)))
    assert facts(failure_of(lambda: CALLS[case.operation](shared))) == case.expected


# -- no answer, or one that is not the store's


LOST: list[tuple[str, Fault, Case]] = [
    *[
        (name, fault, Case(one, None, code, Kind.AMBIGUOUS, Scope.FILE))
        for name, fault, code in (
            ("dropped before", DropBefore(), "ConnectionClosedError"),
            ("dropped after", DropAfter(), "ConnectionClosedError"),
            ("no answer", Hang(), "ReadTimeoutError"),
            ("cut, connection open", Truncate(5, closes=False, applied=False), "ReadTimeoutError"),
        )
        for one in (PUT, COMPLETE)
    ],
    *[
        (name, fault, Case(one, None, code, Kind.TRANSIENT, Scope.FILE))
        for name, fault, code in (
            ("dropped", DropBefore(), "ConnectionClosedError"),
            ("no answer", Hang(), "ReadTimeoutError"),
        )
        for one in (PART, HEAD, LIST, LIST_PARTS)
    ],
    *[
        (name, fault, Case(one, None, "ConnectionClosedError", Kind.AMBIGUOUS, Scope.FILE))
        for name, fault, one in (
            ("in mid-body", ResetMid(100), PUT),
            ("in mid-body", ResetMid(100), FAST),
            ("dropped", DropAfter(), FAST),
            ("dropped", DropAfter(), CREATE),
        )
    ],
    (
        "in mid-body",
        ResetMid(100),
        Case(PART, None, "ConnectionClosedError", Kind.TRANSIENT, Scope.FILE),
    ),
    ("no answer", Hang(), Case(FAST, None, "ReadTimeoutError", Kind.AMBIGUOUS, Scope.FILE)),
    *[
        (name, fault, Case(one, 200, "NoETag", Kind.AMBIGUOUS, Scope.FILE))
        for name, fault in (("empty", Answer()), ("HTML", Answer(body=HTML)))
        for one in (PUT, FAST, COMPLETE)
    ],
    ("HTML", Answer(body=HTML), Case(CREATE, 200, "NoUploadId", Kind.AMBIGUOUS, Scope.FILE)),
    ("HTML", Answer(body=HTML), Case(PART, 200, "NoETag", Kind.TRANSIENT, Scope.FILE)),
    ("HTML", Answer(body=HTML), Case(HEAD, 200, "NoETag", Kind.TRANSIENT, Scope.FILE)),
    ("HTML", Answer(body=HTML), Case(LIST, 200, "NotAListing", Kind.TRANSIENT, Scope.FILE)),
    # botocore makes a 500 of what it cannot read
    (
        "error in a success",
        Answer(200, "InternalError"),
        Case(COMPLETE, 500, "InternalError", Kind.AMBIGUOUS, Cause.ENDPOINT),
    ),
    (
        "cut XML",
        Answer(body=b"<CompleteMultipartUploadResult><ETag>e"),
        Case(COMPLETE, 500, "500", Kind.AMBIGUOUS, Cause.ENDPOINT),
    ),
    (
        "unreadable",
        Answer(body=b"<ListBucketResult><Key>\x01</Key></ListBucketResult>"),
        Case(LIST, 500, "500", Kind.TRANSIENT, Cause.ENDPOINT),
    ),
    # a host that redirects everything
    *[
        (
            "portal",
            Answer(status, headers=(("Location", "http://portal.example/"),)),
            Case(one, None, "PermanentRedirect", Kind.ENVIRONMENT, Cause.ENDPOINT),
        )
        for status, one in ((301, HEAD), (302, PUT), (307, COMPLETE))
    ],
]


@pytest.mark.parametrize(
    ("fault", "case"), [pytest.param(fault, case, id=f"{n}-{case}") for n, fault, case in LOST]
)
def test_a_missing_answer_or_a_strange_one_means_what_research_says(
    proxy: FaultProxy, shared: S3Store, impatient: S3Store, fault: Fault, case: Case
) -> None:
    proxy.script(rule(fault))
    store = impatient if case.expected[0] == "ReadTimeoutError" else shared
    assert facts(failure_of(lambda: CALLS[case.operation](store))) == case.expected


def test_a_body_cut_while_it_is_read_back_is_transient(
    proxy: FaultProxy, settings: StoreSettings
) -> None:
    store = open_store(settings)
    key = f"{settings.prefix}/cut"
    store.put_absent(key, BODY, CRC64, "t")
    proxy.script(rule(Truncate(100), on=GET))
    code, kind, whose = facts(failure_of(lambda: b"".join(store.read(key))))
    assert code in {"ResponseStreamingError", "ConnectionClosedError"}
    assert (kind, whose) == (Kind.TRANSIENT, Scope.FILE)
    proxy.script(rule(Truncate(100, closes=False), on=GET))
    soon = open_store(settings.model_copy(update={"read_timeout_s": 1}))
    assert facts(failure_of(lambda: b"".join(soon.read(key))))[1] is Kind.TRANSIENT


def test_a_listing_that_cannot_be_trusted_is_transient(
    proxy: FaultProxy, settings: StoreSettings
) -> None:
    truncated = EditReply(body=lambda body: body.replace(b">false<", b">true<"))
    proxy.script(rule(truncated, on=LIST))
    store = open_store(settings)
    expected = ("MissingCursor", Kind.TRANSIENT, Scope.FILE)
    assert facts(failure_of(lambda: list(store.list_objects("raw/")))) == expected


# -- a refused HEAD says nothing, what follows it does


@pytest.mark.parametrize(
    ("head", "status", "code", "cause"),
    [
        (400, 400, "ExpiredToken", Cause.CREDENTIALS),
        (403, 403, "SignatureDoesNotMatch", Cause.CREDENTIALS),
        (403, 403, "InvalidAccessKeyId", Cause.CREDENTIALS),
        (403, 403, "RequestTimeTooSkewed", Cause.CLOCK),
    ],
)
def test_a_refused_head_is_asked_about_by_a_request_whose_refusal_has_a_body(
    proxy: FaultProxy, shared: S3Store, head: int, status: int, code: str, cause: Cause
) -> None:
    proxy.script(rule(Answer(head), on=HEAD), rule(Answer(status, code), on=GET))
    assert facts(failure_of(lambda: shared.find_object(KEY))) == (code, Kind.ENVIRONMENT, cause)


@pytest.mark.parametrize(
    "get", [Answer(403, "AccessDenied"), Answer(404, "NoSuchKey"), DropBefore(), Answer(403)]
)
def test_where_that_says_nothing_either_it_stays_unknown_and_is_never_absence(
    proxy: FaultProxy, shared: S3Store, get: Fault
) -> None:
    proxy.script(rule(Answer(403), on=HEAD), rule(get, on=GET))
    expected = ("403", Kind.UNKNOWN, Cause.BUCKET)
    assert facts(failure_of(lambda: shared.find_object(KEY))) == expected


# -- connections that are never made


def test_an_endpoint_that_is_not_there_is_the_endpoints_affair(
    proxy: FaultProxy, shared: S3Store
) -> None:
    expected = ("EndpointConnectionError", Kind.ENVIRONMENT, Cause.ENDPOINT)
    proxy.refuse()
    try:
        for call in CALLS.values():
            assert facts(failure_of(lambda call=call: call(shared))) == expected  # type: ignore[misc]
    finally:
        proxy.accept()


def elsewhere(settings: StoreSettings, url: str) -> S3Store:
    return open_store(settings.model_copy(update={"endpoint_url": url}))


@contextmanager
def listening(greeting: bytes | None = None, *, resets: bool = False) -> Iterator[int]:
    """A port that greets whoever connects and leaves, or resets the connection after a first word;
    without a greeting nobody is let in."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        if greeting is None:
            with socket.create_connection(("127.0.0.1", port)):
                yield port
            return
        stop = threading.Event()

        def greet() -> None:
            while not stop.is_set():
                client, _ = server.accept()
                client.sendall(greeting)
                if resets:
                    client.recv(1)
                    linger = struct.pack("ii", 1, 0)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                client.close()

        thread = threading.Thread(target=greet)
        thread.start()
        try:
            yield port
        finally:
            stop.set()
            socket.create_connection(("127.0.0.1", port)).close()
            thread.join()


def test_a_connection_that_is_not_taken_in_time_is_the_endpoints_affair(
    settings: StoreSettings,
) -> None:
    with listening() as port:
        store = elsewhere(settings, f"http://127.0.0.1:{port}")
        failure = failure_of(lambda: store.put_absent(KEY, BODY, CRC64, "t"))
    assert facts(failure) == ("ConnectTimeoutError", Kind.ENVIRONMENT, Cause.ENDPOINT)


@pytest.mark.parametrize("name", [PUT, FAST])
def test_tls_that_is_none_is_the_endpoints_affair(settings: StoreSettings, name: str) -> None:
    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        store = elsewhere(settings, f"https://127.0.0.1:{port}")
        failure = failure_of(lambda: CALLS[name](store))
    assert facts(failure) == ("SSLError", Kind.ENVIRONMENT, Cause.ENDPOINT)


@pytest.mark.parametrize("resets", [False, True])
def test_tls_that_is_cut_is_a_lost_connection(settings: StoreSettings, resets: bool) -> None:
    with listening(b"", resets=resets) as port:
        store = elsewhere(settings, f"https://127.0.0.1:{port}")
        failure = failure_of(lambda: store.put_part(KEY, "u", 1, BODY, CRC64))
    assert facts(failure) == ("ConnectionClosedError", Kind.TRANSIENT, Scope.FILE)


def test_a_web_proxy_that_is_not_there_is_the_endpoints_affair(
    settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        failure = failure_of(lambda: CALLS[PUT](open_store(settings)))
    assert facts(failure) == ("ProxyConnectionError", Kind.ENVIRONMENT, Cause.ENDPOINT)


# -- credentials that this host does not have


def no_credentials(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.delenv("AWS_ACCESS_KEY_ID")
    patch.delenv("AWS_SECRET_ACCESS_KEY")
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    patch.setenv("AWS_CONFIG_FILE", str(folder / "config"))


def half_credentials(patch: pytest.MonkeyPatch, folder: Path) -> None:
    no_credentials(patch, folder)
    patch.setenv("AWS_ACCESS_KEY_ID", "user")


def failing_credentials(patch: pytest.MonkeyPatch, folder: Path) -> None:
    no_credentials(patch, folder)
    (folder / "config").write_text("[default]\ncredential_process = false\n")


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (no_credentials, "NoCredentialsError"),
        (half_credentials, "PartialCredentialsError"),
        (failing_credentials, "CredentialRetrievalError"),
    ],
)
@pytest.mark.parametrize("name", [PUT, FAST])
def test_credentials_that_cannot_be_had_are_this_hosts_affair(
    settings: StoreSettings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    prepare: Callable[[pytest.MonkeyPatch, Path], None],
    code: str,
    name: str,
) -> None:
    prepare(monkeypatch, tmp_path)
    store = open_store(settings)
    assert facts(failure_of(lambda: CALLS[name](store))) == (code, Kind.ENVIRONMENT, Cause.LOCAL)


# -- requests that cannot be made, and what no library foresaw


@pytest.mark.parametrize(
    ("key", "how"), [("", "put_absent"), ("raw/\udcff", "put_absent"), ("raw/\udcff", "put_fast")]
)
def test_a_name_that_cannot_be_asked_for_is_permanent(shared: S3Store, key: str, how: str) -> None:
    put: dict[str, Callable[[], object]] = {
        "put_absent": lambda: shared.put_absent(key, BODY, CRC64, "t"),
        "put_fast": lambda: shared.put_fast(key, BODY, "t"),
    }
    expected = ("ParamValidationError", Kind.PERMANENT, Scope.FILE)
    assert facts(failure_of(put[how])) == expected


@pytest.mark.parametrize(
    ("name", "error", "kind"),
    [
        (PUT, ZeroDivisionError("of nobody"), Kind.AMBIGUOUS),
        (COMPLETE, ZeroDivisionError("of nobody"), Kind.AMBIGUOUS),
        (LIST, ZeroDivisionError("of nobody"), Kind.UNKNOWN),
        (LIST, ResponseParserError("unreadable"), Kind.TRANSIENT),
        (CREATE, ResponseParserError("unreadable"), Kind.AMBIGUOUS),
    ],
)
def test_an_exception_that_tells_nothing_leaves_a_creation_open(
    shared: S3Store, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, kind: Kind
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", fail)
    expected = (type(error).__name__, kind, Scope.FILE)
    assert facts(failure_of(lambda: CALLS[name](shared))) == expected


# -- what the real server refuses by itself


def bad_signature(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    patch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    return lambda: CALLS[PUT](open_store(settings))


def bad_signature_of_head(
    settings: StoreSettings, patch: pytest.MonkeyPatch
) -> Callable[[], object]:
    patch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    return lambda: CALLS[HEAD](open_store(settings))


def unknown_key(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    return lambda: CALLS[FAST](open_store(settings))


def missing_bucket(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    elsewhere = settings.model_copy(update={"bucket": "no-such-bucket"})
    return lambda: CALLS[PUT](open_store(elsewhere))


def missing_bucket_of_head(
    settings: StoreSettings, patch: pytest.MonkeyPatch
) -> Callable[[], object]:
    elsewhere = settings.model_copy(update={"bucket": "no-such-bucket"})
    return lambda: CALLS[HEAD](open_store(elsewhere))


def skewed_clock(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    patch.setattr("botocore.crt.auth.get_current_datetime", lambda **_: ahead)
    return lambda: CALLS[PUT](open_store(settings))


def second_object(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    store, key = open_store(settings), f"{settings.prefix}/twice"
    store.put_absent(key, BODY, CRC64, "t")
    return lambda: store.put_fast(key, BODY, "t")


def unknown_upload(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    store = open_store(settings)
    return lambda: store.put_part(f"{settings.prefix}/f", "nonesuch", 1, BODY, CRC64)


def small_part(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    store, key = open_store(settings), f"{settings.prefix}/small"
    upload_id = store.create_upload(key, "t")
    parts = {
        number: Part(CRC64, len(BODY), store.put_part(key, upload_id, number, BODY, CRC64))
        for number in (1, 2)
    }
    return lambda: store.complete_upload(key, upload_id, parts, crc64nvme(BODY + BODY))


def missing_part(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    store, key = open_store(settings), f"{settings.prefix}/missing"
    upload_id = store.create_upload(key, "t")
    store.put_part(key, upload_id, 1, BODY, CRC64)
    return lambda: store.complete_upload(key, upload_id, PARTS, CRC64)


def long_key(settings: StoreSettings, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    store = open_store(settings)
    return lambda: store.put_absent(f"{settings.prefix}/{'n' * 300}", BODY, CRC64, "t")


REFUSED = [
    (bad_signature, "SignatureDoesNotMatch", Kind.ENVIRONMENT, Cause.CREDENTIALS),
    (bad_signature_of_head, "SignatureDoesNotMatch", Kind.ENVIRONMENT, Cause.CREDENTIALS),
    (unknown_key, "InvalidAccessKeyId", Kind.ENVIRONMENT, Cause.CREDENTIALS),
    (missing_bucket, "NoSuchBucket", Kind.ENVIRONMENT, Cause.BUCKET),
    (missing_bucket_of_head, "NoSuchBucket", Kind.ENVIRONMENT, Cause.BUCKET),
    (skewed_clock, "RequestTimeTooSkewed", Kind.ENVIRONMENT, Cause.CLOCK),
    (second_object, "PreconditionFailed", Kind.AMBIGUOUS, Scope.FILE),
    (unknown_upload, "NoSuchUpload", Kind.AMBIGUOUS, Scope.FILE),
    (small_part, "EntityTooSmall", Kind.PERMANENT, Scope.FILE),
    (missing_part, "InvalidPart", Kind.TRANSIENT, Scope.FILE),
    (long_key, "KeyTooLongError", Kind.PERMANENT, Scope.FILE),
]


@pytest.mark.parametrize(
    ("prepare", "code", "kind", "whose"), REFUSED, ids=[one[0].__name__ for one in REFUSED]
)
def test_what_the_real_server_refuses_means_what_research_says(
    settings: StoreSettings,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[StoreSettings, pytest.MonkeyPatch], Callable[[], object]],
    code: str,
    kind: Kind,
    whose: Scope | Cause,
) -> None:
    assert facts(failure_of(prepare(settings, monkeypatch))) == (code, kind, whose)


@pytest.mark.parametrize("how", [PUT, FAST])
def test_a_body_damaged_on_the_way_is_refused_by_the_real_server(
    proxy: FaultProxy, settings: StoreSettings, how: str
) -> None:
    proxy.script(rule(FlipByte(7), on=PUT))
    store, key = open_store(settings), f"{settings.prefix}/damaged"
    put: dict[str, Callable[[], object]] = {
        PUT: lambda: store.put_absent(key, BODY, CRC64, "t"),
        FAST: lambda: store.put_fast(key, BODY, "t"),
    }
    assert facts(failure_of(put[how])) == ("BadDigest", Kind.PERMANENT, Scope.FILE)
    assert store.find_object(key) is None


def test_a_request_sent_for_too_long_is_no_wrong_clock(
    proxy: FaultProxy, shared: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "STALLED_S", -1.0)
    proxy.script(rule(Answer(403, "RequestTimeTooSkewed")))
    for name in (PUT, FAST, PART):
        failure = failure_of(lambda name=name: CALLS[name](shared))  # type: ignore[misc]
        assert facts(failure) == ("RequestStalled", Kind.TRANSIENT, Scope.FILE)
        assert failure.message.endswith("lower.")


# -- the source


RUN = RunKey("scope", "run 1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "root" / RUN.run / "f"
    made.parent.mkdir(parents=True)
    made.write_bytes(BODY)
    (made.parent / "neighbour").write_bytes(b"n")
    return made


def read(file: Path, meanwhile: Callable[[Path], object] = lambda _: None) -> Callable[[], object]:
    """Settle the file, let something happen, read it."""
    seen = file.stat()
    settled = Fingerprint(seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_ctime_ns)
    meanwhile(file)

    def reading() -> None:
        folder = RunFolder(file.parent.parent, RUN)
        try:
            with folder.open(file.name, settled) as source:
                source.read()
                source.confirm()
        finally:
            folder.close()

    return reading


def to_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def to_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


def to_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def share_emptied(file: Path) -> None:
    for one in (file, file.with_name("neighbour")):
        one.unlink()
    file.parent.rmdir()


def share_gone(file: Path) -> None:
    file.parent.parent.rename(file.parent.parent.with_name("unmounted"))


@pytest.mark.parametrize(
    ("meanwhile", "code", "kind", "whose"),
    [
        (os.unlink, "source_vanished", Kind.SOURCE, Scope.FILE),
        (lambda file: os.truncate(file, 3), "source_changed", Kind.SOURCE, Scope.FILE),
        (to_fifo, "source_refused", Kind.PERMANENT, Scope.FILE),
        (to_loop, "source_refused", Kind.PERMANENT, Scope.FILE),
        (to_folder, "source_refused", Kind.PERMANENT, Scope.FILE),
        (share_emptied, "share_unavailable", Kind.ENVIRONMENT, Cause.SHARE),
        (share_gone, "share_unavailable", Kind.ENVIRONMENT, Cause.SHARE),
    ],
    ids=["vanished", "truncated", "FIFO", "loop", "folder", "share empty", "share gone"],
)
def test_what_becomes_of_a_source_means_what_research_says(
    file: Path, meanwhile: Callable[[Path], None], code: str, kind: Kind, whose: Scope | Cause
) -> None:
    assert facts(failure_of(read(file, meanwhile))) == (code, kind, whose)


def test_a_name_too_long_for_the_file_system_is_permanent(file: Path) -> None:
    folder = RunFolder(file.parent.parent, RUN)
    try:
        failure = failure_of(lambda: folder.open("n" * 300, Fingerprint(1, 1, 1, 1)))
    finally:
        folder.close()
    assert facts(failure) == ("ENAMETOOLONG", Kind.PERMANENT, Scope.FILE)


#: System calls that fail so on this machine only by pretending.
PRETENDED = [
    ("EINTR EAGAIN EBUSY ETXTBSY EDEADLK ESTALE EACCES EPERM", Kind.TRANSIENT, Scope.FILE),
    ("EIO EREMOTEIO", Kind.TRANSIENT, Cause.SHARE),
    ("ENOTCONN EHOSTDOWN EHOSTUNREACH ENETUNREACH", Kind.ENVIRONMENT, Cause.SHARE),
    ("ECONNABORTED ETIMEDOUT ENODEV", Kind.ENVIRONMENT, Cause.SHARE),
    ("EMFILE ENFILE ENOMEM", Kind.ENVIRONMENT, Cause.LOCAL),
    ("ENOSPC EDQUOT EROFS", Kind.ENVIRONMENT, Cause.LOCAL),
    ("EBADF", Kind.UNKNOWN, Scope.FILE),
]


@pytest.mark.parametrize("call", ["open", "pread"])
@pytest.mark.parametrize(
    ("name", "kind", "whose"),
    [(name, kind, whose) for names, kind, whose in PRETENDED for name in names.split()],
)
def test_a_system_call_that_fails_on_the_source_means_what_research_says(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    name: str,
    kind: Kind,
    whose: Scope | Cause,
) -> None:
    real = getattr(os, call)

    def fail(target: object, *args: Any, **kwargs: Any) -> Any:
        if call != "open" or target == b"f":
            raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))
        return real(target, *args, **kwargs)

    reading = read(file)
    monkeypatch.setattr(os, call, fail)
    failure = failure_of(reading)
    monkeypatch.undo()
    # EDEADLOCK is another name for EDEADLK.
    assert facts(failure) == (name.replace("EDEADLK", "EDEADLOCK"), kind, whose)


# -- nothing is left out


def test_every_row_of_the_tables_is_met_by_a_real_error_here() -> None:
    driven = [*CODED, *BARE, *(case for _, _, case in LOST)]
    driven += [
        Case(PUT, None, code, Kind.ENVIRONMENT, Cause.ENDPOINT)
        for code in ("EndpointConnectionError", "ConnectTimeoutError", "SSLError")
    ]
    driven += [
        Case(PUT, None, "ProxyConnectionError", Kind.ENVIRONMENT, Cause.ENDPOINT),
        Case(PUT, None, "NoCredentialsError", Kind.ENVIRONMENT, Cause.LOCAL),
        Case(PUT, None, "EMFILE", Kind.ENVIRONMENT, Cause.LOCAL),  # met in test_s3_wire.py
        Case(PUT, None, "ParamValidationError", Kind.PERMANENT, Scope.FILE),
        Case(PUT, 403, "RequestStalled", Kind.TRANSIENT, Scope.FILE),
        Case(GET, None, "ResponseStreamingError", Kind.TRANSIENT, Scope.FILE),
        Case(LIST, None, "ResponseParserError", Kind.TRANSIENT, Scope.FILE),
    ]
    met = {
        next(
            (
                number
                for number, row in enumerate(ANSWERS)
                if row.matches(case.operation.split()[0], case.status, case.code)
            ),
            None,
        )
        for case in driven
    }
    left = [row for number, row in enumerate(ANSWERS) if number not in met]
    # Rows of an outcome that was looked into, and of a library that is missing on this host.
    assert [row for row in left if not (_is_second_look(row) or _is_of_a_library(row))] == []
    pretended = {name for names, _, _ in PRETENDED for name in names.split()}
    elsewhere = {"MemoryError", "ENAMETOOLONG", "EDEADLOCK"}
    assert {code for row in ERRNOS for code in row.codes} - pretended == elsewhere


def _is_second_look(row: Row) -> bool:
    return row.kind is Kind.TRANSIENT and (
        "PreconditionFailed" in row.codes or row.statuses == {409, 412}
    )


def _is_of_a_library(row: Row) -> bool:
    return "MissingDependencyException" in row.codes


def test_a_codes_own_words_are_kept_for_the_operator(proxy: FaultProxy, shared: S3Store) -> None:
    proxy.script(rule(Answer(403, "AccessDenied")))
    with pytest.raises(StoreError) as failed:
        CALLS[PUT](shared)
    assert "answered 403 AccessDenied" in str(failed.value)
    assert classify(failed.value).message == str(failed.value)

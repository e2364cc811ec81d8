"""What kind is each error? One case a row of the tables."""

import builtins
import errno

import pytest

from labferry.errors import (
    BadListing,
    BadName,
    ChecksumMismatch,
    LabferryError,
    LedgerUnavailable,
    ObjectConflict,
    Refused,
    ShareUnavailable,
    SourceChanged,
    SourceError,
    SourceRefused,
    SourceVanished,
    StoreError,
    WeakEvidence,
)
from labferry.failure_table import ANSWERS, ERRNOS, OWN, Row
from labferry.failures import Cause, Failure, Kind, Scope, classify, classify_undone, unforeseen

PUT, PART, HEAD = "PutObject", "UploadPart", "HeadObject"
CREATE, COMPLETE = "CreateMultipartUpload", "CompleteMultipartUpload"


def answer(operation: str, status: int | None, code: str) -> StoreError:
    return StoreError(operation=operation, key="k", code=code, status=status)


ANSWERED = [
    (PUT, None, "EMFILE", Kind.ENVIRONMENT, Cause.LOCAL),
    (PUT, None, "EndpointConnectionError", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (COMPLETE, None, "ConnectTimeoutError", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (PUT, None, "ProxyConnectionError", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (PUT, None, "SSLError", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (PUT, 301, "PermanentRedirect", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (PUT, 400, "AuthorizationHeaderMalformed", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (PUT, 501, "NotImplemented", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (PUT, 403, "ExpiredToken", Kind.ENVIRONMENT, Cause.CREDENTIALS),
    (PUT, 403, "InvalidAccessKeyId", Kind.ENVIRONMENT, Cause.CREDENTIALS),
    (PART, 403, "SignatureDoesNotMatch", Kind.ENVIRONMENT, Cause.CREDENTIALS),
    (PUT, None, "NoCredentialsError", Kind.ENVIRONMENT, Cause.LOCAL),
    (PUT, 403, "RequestTimeTooSkewed", Kind.ENVIRONMENT, Cause.CLOCK),
    (PUT, 403, "RequestStalled", Kind.TRANSIENT, Scope.FILE),
    (PUT, 404, "NoSuchBucket", Kind.ENVIRONMENT, Cause.BUCKET),
    (PUT, 403, "AllAccessDisabled", Kind.ENVIRONMENT, Cause.BUCKET),
    (PUT, 400, "KMS.DisabledException", Kind.ENVIRONMENT, Cause.BUCKET),
    (PUT, 507, "XMinioStorageFull", Kind.ENVIRONMENT, Cause.QUOTA),
    (PUT, None, "MissingDependencyException", Kind.ENVIRONMENT, Cause.LOCAL),
    (PUT, 503, "SlowDown", Kind.THROTTLED, Cause.THROTTLE),
    (PUT, 400, "KMS.ThrottlingException", Kind.THROTTLED, Cause.THROTTLE),
    (PUT, 412, "PreconditionFailed", Kind.AMBIGUOUS, Scope.FILE),
    (COMPLETE, 409, "ConditionalRequestConflict", Kind.AMBIGUOUS, Scope.FILE),
    (PART, 404, "NoSuchUpload", Kind.AMBIGUOUS, Scope.FILE),
    (PUT, 409, "OperationAborted", Kind.TRANSIENT, Scope.FILE),
    (PART, 400, "RequestTimeout", Kind.TRANSIENT, Scope.FILE),
    (PUT, 400, "IncompleteBody", Kind.TRANSIENT, Scope.FILE),
    (COMPLETE, 400, "InvalidPart", Kind.TRANSIENT, Scope.FILE),
    (HEAD, 403, "403", Kind.UNKNOWN, Cause.BUCKET),
    (HEAD, 400, "400", Kind.UNKNOWN, Cause.CREDENTIALS),
    ("AbortMultipartUpload", 403, "AccessDenied", Kind.PERMANENT, Cause.BUCKET),
    (PUT, 403, "AccessDenied", Kind.PERMANENT, Scope.RUN),
    (PUT, 400, "MetadataTooLarge", Kind.PERMANENT, Scope.RUN),
    (PUT, 400, "BadDigest", Kind.PERMANENT, Scope.FILE),
    (COMPLETE, 400, "EntityTooSmall", Kind.PERMANENT, Scope.FILE),
    (PUT, 400, "EntityTooLarge", Kind.PERMANENT, Scope.FILE),
    (PUT, 400, "KeyTooLongError", Kind.PERMANENT, Scope.FILE),
    (PUT, None, "ParamValidationError", Kind.PERMANENT, Scope.FILE),
    (PUT, 403, "InvalidObjectState", Kind.PERMANENT, Scope.FILE),
    (PART, 429, "429", Kind.THROTTLED, Cause.THROTTLE),
    (PUT, 412, "412", Kind.AMBIGUOUS, Scope.FILE),
    (PUT, 302, "302", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (PUT, 501, "501", Kind.ENVIRONMENT, Cause.ENDPOINT),
    (PUT, 401, "401", Kind.ENVIRONMENT, Cause.CREDENTIALS),
    (PUT, 507, "507", Kind.ENVIRONMENT, Cause.QUOTA),
    (PUT, 403, "403", Kind.PERMANENT, Scope.RUN),
    (PUT, 413, "413", Kind.PERMANENT, Scope.FILE),
    (PUT, None, "ReadTimeoutError", Kind.AMBIGUOUS, Scope.FILE),
    (CREATE, None, "ConnectionClosedError", Kind.AMBIGUOUS, Scope.FILE),
    (PUT, None, "OddError", Kind.AMBIGUOUS, Scope.FILE),
    (COMPLETE, 200, "NoETag", Kind.AMBIGUOUS, Scope.FILE),
    (COMPLETE, 500, "InternalError", Kind.AMBIGUOUS, Cause.ENDPOINT),
    (PUT, 503, "ServiceUnavailable", Kind.AMBIGUOUS, Cause.ENDPOINT),
    (PUT, 408, "408", Kind.AMBIGUOUS, Cause.ENDPOINT),
    (PART, None, "ConnectionClosedError", Kind.TRANSIENT, Scope.FILE),
    (HEAD, None, "ReadTimeoutError", Kind.TRANSIENT, Scope.FILE),
    ("GetObject", None, "ResponseStreamingError", Kind.TRANSIENT, Scope.FILE),
    ("ListParts", None, "ResponseParserError", Kind.TRANSIENT, Scope.FILE),
    (PART, 500, "InternalError", Kind.TRANSIENT, Cause.ENDPOINT),
    (HEAD, 503, "503", Kind.TRANSIENT, Cause.ENDPOINT),
    (PART, 200, "NoETag", Kind.TRANSIENT, Scope.FILE),
    ("ListParts", 200, "RepeatedCursor", Kind.TRANSIENT, Scope.FILE),
    (PART, 418, "Teapot", Kind.UNKNOWN, Scope.FILE),
    (HEAD, None, "RecursionError", Kind.UNKNOWN, Scope.FILE),
]


def of(failure: Failure) -> Scope | Cause:
    """Return the cause, or the scope where there is none; both have to agree."""
    assert failure.cause is None or failure.cause.scope is failure.scope
    return failure.cause or failure.scope


@pytest.mark.parametrize(("operation", "status", "code", "kind", "whose"), ANSWERED)
def test_an_answer_has_its_kind_and_scope(
    operation: str, status: int, code: str, kind: Kind, whose: Scope | Cause
) -> None:
    failure = classify(answer(operation, status, code))
    assert (failure.kind, failure.code, of(failure)) == (kind, code, whose)


UNDONE = [
    (PUT, None, "ReadTimeoutError", Kind.TRANSIENT),
    (PUT, 412, "PreconditionFailed", Kind.TRANSIENT),
    (PUT, 412, "412", Kind.TRANSIENT),
    (COMPLETE, 503, "ServiceUnavailable", Kind.TRANSIENT),
    (COMPLETE, 404, "NoSuchUpload", Kind.TRANSIENT),
    (PUT, None, "OddError", Kind.UNKNOWN),
    (PUT, 403, "AccessDenied", Kind.PERMANENT),
]


@pytest.mark.parametrize(("operation", "status", "code", "kind"), UNDONE)
def test_once_seen_undone_an_ambiguous_failure_is_of_another_kind(
    operation: str, status: int, code: str, kind: Kind
) -> None:
    assert classify_undone(answer(operation, status, code)).kind is kind


def test_every_row_decides_some_case() -> None:
    def deciding(cases: list[tuple[str, int | None, str]], rows: list[Row]) -> set[Row]:
        found = (next((row for row in rows if row.matches(*case)), None) for case in cases)
        return {row for row in found if row}

    seen = deciding([case[:3] for case in ANSWERED], list(ANSWERS))
    undone = [row for row in ANSWERS if row.kind is not Kind.AMBIGUOUS]
    seen |= deciding([case[:3] for case in UNDONE], undone)
    assert [row for row in ANSWERS if row not in seen] == []


@pytest.mark.parametrize("code", sorted({code for row in ANSWERS for code in row.codes}))
def test_a_code_has_one_meaning_for_one_operation(code: str) -> None:
    kinds = [row.kind for row in ANSWERS if code in row.codes and not row.operations]
    # After the server was asked, an open outcome is an attempt like another.
    assert len(kinds) == 1 or kinds == [Kind.AMBIGUOUS, Kind.TRANSIENT]


@pytest.mark.parametrize("row", [*ANSWERS, *ERRNOS, *(row for _, row in OWN)])
def test_a_row_says_why_and_whose_failure_it_is(row: Row) -> None:
    assert row.why
    assert (row.cause.scope if row.cause else row.scope) is row.scope
    assert (row.cause is None) == (row.scope in (Scope.FILE, Scope.RUN))
    # What opens a breaker for others must not be decided by one file's content.
    if row.kind in (Kind.ENVIRONMENT, Kind.THROTTLED):
        assert row.cause is not None


@pytest.mark.parametrize(
    ("error", "kind", "code", "whose"),
    [
        (SourceChanged(path="p"), Kind.SOURCE, "source_changed", Scope.FILE),
        (SourceVanished(path="p"), Kind.SOURCE, "source_vanished", Scope.FILE),
        (SourceRefused(path="p"), Kind.PERMANENT, "source_refused", Scope.FILE),
        (ShareUnavailable(path="p"), Kind.ENVIRONMENT, "share_unavailable", Cause.SHARE),
        (LedgerUnavailable(url="u", why="w"), Kind.ENVIRONMENT, "ledger_unavailable", Cause.LOCAL),
        (
            WeakEvidence(key="k", level="D", minimum="A"),
            Kind.ENVIRONMENT,
            "weak_evidence",
            Cause.ENDPOINT,
        ),
        (BadName(name="n", why="w"), Kind.PERMANENT, "bad_name", Scope.FILE),
        (Refused(what="x", why="w", step="s"), Kind.PERMANENT, "refused", Scope.FILE),
        (ObjectConflict(key="k", why="w"), Kind.PERMANENT, "object_conflict", Scope.FILE),
        (
            ChecksumMismatch(key="k", ours="1", theirs="2"),
            Kind.PERMANENT,
            "checksum_mismatch",
            Scope.FILE,
        ),
        (SourceError(path="p", errno_name="EWHAT"), Kind.UNKNOWN, "EWHAT", Scope.FILE),
        (LabferryError("new"), Kind.UNKNOWN, "LabferryError", Scope.FILE),
        (BadListing(operation="ListParts", key="k", code="Odd"), Kind.UNKNOWN, "Odd", Scope.FILE),
    ],
)
def test_an_error_of_our_own_has_its_kind_and_scope(
    error: LabferryError, kind: Kind, code: str, whose: Scope | Cause
) -> None:
    failure = classify(error)
    assert (failure.kind, failure.code, failure.message) == (kind, code, str(error))
    assert of(failure) is whose


ERRNO_NAMES = [(name, row) for row in ERRNOS for name in sorted(row.codes)]


@pytest.mark.parametrize(("name", "row"), ERRNO_NAMES)
def test_a_system_call_has_its_kind_and_scope(name: str, row: Row) -> None:
    failure = classify(SourceError(path="p", errno_name=name))
    assert (failure.kind, failure.code, failure.scope) == (row.kind, name, row.scope)


@pytest.mark.parametrize(("name", "row"), ERRNO_NAMES)
def test_an_errno_exists(name: str, row: Row) -> None:
    assert hasattr(errno, name) or hasattr(builtins, name)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (MemoryError(), Kind.ENVIRONMENT, "MemoryError"),
        (OSError(errno.EMFILE, "too many"), Kind.ENVIRONMENT, "EMFILE"),
        (OSError(errno.ENOSPC, "full"), Kind.ENVIRONMENT, "ENOSPC"),
        (PermissionError(errno.EACCES, "of whatever"), Kind.UNKNOWN, "EACCES"),
        (ZeroDivisionError(), Kind.UNKNOWN, "ZeroDivisionError"),
    ],
)
def test_what_nobody_foresaw_is_unknown_unless_this_host_lacks_something(
    error: Exception, kind: Kind, code: str
) -> None:
    failure = unforeseen(error)
    assert (failure.kind, failure.code) == (kind, code)
    assert of(failure) is (Scope.FILE if kind is Kind.UNKNOWN else Cause.LOCAL)


def test_retry_after_is_kept() -> None:
    error = StoreError(operation=PUT, key="k", code="SlowDown", status=503, retry_after_s=7)
    assert classify(error).retry_after_s == 7


def test_a_message_never_decides() -> None:
    error = StoreError(operation=PART, key="k", code="Odd", status=400, detail="SlowDown")
    assert classify(error).kind is Kind.UNKNOWN


def test_every_own_error_class_that_can_end_an_upload_is_listed() -> None:
    assert set(SourceError.__subclasses__()) <= {cls for cls, _ in OWN}

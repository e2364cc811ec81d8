"""Does every foreign exception become the right facts? One row each."""

import ssl
from datetime import UTC, datetime
from typing import Any

import pytest
import urllib3.exceptions as wire
from botocore import exceptions as boto

from labferry.s3.http_answer import BadAnswer, HttpAnswer
from labferry.s3.translate import refusal, retry_after_s, to_store_error

URL = "https://s3.example"
NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)


def chained(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


NO_ANSWER = [
    (boto.EndpointConnectionError(endpoint_url=URL), "EndpointConnectionError"),
    (boto.ConnectTimeoutError(endpoint_url=URL), "ConnectTimeoutError"),
    (boto.ProxyConnectionError(proxy_url=URL), "ProxyConnectionError"),
    (boto.ReadTimeoutError(endpoint_url=URL), "ReadTimeoutError"),
    (boto.ConnectionClosedError(endpoint_url=URL), "ConnectionClosedError"),
    (boto.SSLError(endpoint_url=URL, error=wire.SSLError("x")), "SSLError"),
    (
        boto.SSLError(endpoint_url=URL, error=wire.SSLError(ssl.SSLCertVerificationError(1, "x"))),
        "SSLError",
    ),
    (
        boto.SSLError(endpoint_url=URL, error=wire.SSLError(ssl.SSLEOFError(8, "x"))),
        "ConnectionClosedError",
    ),
    (
        boto.SSLError(endpoint_url=URL, error=wire.SSLError(ssl.SSLZeroReturnError(6, "x"))),
        "ConnectionClosedError",
    ),
    (boto.HTTPClientError(error=ConnectionResetError(104, "x")), "ConnectionClosedError"),
    (boto.HTTPClientError(error=BrokenPipeError(32, "x")), "ConnectionClosedError"),
    (boto.HTTPClientError(error=TimeoutError("x")), "ReadTimeoutError"),
    (boto.HTTPClientError(error=RecursionError("x")), "PermanentRedirect"),
    (boto.HTTPClientError(error=OSError(5, "x")), "HTTPClientError"),
    (boto.ResponseStreamingError(error="x"), "ResponseStreamingError"),
    (
        boto.IncompleteReadError(actual_bytes=1, expected_bytes=2),
        "ResponseStreamingError",
    ),
    (boto.NoCredentialsError(), "NoCredentialsError"),
    (
        boto.PartialCredentialsError(provider="env", cred_var="x"),
        "PartialCredentialsError",
    ),
    (
        boto.CredentialRetrievalError(provider="sso", error_msg="x"),
        "CredentialRetrievalError",
    ),
    (boto.TokenRetrievalError(provider="sso", error_msg="x"), "CredentialRetrievalError"),
    (boto.UnauthorizedSSOTokenError(), "CredentialRetrievalError"),
    (boto.ProfileNotFound(profile="x"), "NoCredentialsError"),
    (boto.ParamValidationError(report="x"), "ParamValidationError"),
    (boto.FlexibleChecksumError(error_msg="x"), "FlexibleChecksumError"),
    (boto.MissingDependencyException(msg="x"), "MissingDependencyException"),
    (UnicodeEncodeError("utf-8", "\udc80", 0, 1, "x"), "ParamValidationError"),
    (RecursionError("x"), "PermanentRedirect"),
    (ConnectionRefusedError(111, "x"), "EndpointConnectionError"),
    (OSError(24, "Too many open files"), "EMFILE"),
    (boto.EndpointConnectionError(endpoint_url=URL, error=OSError(24, "x")), "EMFILE"),
    (chained(boto.HTTPClientError(error="x"), OSError(105, "x")), "ENOBUFS"),
    (ConnectionResetError(104, "x"), "ConnectionClosedError"),
    (TimeoutError("x"), "ReadTimeoutError"),
    (wire.ProxyError("x", OSError(1, "x")), "ProxyConnectionError"),
    (wire.NewConnectionError(None, "x"), "EndpointConnectionError"),  # type: ignore[arg-type]
    (wire.ConnectTimeoutError("x"), "ConnectTimeoutError"),
    (wire.ReadTimeoutError(None, URL, "x"), "ReadTimeoutError"),  # type: ignore[arg-type]
    (wire.IncompleteRead(1, 2), "ResponseStreamingError"),
    (wire.ProtocolError("x", ConnectionResetError(104, "x")), "ConnectionClosedError"),
    (wire.SSLError("x"), "SSLError"),
    (BadAnswer("the server closed the connection"), "ConnectionClosedError"),
    (chained(RuntimeError("x"), boto.NoCredentialsError()), "NoCredentialsError"),
    (KeyError("x"), "KeyError"),
]


@pytest.mark.parametrize(("error", "code"), NO_ANSWER, ids=lambda value: str(value)[:40])
def test_no_answer_has_a_name_and_no_status(error: Exception, code: str) -> None:
    failure = to_store_error(error, "PutObject", "raw/k")
    assert (failure.code, failure.status, failure.retry_after_s) == (code, None, None)
    assert (failure.operation, failure.key) == ("PutObject", "raw/k")


def client_error(code: str, status: int, headers: dict[str, str] | None = None) -> Exception:
    response: dict[str, Any] = {
        "Error": {"Code": code, "Message": "as the server says"},
        "ResponseMetadata": {
            "HTTPStatusCode": status,
            "RequestId": "R1",
            "HTTPHeaders": headers or {},
        },
    }
    return boto.ClientError(response, "PutObject")  # type: ignore[arg-type]


ANSWERED = [
    (client_error("NoSuchBucket", 404), "NoSuchBucket", 404),
    (client_error("SlowDown", 503), "SlowDown", 503),
    (client_error("404", 404), "404", 404),
    (client_error("", 502), "502", 502),
]


@pytest.mark.parametrize(("error", "code", "status"), ANSWERED)
def test_an_answer_keeps_code_and_status(error: Exception, code: str, status: int) -> None:
    failure = to_store_error(error, "PutObject", "raw/k")
    assert (failure.code, failure.status) == (code, status)


def test_an_answer_tells_its_message_and_request() -> None:
    failure = to_store_error(client_error("AccessDenied", 403), "PutObject", "raw/k")
    assert failure.detail == "as the server says (request R1)"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (412, b"<Error><Code>PreconditionFailed</Code></Error>", "PreconditionFailed"),
        (403, b"<Code>KMS.DisabledException</Code>", "KMS.DisabledException"),
        (429, b"", "429"),
        (301, b"", "PermanentRedirect"),
        (307, b"", "307"),
        (502, b"<html>Bad gateway</html>", "502"),
    ],
)
def test_a_refusal_over_the_wire_keeps_code_and_status(status: int, body: bytes, code: str) -> None:
    failure = refusal(HttpAnswer(status, {}, body, True), "PutObject", "raw/k")
    assert (failure.code, failure.status) == (code, status)


def test_a_refusal_over_the_wire_tells_message_request_and_wait() -> None:
    headers = {"retry-after": "7", "x-amz-request-id": "R1"}
    body = b"<Error><Code>SlowDown</Code><Message>not so fast</Message></Error>"
    failure = refusal(HttpAnswer(503, headers, body, True), "PutObject", "raw/k")
    assert failure.detail == "not so fast (request R1)"
    assert failure.retry_after_s == 7


def test_what_was_handled_before_is_not_the_reason() -> None:
    error = boto.ReadTimeoutError(endpoint_url=URL)
    error.__context__ = boto.NoCredentialsError()
    assert to_store_error(error, "HeadObject", "raw/k").code == "ReadTimeoutError"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e20"}, 86_400.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 86_400.0),
        ({"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
        ({"x-amz-retry-after": "250"}, 0.25),
        ({"x-amz-retry-after": "250", "retry-after": "2"}, 2.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT"}, 0.0),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:20 GMT",
            },
            10.0,
        ),
    ],
)
def test_the_asked_wait_is_read_in_all_its_forms(
    headers: dict[str, str], expected: float | None
) -> None:
    assert retry_after_s(headers, NOW) == expected


def test_a_date_without_a_clock_is_no_wait() -> None:
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}) is None

"""What does an exception of botocore, urllib3 or the wire mean, as facts of one failed request?

An answer gives its own code and status; no answer gives one name for one thing, whichever library
met it. Nothing is concluded here: the failure table does that.
"""

import errno
import math
import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import urllib3.exceptions as wire
from botocore import exceptions as boto

from labferry.errors import StoreError
from labferry.s3.http_answer import HttpAnswer

#: No answer: the first row that fits the exception, or one it wraps, names the code; what fits
#: none keeps the name of its class.
NO_ANSWER: tuple[tuple[type[BaseException], str], ...] = (
    # TLS: a reset within it heals, a certificate that is not trusted does not
    (ssl.SSLEOFError, "ConnectionClosedError"),
    (ssl.SSLZeroReturnError, "ConnectionClosedError"),
    (ssl.SSLError, "SSLError"),
    (boto.SSLError, "SSLError"),
    (wire.SSLError, "SSLError"),
    # the request never left
    (boto.ProxyConnectionError, "ProxyConnectionError"),
    (wire.ProxyError, "ProxyConnectionError"),
    (boto.EndpointConnectionError, "EndpointConnectionError"),
    (boto.ConnectTimeoutError, "ConnectTimeoutError"),
    (wire.NewConnectionError, "EndpointConnectionError"),
    (wire.ConnectTimeoutError, "ConnectTimeoutError"),
    (ConnectionRefusedError, "EndpointConnectionError"),
    # it may have been carried out
    (boto.ReadTimeoutError, "ReadTimeoutError"),
    (wire.ReadTimeoutError, "ReadTimeoutError"),
    (TimeoutError, "ReadTimeoutError"),
    (boto.ResponseStreamingError, "ResponseStreamingError"),
    (boto.IncompleteReadError, "ResponseStreamingError"),
    (wire.IncompleteRead, "ResponseStreamingError"),
    (boto.ConnectionClosedError, "ConnectionClosedError"),
    (wire.ProtocolError, "ConnectionClosedError"),
    (ConnectionError, "ConnectionClosedError"),
    # this host has no usable credentials
    (boto.NoCredentialsError, "NoCredentialsError"),
    (boto.PartialCredentialsError, "PartialCredentialsError"),
    (boto.CredentialRetrievalError, "CredentialRetrievalError"),
    (boto.TokenRetrievalError, "CredentialRetrievalError"),
    (boto.UnauthorizedSSOTokenError, "CredentialRetrievalError"),
    (boto.ProfileNotFound, "NoCredentialsError"),
    # the request cannot be made
    (boto.ParamValidationError, "ParamValidationError"),
    (UnicodeEncodeError, "ParamValidationError"),
    # a host that redirects everything, such as a captive portal: botocore follows for ever
    (RecursionError, "PermanentRedirect"),
)

#: This host has no room for one more connection: no library has a name of its own for that.
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

#: Where the exception's own words are of no use to an operator.
_DETAIL = {
    "PermanentRedirect": "The host redirects every request. Check [store] endpoint_url and region.",
}

_XML_CODE = re.compile(rb"<Code>([\w.]+)</Code>")
_XML_MESSAGE = re.compile(rb"<Message>(.*?)</Message>", re.DOTALL)
_MOVED = 301
_MAX_DETAIL = 500
_LONGEST_WAIT_S = 86_400.0


def to_store_error(
    error: Exception, operation: str, key: str, *, now: datetime | None = None
) -> StoreError:
    """Return the facts of a failed request.

    `now` stands in for the server's Date where Retry-After is a date and the server tells none.
    """
    if isinstance(error, boto.ClientError):
        return _answered(error, operation, key, now)
    code = _code_without_answer(error)
    detail = _DETAIL.get(code) or str(error)[:_MAX_DETAIL]
    return StoreError(operation=operation, key=key, code=code, detail=detail)


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return how long the server asks to wait: Retry-After or x-amz-retry-after, the longer; a day
    at most, for what asks for years is out of its mind, and nothing is to be forgotten for it."""
    waits = [
        _seconds(headers.get("x-amz-retry-after"), 1000),
        _seconds(headers.get("retry-after"), 1),
        _until(headers.get("retry-after"), _date(headers.get("date")) or now),
    ]
    longest_s = max((wait for wait in waits if wait is not None), default=None)
    return longest_s if longest_s is None else min(longest_s, _LONGEST_WAIT_S)


def _answered(
    error: boto.ClientError, operation: str, key: str, now: datetime | None
) -> StoreError:
    response: Mapping[str, Any] = error.response
    facts = response.get("Error", {})
    meta = response.get("ResponseMetadata", {})
    request = meta.get("RequestId", "")
    detail = str(facts.get("Message", ""))[:_MAX_DETAIL]
    return StoreError(
        operation=operation,
        key=key,
        code=str(facts.get("Code") or meta.get("HTTPStatusCode", "Unknown")),
        status=meta.get("HTTPStatusCode"),
        retry_after_s=retry_after_s(meta.get("HTTPHeaders", {}), now),
        detail=f"{detail} (request {request})" if request else detail,
    )


def refusal(answer: HttpAnswer, operation: str, key: str) -> StoreError:
    """Return the facts of a request that was answered, and not with success."""
    code, message = _XML_CODE.search(answer.body), _XML_MESSAGE.search(answer.body)
    name = code[1].decode() if code else str(answer.status)
    if answer.status == _MOVED and not code:
        name = "PermanentRedirect"
    said = message[1].decode(errors="replace")[:_MAX_DETAIL] if message else ""
    request = answer.headers.get("x-amz-request-id", "")
    detail = f"{said} (request {request})" if request else said
    return StoreError(
        operation=operation,
        key=key,
        code=name,
        status=answer.status,
        retry_after_s=retry_after_s(answer.headers),
        detail=_DETAIL.get(name, detail),
    )


def no_etag(operation: str, key: str) -> StoreError:
    """Return the error of an answer that claims success and lacks its ETag.

    botocore reads an empty or an HTML page with status 200 as success.
    """
    return StoreError(
        operation=operation,
        key=key,
        code="NoETag",
        status=200,
        detail="The answer is not the store's own; look for a proxy in between.",
    )


def _code_without_answer(error: BaseException) -> str:
    links = list(_chain(error))
    for link in links:
        if isinstance(link, OSError) and link.errno in _OURS:
            return errno.errorcode[link.errno]
    for kind, code in NO_ANSWER:
        if any(isinstance(link, kind) for link in links):
            return code
    return type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what it wraps: botocore, urllib3 and Python each keep it elsewhere.

    `__context__` is not looked at: it may be an earlier failure that was being handled.
    """
    seen: set[int] = set()
    pending: list[object] = [error]
    while pending:
        link = pending.pop(0)
        if isinstance(link, BaseException) and id(link) not in seen:
            seen.add(id(link))
            yield link
            kept = getattr(link, "kwargs", {})
            pending += [kept.get("error"), getattr(link, "reason", None), *link.args]
            pending.append(link.__cause__)


def _seconds(text: str | None, divisor: int) -> float | None:
    try:
        wait = float(text or "") / divisor
    except ValueError:
        return None
    return wait if math.isfinite(wait) and wait >= 0 else None


def _until(text: str | None, now: datetime | None) -> float | None:
    date = _date(text)
    return max((date - now).total_seconds(), 0.0) if date and now else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)

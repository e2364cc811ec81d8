"""Which S3 operation, on which key, is an HTTP request? And what do request and reply look like?"""

from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

Headers = tuple[tuple[str, str], ...]

#: By method, then by the first query argument that is there; '' is none of them.
_OF_KEY = {
    "HEAD": {"": "HeadObject"},
    "GET": {"uploadId": "ListParts", "": "GetObject"},
    "PUT": {"uploadId": "UploadPart", "": "PutObject"},
    "POST": {"uploads": "CreateMultipartUpload", "uploadId": "CompleteMultipartUpload"},
    "DELETE": {"uploadId": "AbortMultipartUpload", "": "DeleteObject"},
}
_OF_BUCKET = {
    "HEAD": {"": "HeadBucket"},
    "GET": {"uploads": "ListMultipartUploads", "": "ListObjectsV2"},
    "POST": {"delete": "DeleteObjects"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came; `key` is decoded, and for a listing its prefix."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""
    operation: str = ""
    key: str = ""
    part: int = 0

    def header(self, name: str) -> str:
        """Return a header's value, or ''."""
        return next((value for one, value in self.headers if one.lower() == name), "")

    def edited(self, changes: dict[str, str | None]) -> Self:
        """Return the request with headers set, or removed where the value is None."""
        return replace(self, headers=edited(self.headers, changes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; to HEAD it has no body and keeps its Content-Length."""

    status: int
    headers: Headers = ()
    body: bytes = field(default=b"", repr=False)


def edited(headers: Headers, changes: dict[str, str | None]) -> Headers:
    """Return headers with some set, or removed where the value is None."""
    names = {name.lower() for name in changes}
    kept = tuple(one for one in headers if one[0].lower() not in names)
    return kept + tuple((name, value) for name, value in changes.items() if value is not None)


def read_request(head: bytes) -> Request:
    """Return the request whose head this is; path-style addressing."""
    method, target, headers = _read_head(head)
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    _, _, key = unquote(parts.path.lstrip("/"), errors="surrogateescape").partition("/")
    table = (_OF_KEY if key else _OF_BUCKET).get(method, {})
    operation = next((table[name] for name in table if name in query), table.get("", method))
    return Request(
        method=method,
        target=target,
        headers=headers,
        operation=operation,
        key=key or query.get("prefix", [""])[0],
        part=int(query.get("partNumber", ["0"])[0]),
    )


def read_reply(received: bytes) -> Reply:
    """Return the reply whose every byte this is, with its body whole and its length told."""
    head, _, body = received.partition(b"\r\n\r\n")
    _, status, headers = _read_head(head)
    if any((n.lower(), v.lower()) == ("transfer-encoding", "chunked") for n, v in headers):
        body = _unchunked(body)
        headers = edited(headers, {"Transfer-Encoding": None, "Content-Length": str(len(body))})
    return Reply(status=int(status), headers=edited(headers, {"Connection": None}), body=body)


def _read_head(head: bytes) -> tuple[str, str, Headers]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    one, two, _ = f"{first} ".split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return one, two, tuple((name, value.strip()) for name, _, value in pairs)


def _unchunked(body: bytes) -> bytes:
    whole = []
    while body:
        size, _, body = body.partition(b"\r\n")
        count = int(size.partition(b";")[0], 16)
        whole.append(body[:count])
        body = body[count + 2 :] if count else b""
    return b"".join(whole)

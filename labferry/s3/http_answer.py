"""What did the server answer? One HTTP/1.1 response, read as it comes in."""

import re
from typing import NamedTuple

#: Answers to a PUT are short; more than that is not the store's.
_MAX_HEAD_BYTES = 64 * 1024
_MAX_BODY_BYTES = 1024 * 1024
_END_OF_LINE, _END_OF_HEAD = b"\r\n", b"\r\n\r\n"
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]{1,16}")
_LONGEST_LENGTH = 16
_CONTINUE, _NO_CONTENT, _OK = 100, 204, 200


class BadAnswer(ConnectionError):
    """What came is no answer that can be read; the connection is of no more use."""


class HttpAnswer(NamedTuple):
    """One response; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    keeps_alive: bool


class AnswerReader:
    """Collects bytes until the answer is whole."""

    __slots__ = ("_buffer", "_head", "_is_old")

    def __init__(self) -> None:
        self._buffer = b""
        self._head: tuple[int, dict[str, str]] | None = None
        self._is_old = False

    def feed(self, data: bytes) -> HttpAnswer | None:
        """Take what came in, b'' for the end; return the answer once it is whole.

        Raises: BadAnswer.
        """
        self._buffer += data
        if self._head is None:
            self._head = self._read_head()
        if self._head is not None:
            status, headers = self._head
            whole = self._body(status, headers, is_over=not data)
            if whole is not None:
                body, rest = whole
                keeps = not self._is_old and "close" not in headers.get("connection", "").lower()
                # What comes unasked would be taken for the answer to the next request.
                return HttpAnswer(status, headers, body, keeps and bool(data) and not rest)
        if not data:
            raise BadAnswer("the server closed the connection before its answer was whole")
        return None

    def _read_head(self) -> tuple[int, dict[str, str]] | None:
        while True:
            head, found, rest = self._buffer.partition(_END_OF_HEAD)
            if not found:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    raise BadAnswer("the head of the answer does not end")
                return None
            first, *lines = head.decode("latin-1").split("\r\n")
            version, _, words = first.partition(" ")
            if not version.startswith("HTTP/1.") or not words[:3].isdecimal():
                raise BadAnswer(f"{first[:80]!r} is no answer of HTTP/1.1")
            self._buffer = rest
            self._is_old = version == "HTTP/1.0"
            status = int(words[:3])
            if _CONTINUE <= status < _OK:
                continue
            split = [line.partition(":") for line in lines]
            return status, {name.strip().lower(): value.strip() for name, _, value in split}

    def _body(
        self, status: int, headers: dict[str, str], *, is_over: bool
    ) -> tuple[bytes, bytes] | None:
        """Return the body and what comes after it, or None while some is missing."""
        if len(self._buffer) > _MAX_BODY_BYTES:
            raise BadAnswer("the answer is too long")
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return _unchunked(self._buffer)
        length = "0" if status == _NO_CONTENT else headers.get("content-length")
        if length is None:
            return (self._buffer, b"") if is_over else None
        if not length.isdecimal() or len(length) > _LONGEST_LENGTH:
            raise BadAnswer(f"{length[:80]!r} is no length")
        size = int(length)
        return (self._buffer[:size], self._buffer[size:]) if len(self._buffer) >= size else None


def _unchunked(buffer: bytes) -> tuple[bytes, bytes] | None:
    """Return the body that chunks make and what comes after, or None while some is missing."""
    pieces: list[bytes] = []
    at = 0
    while (line_end := buffer.find(_END_OF_LINE, at)) >= 0:
        size = _size_of_chunk(buffer[at:line_end])
        if size == 0:  # fields may follow, then an empty line
            _, found, rest = buffer[line_end:].partition(_END_OF_HEAD)
            return (b"".join(pieces), rest) if found else None
        begin = line_end + len(_END_OF_LINE)
        at = begin + size + len(_END_OF_LINE)
        if len(buffer) < at:
            return None
        if buffer[begin + size : at] != _END_OF_LINE:
            raise BadAnswer("a chunk is longer than it says")
        pieces.append(buffer[begin : begin + size])
    return None


def _size_of_chunk(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not _HEXADECIMAL.fullmatch(digits):
        raise BadAnswer(f"{line[:80]!r} is no length of a chunk")
    return int(digits, 16)

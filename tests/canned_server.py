"""An HTTP server that answers as told, as no real one would, and remembers what it was asked."""

import contextlib
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.waiting import eventually


@dataclass(frozen=True, slots=True)
class Answer:
    """What to answer; `then` cuts the connection instead, or before the body is whole.

    `once_asked`: not before so many requests are there.
    """

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    then: Literal["keep", "drop", "cut", "hang"] = "keep"
    after_s: float = 0
    once_asked: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class CannedServer:
    """Gives `answers` one by one, the last for ever; `asked` holds the requests, `peers` the
    connections they came by."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.asked: list[Asked] = []
        self.peers: set[object] = set()
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        canned = self

        class Handler(_Handler):
            server_of_test = canned

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, *answers: Answer) -> None:
        """Set what comes next and forget what was asked."""
        self.answers = deque(answers)
        self.asked.clear()

    def next_answer(self, asked: Asked) -> Answer:
        """Record a request and choose its answer."""
        with self._lock:
            self.asked.append(asked)
            return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # many connect at once


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_test: CannedServer

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.server_of_test.next_answer(
            Asked(
                method=self.command,
                path=unquote(parts.path, errors="strict"),
                query={name: values[0] for name, values in _query(parts.query).items()},
                headers={name.lower(): value for name, value in self.headers.items()},
                body=body,
            )
        )
        self.server_of_test.peers.add(self.client_address)
        self.server_of_test.stopping.wait(answer.after_s)
        eventually(lambda: len(self.server_of_test.asked) >= answer.once_asked)
        with contextlib.suppress(OSError):
            self._give(answer)

    def _give(self, answer: Answer) -> None:
        if answer.then == "drop":
            return self._reset()
        if answer.then == "hang":
            self.server_of_test.stopping.wait()
            return self._reset()
        body = answer.body.encode()
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if answer.then == "cut" else body)
        if answer.then == "cut":
            self._reset()
        return None

    def _reset(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def log_message(self, *_: object) -> None:
        """Be silent."""

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815  names are http.server's


def _query(text: str) -> dict[str, list[str]]:
    return parse_qs(text, keep_blank_values=True)

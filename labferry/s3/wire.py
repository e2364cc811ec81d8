"""How do bytes get into the bucket with the least that HTTP asks for?

A request is one head, one body and one answer, over connections that are kept. It is written as a
generator that says what it waits for, so that one thread may have many under way (`flights.py`),
and a thread of its own is just as good. One attempt a request: whatever is not a clear answer is an
exception, and `bucket.py` says what it means.
"""

import socket
import ssl
import weakref
from collections import deque
from collections.abc import Callable, Generator
from select import POLLIN, POLLOUT, poll
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlsplit

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from labferry.s3.http_answer import AnswerReader, BadAnswer, HttpAnswer
from labferry.store_port import Buffer

_READ_BYTES = 64 * 1024
#: Firewalls and NAT forget a connection that rests, and tell nobody: some after four minutes.
_IDLE_S = 60.0
_SUCCESS = 2


class _Idle(NamedTuple):
    """A connection that is kept, and since when."""

    link: socket.socket
    since_s: float


class Waiting(NamedTuple):
    """What a request waits for: that a socket can be read or written, for so long at most."""

    socket: socket.socket
    event: int
    timeout_s: float


#: Ends with the answer; TimeoutError is thrown in when the wait was too long.
Request = Generator[Waiting, None, HttpAnswer]


class Wire:
    """Connections to one host, for one process. Safe in threads."""

    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float,
        read_timeout_s: float,
        context: Callable[[], ssl.SSLContext],
    ) -> None:
        """`context` makes what TLS needs, where the URL asks for it."""
        parts = urlsplit(url)
        self._url = url
        self._name = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._context = context() if parts.scheme == "https" else None
        self._idle: deque[_Idle] = deque()
        weakref.finalize(self, _close_all, self._idle)

    def ask(self, head: bytes, body: Buffer) -> HttpAnswer:
        """Send one request and wait for its answer. Raises: OSError, BotoCoreError."""
        request = self.request(head, body)
        try:
            waiting = next(request)
            while True:
                if is_ready(waiting):
                    waiting = request.send(None)
                else:
                    waiting = request.throw(TimeoutError("no answer in time"))
        except StopIteration as end:
            answer: HttpAnswer = end.value
            return answer

    def request(self, head: bytes, body: Buffer) -> Request:
        """Send one request, on an idle connection or a new one."""
        link = self._find_idle() or (yield from self._connect())
        keeps = False
        try:
            answer = yield from self._exchange(link, head, body)
            keeps = answer.keeps_alive
        finally:
            if keeps:
                self._rest(link)
            else:
                link.close()
        return answer

    def _rest(self, link: socket.socket) -> None:
        now_s = monotonic()
        self._idle.append(_Idle(link, now_s))
        # The oldest are used last: without this they would stay for as long as the process.
        while (oldest := self._take(self._idle.popleft)) is not None:
            if now_s - oldest.since_s < _IDLE_S:
                self._idle.appendleft(oldest)
                return
            oldest.link.close()

    def _find_idle(self) -> socket.socket | None:
        while (idle := self._take(self._idle.pop)) is not None:
            # What can be read before anything was asked is the server's goodbye.
            if monotonic() - idle.since_s < _IDLE_S and not is_ready(Waiting(idle.link, POLLIN, 0)):
                return idle.link
            idle.link.close()
        return None

    @staticmethod
    def _take(pop: Callable[[], _Idle]) -> _Idle | None:
        try:
            return pop()
        except IndexError:  # another thread took the last one
            return None

    def _connect(self) -> Generator[Waiting, None, socket.socket]:
        error: Exception | None = None
        try:
            found = socket.getaddrinfo(self._name, self._port, type=socket.SOCK_STREAM)
        except OSError as unknown:
            raise EndpointConnectionError(endpoint_url=self._url, error=unknown) from unknown
        for family, kind, protocol, _, address in found:
            try:
                link = socket.socket(family, kind, protocol)
            except OSError as unable:  # a host without IPv6, or without a free descriptor
                error = EndpointConnectionError(endpoint_url=self._url, error=unable)
                continue
            try:
                yield from self._open(link, address)
                return (yield from self._secured(link)) if self._context else link
            except TimeoutError as late:
                error = ConnectTimeoutError(endpoint_url=self._url, error=late)
            except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
                link.close()  # it was accepted, and broke while it was made secure
                raise
            except OSError as refused:
                error = EndpointConnectionError(endpoint_url=self._url, error=refused)
            except BaseException:
                link.close()
                raise
            link.close()
        raise error or EndpointConnectionError(endpoint_url=self._url, error="it has no address")

    def _open(self, link: socket.socket, address: object) -> Generator[Waiting, None, None]:
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            link.connect(address)  # type: ignore[arg-type]  # as getaddrinfo gave it
        except BlockingIOError:
            yield Waiting(link, POLLOUT, self._connect_timeout_s)
            code = link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, "the connection was not accepted") from None

    def _secured(self, link: socket.socket) -> Generator[Waiting, None, socket.socket]:
        assert self._context is not None  # noqa: S101  the caller has seen it
        secured = self._context.wrap_socket(
            link, server_hostname=self._name, do_handshake_on_connect=False
        )
        try:
            while True:
                try:
                    secured.do_handshake()
                    return secured
                except ssl.SSLWantReadError:
                    yield Waiting(secured, POLLIN, self._connect_timeout_s)
                except ssl.SSLWantWriteError:
                    yield Waiting(secured, POLLOUT, self._connect_timeout_s)
        except BaseException:
            secured.close()
            raise

    def _exchange(self, link: socket.socket, head: bytes, body: Buffer) -> Request:
        try:
            if len(body) <= _READ_BYTES:
                yield from self._send(link, head + body)
            else:
                yield from self._send(link, head)
                yield from self._send(link, body)
        except OSError:
            # A server that refuses early answers before it has all, and closes or reads no more.
            answer = _early_answer(link)
            if answer is None or answer.status // 100 == _SUCCESS:  # of bytes that it has not?
                raise
            return answer._replace(keeps_alive=False)
        return (yield from self._receive(link))

    def _send(self, link: socket.socket, data: Buffer) -> Generator[Waiting, None, None]:
        left = memoryview(data)
        while left:
            try:
                left = left[link.send(left) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                yield Waiting(link, POLLOUT, self._read_timeout_s)
            except ssl.SSLWantReadError:
                yield Waiting(link, POLLIN, self._read_timeout_s)

    def _receive(self, link: socket.socket) -> Request:
        reader = AnswerReader()
        # There is nothing yet, and asking would cost more than waiting.
        yield Waiting(link, POLLIN, self._read_timeout_s)
        while True:
            try:
                answer = reader.feed(link.recv(_READ_BYTES))
            except (BlockingIOError, ssl.SSLWantReadError):
                yield Waiting(link, POLLIN, self._read_timeout_s)
            except ssl.SSLWantWriteError:
                yield Waiting(link, POLLOUT, self._read_timeout_s)
            else:
                if answer is not None:
                    return answer
                if not (isinstance(link, ssl.SSLSocket) and link.pending()):
                    yield Waiting(link, POLLIN, self._read_timeout_s)


def is_ready(waiting: Waiting) -> bool:
    """Wait until a socket is ready; return whether it is in time."""
    watch = poll()
    watch.register(waiting.socket, waiting.event)
    return bool(watch.poll(waiting.timeout_s * 1000))


def _early_answer(link: socket.socket) -> HttpAnswer | None:
    reader = AnswerReader()
    try:
        while True:
            if (answer := reader.feed(_at_once(link))) is not None:
                return answer
    except BadAnswer:
        return None


def _at_once(link: socket.socket) -> bytes:
    """Return what is there to read; b'' where nothing is, or nothing comes any more."""
    try:
        return link.recv(_READ_BYTES)
    except OSError:
        return b""


def _close_all(idle: deque[_Idle]) -> None:
    while idle:
        idle.pop().link.close()

"""An S3 server that goes wrong as told, in front of a real one, and remembers every decision.

The client's Host is passed on unchanged, so that signatures stay valid; `Expect: 100-continue` is
answered here. It runs in a thread of its own: tests and worker processes use it by its `url`.
"""

import asyncio
import socket
import struct
import threading
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import inf
from random import Random
from typing import Any, Self
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from ops.loopback import free_ports
from tests.faults import Fault, Pass, Rule
from tests.s3_requests import Reply, Request, edited, read_reply, read_request

_HOST = "127.0.0.1"
_TICK_S = 0.02
_MAX_HEAD = 64 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(slots=True)
class Decision:
    """What was done with one request. `nth` counts its operation; `upstream` are the statuses the
    server answered, `answered` the one the client was sent, None while or where it was sent none.
    """

    operation: str
    key: str
    part: int
    nth: int
    fault: str
    upstream: list[int]
    answered: int | None = None


class FaultProxy:
    """A proxy with rules; the first one that fits a request, and whose dice fall so, decides."""

    def __init__(
        self, upstream: str, *, seed: int = 0, credentials: tuple[str, str] | None = None
    ) -> None:
        """`credentials` sign requests that a fault has edited."""
        parts = urlsplit(upstream)
        self.upstream = (parts.hostname or _HOST, parts.port or 80)
        self.credentials = Credentials(*credentials) if credentials else None
        self.log: list[Decision] = []
        #: Requests beyond this number wait: whoever raises it has something to do before.
        self.held_after: float = inf
        self.answers: dict[tuple[str, str], Reply] = {}
        self._seed = seed
        self._rules: tuple[Rule, ...] = ()
        self._fits: Counter[int] = Counter()
        self._seen: Counter[tuple[str, str, int]] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        #: Nobody takes it while the proxy refuses.
        (self._port,) = free_ports(1)

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://{_HOST}:{self._port}"

    def script(self, *rules: Rule) -> None:
        """Set the rules, and forget what was."""
        self._rules = rules
        self._fits.clear()
        self._seen.clear()
        self.answers.clear()
        self.log = []

    def count(self, operation: str = "*", key: str = "*", fault: str = "*") -> int:
        """Return how many requests of an operation there were; all three are patterns."""
        return len(self.asked(operation, key, fault))

    def asked(self, operation: str = "*", key: str = "*", fault: str = "*") -> list[Decision]:
        """Return the decisions on requests of an operation, in order."""
        return [
            one
            for one in self.log
            if fnmatchcase(one.operation, operation)
            and fnmatchcase(one.key, key)
            and fnmatchcase(one.fault, fault)
        ]

    @property
    def operations(self) -> list[str]:
        """The operations that were asked for, in order."""
        return [one.operation for one in self.log]

    def refuse(self) -> None:
        """Listen no more and cut what is open: connections are refused."""
        self._do(self._close())

    def accept(self) -> None:
        """Listen again on the same port."""
        self._do(self._listen())

    def __enter__(self) -> Self:
        self._thread.start()
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, _HOST, self._port, limit=_MAX_HEAD, backlog=512
        )

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while not writer.is_closing():
                    head = await reader.readuntil(b"\r\n\r\n")
                    await self._handle(read_request(head), reader, writer)
        finally:
            _reset(writer)
            self._tasks.discard(task)

    async def _handle(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        fault = self._choose(request)
        decision = Decision(
            request.operation,
            request.key,
            request.part,
            self.operations.count(request.operation) + 1,
            type(fault).__name__,
            [],
        )
        self.log.append(decision)
        number = len(self.log)
        while number > self.held_after:
            await asyncio.sleep(_TICK_S)
        exchange = _Exchange(self, request, decision, reader, writer)
        await fault.play(exchange)
        if exchange.rest:  # what follows would be read as the next request
            _reset(writer)

    def _choose(self, request: Request) -> Fault:
        identity = (request.operation, request.key, request.part)
        self._seen[identity] += 1
        chosen: Fault | None = None
        for number, rule in enumerate(self._rules):
            if not rule.fits(request):
                continue
            self._fits[number] += 1
            if chosen is not None or (rule.nth and self._fits[number] not in rule.nth):
                continue
            dice = Random(f"{self._seed} {number} {identity} {self._seen[identity]}")
            if dice.random() < rule.chance:
                chosen = dice.choice(rule.faults)
        return chosen or Pass()


class _Exchange:
    """One request of one connection, for the fault that plays it."""

    def __init__(
        self,
        proxy: FaultProxy,
        request: Request,
        decision: Decision,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.request = request
        self.before = proxy.answers.get((request.operation, request.key))
        self.ports: tuple[int, int] = (
            writer.get_extra_info("peername")[1],
            writer.get_extra_info("sockname")[1],
        )
        self.rest = int(request.header("content-length") or 0)
        self._proxy = proxy
        self._decision = decision
        self._reader = reader
        self._writer = writer
        self._expects = bool(request.header("expect"))

    async def read_body(self, *, bytes_per_s: int = 0) -> Request:
        blocks = []
        while self.rest:
            wanted = max(int(bytes_per_s * _TICK_S), 1) if bytes_per_s else self.rest
            blocks.append(await self._read(min(wanted, self.rest)))
            if bytes_per_s:
                await asyncio.sleep(_TICK_S)
        self.request = replace(self.request, body=b"".join(blocks))
        return self.request

    async def skip_body(self, count: int) -> None:
        await self._read(min(count, self.rest))

    async def _read(self, count: int) -> bytes:
        if self._expects and count:
            self._expects = False
            self._writer.write(_CONTINUE)
        body = await self._reader.readexactly(count)
        self.rest -= count
        return body

    async def forward(self, request: Request | None = None, *, sign: bool = False) -> Reply:
        sent = request or self.request
        headers = edited(
            self._signed(sent) if sign else sent.headers,
            {"Expect": None, "Connection": "close", "Content-Length": str(len(sent.body))},
        )
        reader, writer = await asyncio.open_connection(*self._proxy.upstream)
        try:
            lines = [f"{sent.method} {sent.target} HTTP/1.1", *(f"{n}: {v}" for n, v in headers)]
            head = "\r\n".join(lines).encode("latin-1")
            writer.write(head + b"\r\n\r\n" + sent.body)
            reply = read_reply(await reader.read())
        finally:
            writer.close()
        self._decision.upstream.append(reply.status)
        return reply

    async def answer(self, reply: Reply, *, bytes_per_s: int = 0, only: int | None = None) -> None:
        is_head = self.request.method == "HEAD"
        length = None if is_head else str(len(reply.body))
        headers = edited(reply.headers, {"Content-Length": length} if length else {})
        lines = [f"HTTP/1.1 {reply.status} -", *(f"{name}: {value}" for name, value in headers)]
        self._writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        self._decision.answered = reply.status  # it may be asked for as soon as the client has it
        try:
            await self._send(b"" if is_head else reply.body[:only], bytes_per_s)
        except BaseException:
            self._decision.answered = None
            raise
        self._proxy.answers[self.request.operation, self.request.key] = reply

    async def _send(self, body: bytes, bytes_per_s: int) -> None:
        step = max(int(bytes_per_s * _TICK_S), 1) if bytes_per_s else max(len(body), 1)
        for start in range(0, len(body), step):
            self._writer.write(body[start : start + step])
            await self._writer.drain()
            if bytes_per_s:
                await asyncio.sleep(_TICK_S)
        await self._writer.drain()

    def reset(self) -> None:
        _reset(self._writer)

    async def until_gone(self) -> None:
        await self._reader.read()
        self.reset()

    def _signed(self, request: Request) -> tuple[tuple[str, str], ...]:
        assert self._proxy.credentials is not None
        url = f"http://{request.header('host')}{request.target}"
        signed = AWSRequest(request.method, url, dict(request.headers), request.body)
        del signed.headers["Authorization"]
        for name in ("x-amz-date", "x-amz-content-sha256", "Content-Length", "Expect"):
            del signed.headers[name]
        S3SigV4Auth(self._proxy.credentials, "s3", "us-east-1").add_auth(signed)
        return tuple(signed.headers.items())


def _reset(writer: asyncio.StreamWriter) -> None:
    opened: socket.socket | None = writer.get_extra_info("socket")
    if opened is not None and not writer.transport.is_closing():
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()

"""What can go wrong between labferry and S3, and for which requests?

A fault plays one request to its end by means of an `Exchange`; a rule says which requests. Each
draws its own dice from the seed, the rule and the request, so that the same seed gives the same
faults in whatever order threads send.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import inf
from typing import Protocol

import psutil

from tests.s3_requests import Reply, Request, edited

XML = ("Content-Type", "application/xml")
#: Between two looks whether a request may go on.
HELD_S = 0.02
HTML = b"<html><body>Please log in to the guest network</body></html>"


class Exchange(Protocol):
    """One request under the proxy's hand."""

    request: Request  # its body is there after `read_body`
    before: Reply | None  # what the same operation on the same key was answered the last time
    ports: tuple[int, int]  # the client's and ours: they tell which process asks

    async def read_body(self, *, bytes_per_s: int = 0) -> Request:
        """Read the rest of the request, slowly if asked."""
        ...

    async def skip_body(self, count: int) -> None:
        """Read only so many bytes of the body."""
        ...

    async def forward(self, request: Request | None = None, *, sign: bool = False) -> Reply:
        """Let the server carry the request out, signed anew if asked; return its reply."""
        ...

    async def answer(self, reply: Reply, *, bytes_per_s: int = 0, only: int | None = None) -> None:
        """Send a reply, slowly if asked, or `only` the first bytes of its body."""
        ...

    def reset(self) -> None:
        """Cut the connection with a RST."""
        ...

    async def until_gone(self) -> None:
        """Wait until the client gives up."""
        ...


class Fault:
    """What happens to one request."""

    async def play(self, exchange: Exchange) -> None:
        """Bring the exchange to its end."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Pass(Fault):
    """Nothing: the request is carried out and answered."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        await exchange.answer(await exchange.forward())


@dataclass(slots=True)
class Hold(Fault):
    """Lets the first `after` requests through, and the others when the test raises that number: so
    that a blow falls in the midst of work, however fast the machine is."""

    after: float = 0
    came: int = 0

    async def play(self, exchange: Exchange) -> None:
        await self.wait()
        await Pass().play(exchange)

    async def wait(self) -> None:
        """Return when it is the next request's turn."""
        self.came += 1
        number = self.came
        while number > self.after:
            await asyncio.sleep(HELD_S)

    def open(self) -> None:
        """Let all through."""
        self.after = inf


@dataclass(frozen=True, slots=True)
class DropBefore(Fault):
    """The request never arrives."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        exchange.reset()


@dataclass(frozen=True, slots=True)
class DropAfter(Fault):
    """The request is carried out and its answer lost."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        await exchange.forward()
        exchange.reset()


@dataclass(frozen=True, slots=True)
class ResetMid(Fault):
    """The connection is cut while the body is sent."""

    after_bytes: int = 1000

    async def play(self, exchange: Exchange) -> None:
        await exchange.skip_body(self.after_bytes)
        exchange.reset()


@dataclass(frozen=True, slots=True)
class Answer(Fault):
    """The proxy answers itself; where `applied`, the server carried the request out all the same.

    `code` makes S3's XML of an error, as far as the request's answer has a body.
    """

    status: int = 200
    code: str = ""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    applied: bool = False

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        if self.applied:
            await exchange.forward()
        body = error_xml(self.code) if self.code else self.body
        await exchange.answer(Reply(status=self.status, headers=(XML, *self.headers), body=body))


@dataclass(frozen=True, slots=True)
class Truncate(Fault):
    """The answer ends early; then the connection is closed, or it stays open and silent."""

    keep_bytes: int = 20
    closes: bool = True
    applied: bool = True

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        made_up = Reply(status=200, headers=(XML,), body=error_xml("InternalError"))
        reply = await exchange.forward() if self.applied else made_up
        await exchange.answer(reply, only=self.keep_bytes)
        if self.closes:
            exchange.reset()
        else:
            await exchange.until_gone()


@dataclass(frozen=True, slots=True)
class Hang(Fault):
    """No answer ever comes."""

    applied: bool = False

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        if self.applied:
            await exchange.forward()
        await exchange.until_gone()


@dataclass(frozen=True, slots=True)
class Delay(Fault):
    """The request is carried out late, whether or not the client still waits, then answered."""

    before_s: float = 0
    after_s: float = 0

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        await asyncio.sleep(self.before_s)
        reply = await exchange.forward()
        await asyncio.sleep(self.after_s)
        await exchange.answer(reply)


@dataclass(frozen=True, slots=True)
class Drip(Fault):
    """The body comes slowly, and so does the answer; 0 is full speed."""

    request_bytes_per_s: int = 0
    reply_bytes_per_s: int = 0

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body(bytes_per_s=self.request_bytes_per_s)
        reply = await exchange.forward()
        await exchange.answer(reply, bytes_per_s=self.reply_bytes_per_s)


@dataclass(frozen=True, slots=True)
class Duplicate(Fault):
    """The request arrives twice; the client hears the first answer or the last."""

    hears: int = 0

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        replies = [await exchange.forward(), await exchange.forward()]
        await exchange.answer(replies[self.hears])


@dataclass(frozen=True, slots=True)
class FlipByte(Fault):
    """One bit of the request's body is not what was sent."""

    offset: int = 0

    async def play(self, exchange: Exchange) -> None:
        request = await exchange.read_body()
        body = bytearray(request.body)
        if body:
            body[self.offset % len(body)] ^= 1
        await exchange.answer(await exchange.forward(replace(request, body=bytes(body))))


@dataclass(frozen=True, slots=True)
class EditRequest(Fault):
    """Headers and body are others than were sent; signed anew, so that the server believes it."""

    headers: dict[str, str | None] = field(default_factory=dict)
    body: Callable[[bytes], bytes] | None = None

    async def play(self, exchange: Exchange) -> None:
        request = (await exchange.read_body()).edited(self.headers)
        if self.body:
            request = replace(request, body=self.body(request.body))
        await exchange.answer(await exchange.forward(request, sign=True))


@dataclass(frozen=True, slots=True)
class EditReply(Fault):
    """The answer's headers and body are others than the server gave; None removes a header."""

    headers: dict[str, str | None] = field(default_factory=dict)
    body: Callable[[bytes], bytes] | None = None

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        reply = await exchange.forward()
        body = self.body(reply.body) if self.body else reply.body
        await exchange.answer(
            replace(reply, headers=edited(reply.headers, self.headers), body=body)
        )


@dataclass(frozen=True, slots=True)
class Kill(Fault):
    """Who asks is killed before the request is carried out, or after it and before the answer."""

    applied: bool = False
    #: SIGSTOP keeps it there, until it is killed with others.
    by: signal.Signals = signal.SIGKILL

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        if self.applied:
            await exchange.forward()
        os.kill(await asyncio.to_thread(process_of, exchange.ports), self.by)
        exchange.reset()


@dataclass(frozen=True, slots=True)
class RepeatAnswer(Fault):
    """What the same operation on the same key was answered before, once more: a page, a cursor."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.read_body()
        await exchange.answer(exchange.before or await exchange.forward())


def process_of(ports: tuple[int, int]) -> int:
    """Return the process at the client's end of a connection, by the ports of both ends.

    The client's port alone does not tell: a server may use the same one towards another peer.
    """
    for connection in psutil.net_connections("tcp"):
        ends = (connection.laddr, connection.raddr)
        if all(ends) and tuple(end.port for end in ends) == ports and connection.pid:
            return int(connection.pid)
    raise AssertionError(f"nobody has a connection between the ports {ports}")


def error_xml(code: str) -> bytes:
    """Return S3's body of an error."""
    text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>no</Message></Error>'
    return text.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which requests meet one of the faults.

    `nth` counts the requests that fit operation and key, from 1; empty is each of them. `chance`
    is rolled for each.
    """

    faults: tuple[Fault, ...]
    operations: frozenset[str] = frozenset()
    key: str = "*"
    nth: frozenset[int] = frozenset()
    chance: float = 1.0

    def fits(self, request: Request) -> bool:
        """Whether operation and key are those of the rule."""
        named = not self.operations or request.operation in self.operations
        return named and fnmatchcase(request.key, self.key)


def rule(*faults: Fault, on: str = "", key: str = "*", nth: object = (), chance: float = 1) -> Rule:
    """Return a rule; `on` names operations with spaces between, `nth` one number or several."""
    numbers = [nth] if isinstance(nth, int) else list(nth)  # type: ignore[call-overload]
    return Rule(
        faults=faults,
        operations=frozenset(on.split()),
        key=key,
        nth=frozenset(numbers),
        chance=chance,
    )

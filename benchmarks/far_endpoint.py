"""How is a bucket far away, so that an upload waits more than it computes?

A proxy in front of a real S3 server: each request takes `delay_s` in one of `slots`, and whoever
finds none free waits in line. So one worker is bound by waiting, and all workers together by the
slots, however few cores there are. It counts the Puts that the server accepted, key by key.
"""

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from typing import Self
from urllib.parse import unquote, urlsplit

_MAX_HEAD = 64 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY = (b"204", b"304")


class FarEndpoint:
    """The proxy, in a thread of its own; use it in a `with`."""

    def __init__(self, upstream: str, address: str, *, delay_s: float, slots: int) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname, parts.port)
        self._address = address
        self._delay_s = delay_s
        self._slots = asyncio.Semaphore(slots)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._port = 0
        self.accepted: Counter[str] = Counter()

    @property
    def url(self) -> str:
        """The endpoint that workers are given."""
        return f"http://{self._address}:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(20)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, self._address, 0, limit=_MAX_HEAD, backlog=512
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, headers = _lines(head)
                if _find(headers, b"expect:"):
                    writer.write(_CONTINUE)
                body = await reader.readexactly(int(_find(headers, b"content-length:") or 0))
                async with self._slots:
                    await asyncio.sleep(self._delay_s)
                    reply = await self._forward(first, headers, body)
                writer.write(reply)
                await writer.drain()
        writer.close()

    async def _forward(self, first: bytes, headers: list[bytes], body: bytes) -> bytes:
        """Carry a request out, also of a client that is dead by now; return the reply."""
        method, target, _ = first.split(b" ")
        lines = [b"%s %s HTTP/1.0" % (method, target), *headers]  # so that no reply is chunked
        reader, writer = await asyncio.open_connection(*self._upstream)
        try:
            writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        status, answered = _lines(head)
        if method == b"PUT" and status.split(b" ")[1].startswith(b"2"):
            self.accepted[_key(target.decode())] += 1
        if method != b"HEAD" and status.split(b" ")[1] not in _NO_BODY:
            answered = _without(answered, b"content-length:")
            answered.append(b"Content-Length: %d" % len(content))
        kept = [b"HTTP/1.1" + status[len(b"HTTP/1.0") :], *answered]
        return b"\r\n".join(kept) + b"\r\n\r\n" + content


def _lines(head: bytes) -> tuple[bytes, list[bytes]]:
    first, *headers = head.strip().split(b"\r\n")
    return first, _without(headers, b"connection:")


def _without(headers: list[bytes], name: bytes) -> list[bytes]:
    return [one for one in headers if not one.lower().startswith(name)]


def _find(headers: list[bytes], name: bytes) -> bytes:
    return next((one[len(name) :].strip() for one in headers if one.lower().startswith(name)), b"")


def _key(target: str) -> str:
    return unquote(urlsplit(target).path.lstrip("/")).partition("/")[2]

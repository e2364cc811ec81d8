"""How does a Valkey without TLS get it? By a front that ends it, as stunnel would.

The wheel's server is built without TLS; what tests look at is the client's side of it.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from ops.loopback import HOST

_BLOCK = 64 * 1024


@contextlib.contextmanager
def tls_front(port: int, chain: Path) -> Iterator[int]:
    """Yield the port at which that port is served over TLS, by a certificate and its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # handshakes that a client breaks off
    thread = threading.Thread(target=loop.run_forever, name="tls-front")
    thread.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection(HOST, port)
        await asyncio.gather(_pass(reader, behind[1]), _pass(behind[0], writer))

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(serve, HOST, 0, ssl=context)

    async def close(server: asyncio.Server) -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(close(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError):  # ssl.SSLError, too
            while block := await reader.read(_BLOCK):
                writer.write(block)
                await writer.drain()
    finally:
        writer.transport.abort()

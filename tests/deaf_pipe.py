"""A TCP pipe to a server that can go deaf: what is connected stays so and hears nothing more."""

import socket
import threading
from contextlib import suppress
from typing import Self

_BLOCK = 64 * 1024


class DeafPipe:
    """Listens on `port` of loopback; connections made after `go_deaf` work."""

    def __init__(self, port: int) -> None:
        self._upstream = ("127.0.0.1", port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._deaf = threading.Event()
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in [self._server, *self._sockets]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def go_deaf(self) -> None:
        """Swallow from now on what the server sends on the connections there are."""
        self._deaf.set()
        self._deaf = threading.Event()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(self._upstream)
                self._sockets += [client, server]
                never, deaf = threading.Event(), self._deaf
                for source, target, swallow in ((client, server, never), (server, client, deaf)):
                    threading.Thread(
                        target=_pump, args=[source, target, swallow], daemon=True
                    ).start()


def _pump(source: socket.socket, target: socket.socket, swallow: threading.Event) -> None:
    with suppress(OSError):
        while block := source.recv(_BLOCK):
            if not swallow.is_set():
                target.sendall(block)
        target.shutdown(socket.SHUT_RDWR)

"""A proxy before Redis that passes on one command at a time, so that a blow falls just before one
or just after it.

So it does with the commands of a pipeline, too. Each command must have one reply: no subscriptions.
"""

import contextlib
import socket
import threading
from typing import NamedTuple

import hiredis

from ops.loopback import HOST

_BLOCK = 65536


class Command(NamedTuple):
    """One command of one connection; `ports`, the client's and ours, tell which process asks."""

    words: list[bytes]
    ports: tuple[int, int]


class LedgerProxy:
    """Passes everything; what comes of it says what happens before and after a command."""

    def __init__(self, port: int) -> None:
        self._server = (HOST, port)
        self._listener = socket.create_server((HOST, 0), backlog=512)
        self._port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: int) -> str:
        """Return the URL of one of the server's databases by way of the proxy."""
        return f"redis://{HOST}:{self._port}/{database}"

    def close(self) -> None:
        """Take no further connection."""
        self._listener.close()

    def before(self, command: Command) -> None:
        """Called before the server hears of it. Raise an OSError to cut the connection."""

    def after(self, command: Command, reply: object) -> None:
        """Called when the server has answered, and the client has not heard it. The same."""

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        requests = hiredis.Reader()
        with contextlib.suppress(OSError), client, socket.create_connection(self._server) as server:
            ports = client.getpeername()[1], client.getsockname()[1]
            while data := client.recv(_BLOCK):
                requests.feed(data)
                while (words := requests.gets()) is not False:
                    command = Command(words, ports)
                    self.before(command)
                    server.sendall(hiredis.pack_command(tuple(words)))
                    answer, reply = _answer(server)
                    self.after(command, reply)
                    client.sendall(answer)


def _answer(server: socket.socket) -> tuple[bytes, object]:
    """Return a whole answer, as it came and as it reads."""
    replies, answer = hiredis.Reader(), b""
    while data := server.recv(_BLOCK):
        answer += data
        replies.feed(data)
        if (reply := replies.gets()) is not False:
            return answer, reply
    raise ConnectionError("the server is gone")

"""Which ports of this machine, which nobody else can reach, are free?"""

import contextlib
import secrets
import socket

HOST = "127.0.0.1"
#: Below those that Linux gives to outgoing connections, any of which may take a port meanwhile.
PORTS = range(20_000, 32_768)


def free_ports(count: int) -> list[int]:
    """Return that many different ports nobody listens on now."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            port = secrets.choice(PORTS)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.socket()).bind((HOST, port))
                found.append(port)
    return found

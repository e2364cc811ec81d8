"""How is moto's server started for `make brokers`? It has SQS's shape, and verifies nothing."""

import shutil
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from ops.embedded import _Server
from ops.loopback import HOST, free_ports


def find_moto() -> str | None:
    """Return where moto_server is: beside this Python, or in PATH."""
    beside = Path(sys.executable).with_name("moto_server")
    return str(beside) if beside.exists() else shutil.which("moto_server")


class Moto(_Server):
    """moto's server, of all services."""

    name = "moto"

    def __init__(self, binary: str) -> None:
        super().__init__(None)
        self._binary = binary
        self._choose_ports()

    @property
    def endpoint(self) -> str:
        """Return the URL of every service."""
        return f"http://{HOST}:{self.port}"

    def _choose_ports(self) -> None:
        (self.port,) = free_ports(1)

    def _command(self) -> Sequence[str]:
        return [self._binary, "-H", HOST, "-p", str(self.port)]

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

"""What is a worker host of a benchmark? `labferry worker` in a network, a process table and under a
host name of its own, on a cable to the servers that can be pulled.

Linux namespaces under one bridge. A host that is killed is gone at once with all its processes, and
says nothing to anybody: its cable is pulled first, so that no connection is closed.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ops.processes import end_with

_SUBNET = "10.213.7"
_NEEDED = (
    "Each host is a network namespace: this needs Linux, root (or CAP_NET_ADMIN and "
    "CAP_SYS_ADMIN), and the commands ip (iproute2) and unshare (util-linux)."
)
#: The host's first process, 1 in its own process table, is the supervisor.
_BOOT = 'hostname "$0"; exec "$@"'


@dataclass(frozen=True, slots=True)
class Network:
    """A bridge in this network, with the address under which hosts find servers."""

    name: str

    @property
    def address(self) -> str:
        """Where servers listen for hosts."""
        return f"{_SUBNET}.1"


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """Lend a bridge. Raises: SystemExit where that is not permitted."""
    bridge = Network(f"lf{os.getpid()}"[:15])
    try:
        _ip("link", "add", bridge.name, "type", "bridge")
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        raise SystemExit(f"{_NEEDED}\n{told.strip()}") from None
    try:
        _ip("addr", "add", f"{bridge.address}/24", "dev", bridge.name)
        _ip("link", "set", bridge.name, "up")
        yield bridge
    finally:
        _ip("link", "del", bridge.name)


class Host:
    """One worker host; it can be killed and started again, under the same name and address."""

    def __init__(
        self, number: int, bridge: Network, environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = f"host{number}"
        self._number = number
        self._bridge = bridge
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Plug it in and start its worker."""
        space, cable = f"{self._bridge.name}-{self._number}", self._cable
        _ip("netns", "add", space)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", cable, "master", self._bridge.name, "up")
        _ip("-n", space, "addr", "add", f"{_SUBNET}.{self._number + 10}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", space, "link", "set", device, "up")
        inside = ("ip", "netns", "exec", space, "unshare", "--uts", "--pid", "--mount-proc")
        program = (sys.executable, "-m", "ops.cli", "worker", "--lane", "small", "--no-sweep")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*inside, "--fork", "--kill-child", "sh", "-c", _BOOT, self.name, *program],
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with(os.getpid(), signal.SIGKILL),  # noqa: PLW1509  no locks
            )
        return self

    def kill(self) -> None:
        """Pull the cable and kill every process; nothing of it is left."""
        process, self._process = self._process, None
        if process is None:
            return
        _ip("link", "set", self._cable, "down")
        process.kill()  # the kernel kills the first process by that, and with it all others
        process.wait()
        _ip("link", "del", self._cable)
        _ip("netns", "del", f"{self._bridge.name}-{self._number}")

    @property
    def _cable(self) -> str:
        return f"{self._bridge.name}.{self._number}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

"""Is the program of this container at work, not only there? For docker-compose's health checks.

`python -m ops.alive worker`: the Celery workers of this host answer a ping; where the broker
carries none, as `program`.
`python -m ops.alive program`: the container's program ran since the last time this was asked. One
that hangs on a dead share, or is stopped, is still in the list of processes but does not run.
"""

import socket
import sys
import tempfile
from pathlib import Path

import psutil

from labferry.broker import make_app
from labferry.broker_address import has_control
from labferry.records import Lane
from labferry.settings import Settings, load_settings

PING_TIMEOUT_S = 10.0
#: What stands before the program where an init is asked for (`init: true`). Elsewhere, in
#: Kubernetes say, the program is process 1 itself.
INITS = ("docker-init", "podman-init", "catatonit", "tini", "dumb-init")
SEEN = Path(tempfile.gettempdir()) / "labferry-alive"


def workers_answer(settings: Settings) -> bool:
    """Ask the Celery workers of this host, and no others, for a sign: one of each lane."""
    ask = make_app(settings).control.inspect(
        pattern=f"*@{socket.gethostname()}",
        matcher="glob",  # type: ignore[arg-type]  # the stubs are older
        timeout=PING_TIMEOUT_S,
        limit=len(Lane),
    )
    return len(ask.ping() or ()) >= len(Lane)


def program_below(first: psutil.Process) -> psutil.Process | None:
    """Return the container's program: its first process, or what an init there started."""
    if first.name() not in INITS:
        return first
    own = psutil.Process()
    return next((one for one in first.children() if one.pid != own.pid), None)


def has_run(program: psutil.Process, seen: Path) -> bool:
    """Return whether a process got on since the last look, which `seen` remembers.

    Counted is how often its threads gave up the processor or were taken off it.
    """
    now = f"{program.pid} {_switches(program)}"
    before = seen.read_text() if seen.exists() else ""
    seen.write_text(now)
    return now != before


def _switches(program: psutil.Process) -> int:
    tasks = Path(f"/proc/{program.pid}/task").glob("*/status")
    lines = [line for task in tasks for line in task.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def main() -> int:
    """Return 0 when it is at work."""
    if sys.argv[1:] == ["worker"] and has_control((settings := load_settings()).broker.url):
        return 0 if workers_answer(settings) else 1
    program = program_below(psutil.Process(1))
    return 0 if program and has_run(program, SEEN) else 1


if __name__ == "__main__":
    sys.exit(main())

"""How is labferry set up on an endpoint, and started as it would be in production?"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.servers import Endpoint
from ops.embedded import Valkey
from ops.processes import end_with

COMMAND = str(Path(sys.executable).parent / "labferry")
STOP_TIMEOUT_S = 60


def write_settings(
    path: Path,
    to: Endpoint,
    valkey: Valkey,
    instruments: Mapping[str, Mapping[str, object]],
    prefix: str = "",
) -> Path:
    """Write a labferry.toml that leaves all else at its default; return where it is."""
    sections: dict[str, Mapping[str, object]] = {
        "store": {"bucket": to.bucket, "endpoint_url": to.url, "prefix": prefix},
        "ledger": {"url": valkey.url(1)},
        "broker": {"url": valkey.url(0)},
        **{f"instruments.{name}": fields for name, fields in instruments.items()},
    }
    lines = []
    for name, fields in sections.items():
        # A string or a number is written in TOML as in JSON.
        lines += [f"[{name}]", *(f"{field} = {json.dumps(fields[field])}" for field in fields)]
    path.write_text("\n".join(lines) + "\n")
    return path


def environment_of(settings: Path, to: Endpoint) -> dict[str, str]:
    """Return what a program of labferry needs to be told."""
    return {**os.environ, **to.environment, "LABFERRY_CONFIG": str(settings)}


@contextmanager
def programs(
    settings: Path,
    to: Endpoint,
    scratch: Path,
    more: Mapping[str, str] | None = None,
    names: Sequence[str] = ("worker", "agent"),
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run some of labferry's, with `more` in their environment; their logs are in scratch."""
    environment = {**environment_of(settings, to), **(more or {})}
    with ExitStack() as stack:
        started = []
        for program in names:
            log = stack.enter_context((scratch / f"{program}.log").open("wb"))
            process = subprocess.Popen(
                [COMMAND, program],
                env=environment,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with(os.getpid(), signal.SIGTERM),  # noqa: PLW1509  two system calls
            )
            stack.callback(_stop, process)
            started.append(process)
        yield started


def _stop(process: subprocess.Popen[bytes]) -> None:
    family = [process, *psutil.Process(process.pid).children(recursive=True)]
    process.terminate()
    try:
        process.wait(timeout=STOP_TIMEOUT_S)
    finally:
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()

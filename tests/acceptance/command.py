"""The real command in a process of its own, and what is left when it is gone."""

import os
import signal
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.waiting import PATIENCE_S

LABFERRY = str(Path(sysconfig.get_path("scripts")) / "labferry")
#: Of the tests' own environment, what would change what a command does.
_NOT_INHERITED = ("LABFERRY_", "AWS_", "FLOWER_")


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with nothing of labferry's but what is given."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_INHERITED)}
    return {**kept, "AWS_EC2_METADATA_DISABLED": "true", "COLUMNS": "80", **changes}


class Command:
    """A folder and an environment to run labferry in."""

    def __init__(self, folder: Path, changes: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment(changes)
        self._started: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """Kill what a failed test left running; its children go with it."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def run(self, *arguments: str, **changes: str) -> Ended:
        """Run a command to its end."""
        done = subprocess.run(
            [LABFERRY, *arguments],
            cwd=self.folder,
            env={**self.environment, **changes},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **changes: str) -> "subprocess.Popen[str]":
        """Start a command as a shell does: in a process group of its own."""
        process = subprocess.Popen(
            [LABFERRY, *arguments],
            cwd=self.folder,
            env={**self.environment, **changes},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process


def ctrl_c(process: "subprocess.Popen[str]", timeout_s: float = PATIENCE_S) -> str:
    """Press Ctrl-C at the command's terminal: every process of its group gets it."""
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=timeout_s)[0]


def processes_below(folder: Path) -> list[str]:
    """Return the processes that have to do with a folder, by arguments or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if process.pid != os.getpid() and any(str(folder) in text for text in told):
            found.append(f"{process.pid}: {' '.join(process.cmdline()[:6])}")
    return found

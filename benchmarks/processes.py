"""How much CPU and memory did a program with all its processes take?"""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.loads import MIB

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run took; CPU is user and system time of all processes.

    `figures` are what else was measured; each name ends in its unit.
    """

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    figures: Mapping[str, float] = field(default_factory=dict)


def run_to_end(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Cost:
    """Run one program and return its cost, its start included. Raises: RuntimeError."""
    with log.open("wb") as out:
        began_s = time.monotonic()
        process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        memory = PeakMemory([process.pid])
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - began_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {_tail(log)}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Cost(wall_s=wall_s, cpu_s=cpu_s, peak_rss_bytes=memory.stop())


class PeakMemory:
    """The largest sum of resident memory of processes and their descendants, sampled.

    What wait4 tells is of no use: it counts the memory of the process that forked.
    """

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = roots
        self._peak_bytes = 0
        self._largest_bytes = dict.fromkeys(roots, 0)
        self._stopped = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def stop(self) -> int:
        """Return the peak."""
        self._stopped.set()
        self._sampler.join()
        return self._peak_bytes

    def largest_bytes(self, root: int) -> int:
        """Return the peak of the largest single process at or below a root."""
        return self._largest_bytes[root]

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            seen = {root: [_rss_bytes(pid) for pid in _tree([root])] for root in self._roots}
            self._peak_bytes = max(self._peak_bytes, sum(map(sum, seen.values())))
            for root, each in seen.items():
                self._largest_bytes[root] = max(self._largest_bytes[root], *each)


class Meter:
    """The cost of processes that are running already, from its making to stop; by their names."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._names = roots
        self._roots = list(roots.values())
        self._memory = PeakMemory(self._roots)
        self._cpu_s = tree_cpu_s(self._roots)
        self._began_s = time.monotonic()

    def stop(self) -> Cost:
        """Return what was taken since then."""
        wall_s = time.monotonic() - self._began_s
        cpu_s = tree_cpu_s(self._roots) - self._cpu_s
        peak_bytes = self._memory.stop()
        largest = {
            f"{name}_peak_mib": self._memory.largest_bytes(pid) / MIB
            for name, pid in self._names.items()
        }
        return Cost(wall_s=wall_s, cpu_s=cpu_s, peak_rss_bytes=peak_bytes, figures=largest)


def tree_cpu_s(roots: Sequence[int]) -> float:
    """Return the CPU time of these processes, their descendants, and those of them that ended."""
    return sum(map(_cpu_s, _tree(roots)))


def _tree(roots: Sequence[int]) -> list[int]:
    pids = set(roots)
    for root in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            pids |= {child.pid for child in psutil.Process(root).children(recursive=True)}
    return sorted(pids)


def _cpu_s(pid: int) -> float:
    with contextlib.suppress(OSError):
        # After the name in brackets; utime, stime, and both of the children waited for.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * TICK_S
    return 0.0


def _rss_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]

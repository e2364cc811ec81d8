"""How does one process start others, watch over them, and take them with it when it ends?

Each child has a session of its own: Ctrl-C reaches this process alone, which stops the others in
good order. On Linux the kernel sends a child SIGTERM when this process is gone, however it went
(SIGKILL where nothing is worth an orderly end: a Celery worker whose broker is gone too never ends
by SIGTERM).
"""

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labferry.ports import Clock
from labferry.telemetry import emit
from ops.interrupts import Interrupts

#: Waits before a child that ended is started again; the last one is repeated.
BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)
#: A child that ran this long starts afresh at the first wait.
HEALTHY_S = 60.0
POLL_S = 0.05
#: What is left to programs that are asked again: a worker's parts under way get 3 s of it.
HURRY_S = 8.0
_ASK_S = 1.0

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is started: a Python module with arguments; `grace_s` is its time to stop by itself."""

    name: str
    arguments: tuple[str, ...]
    grace_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """Return the command line; modules of the working directory are not found by it."""
        return [sys.executable, "-P", "-m", *self.arguments]


@dataclass(slots=True)
class _Child:
    program: Program
    process: subprocess.Popen[bytes]
    started_s: float
    failures: int = 0
    restart_s: float | None = None


class Children:
    """The programs this process keeps running. Start them from the main thread."""

    def __init__(
        self,
        environment: Mapping[str, str],
        interrupts: Interrupts,
        clock: Clock,
        logs: Path | None = None,
        *,
        orphan_signal: int = signal.SIGTERM,
    ) -> None:
        """`logs` is the folder of what the children print; unset, they print where we do.

        `orphan_signal` is what they get when this process is killed.
        """
        self._environment = environment
        self._interrupts = interrupts
        self._clock = clock
        self._logs = logs
        self._orphan_signal = orphan_signal
        self._children: list[_Child] = []

    def start(self, program: Program) -> None:
        """Start a program and keep it running."""
        with self._interrupts.postponed():
            process = self._spawn(program)
            self._children.append(_Child(program, process, self._clock.mono_s()))

    def tend(self) -> None:
        """Start again what has ended, after a growing wait. Call it every second or so.

        Raises: Interrupted.
        """
        self._interrupts.check()
        now_s = self._clock.mono_s()
        for child in self._children:
            if child.restart_s is not None:
                if now_s >= child.restart_s:
                    self._restart(child)
            elif (status := child.process.poll()) is not None:
                _note_end(child, status, now_s)

    def pid(self, name: str) -> int:
        """Return the process id of a program of this name."""
        return next(one.process.pid for one in self._children if one.program.name == name)

    def ended(self) -> list[str]:
        """Return the names of programs that are not running now."""
        return [child.program.name for child in self._children if child.process.poll() is not None]

    def stop(self, grace_s: float = math.inf) -> None:
        """Ask all to stop, and kill what is left after its grace.

        `grace_s` is the longest grace for any of them. A second Ctrl-C asks them again, which a
        Celery worker takes as leave to drop its tasks, and leaves HURRY_S; a third one kills.
        """
        began_s = self._clock.mono_s()
        running = [child for child in self._children if child.process.poll() is None]
        if running:
            longest_s = max(min(grace_s, child.program.grace_s) for child in running)
            emit("programs.stopping", programs=len(running), within_s=longest_s)
        for child in running:
            child.process.terminate()
        hurry = _Hurry(running, self._clock)
        for child in self._children:
            until_s = began_s + min(grace_s, child.program.grace_s)
            self._end(child, until_s, hurry)
        self._children.clear()

    def _end(self, child: _Child, until_s: float, hurry: "_Hurry") -> None:
        while child.process.poll() is None:
            if self._interrupts.hurry:
                until_s = min(until_s, hurry.until_s())
            if self._clock.mono_s() >= until_s or self._interrupts.at_once:
                break
            self._clock.sleep_s(POLL_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGKILL)  # with whatever it forked
        child.process.wait()

    def _restart(self, child: _Child) -> None:
        with self._interrupts.postponed():
            child.process = self._spawn(child.program)
            child.started_s = self._clock.mono_s()
            child.restart_s = None
        emit("program.restarted", name=child.program.name, failures=child.failures)

    def _spawn(self, program: Program) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as opened:
            log = None
            if self._logs is not None:
                log = opened.enter_context((self._logs / f"{program.name}.log").open("ab"))
            return subprocess.Popen(
                program.command,
                env={**self._environment, **program.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with(os.getpid(), self._orphan_signal),  # noqa: PLW1509  no locks
            )


class _Hurry:
    """What a second wish to stop means for programs that were asked once."""

    def __init__(self, children: Sequence[_Child], clock: Clock) -> None:
        self._children = children
        self._clock = clock
        self._until_s = 0.0
        self._next_s = 0.0

    def until_s(self) -> float:
        """Ask them again every second; return how long they have, from the first call on.

        Again and again, because a signal that comes right behind the first one is lost.
        """
        now_s = self._clock.mono_s()
        self._until_s = self._until_s or now_s + HURRY_S
        if now_s >= self._next_s:
            self._next_s = now_s + _ASK_S
            for child in self._children:
                child.process.terminate()  # nothing happens to one that ended
        return self._until_s


def _note_end(child: _Child, status: int, now_s: float) -> None:
    if now_s - child.started_s >= HEALTHY_S:
        child.failures = 0
    wait_s = BACKOFF_S[min(child.failures, len(BACKOFF_S) - 1)]
    child.failures += 1
    child.restart_s = now_s + wait_s
    emit("program.ended", name=child.program.name, status=status, restart_in_s=wait_s)


def end_with(parent: int, signal_number: int) -> Callable[[], None]:
    """Return what a child runs before its program: a signal when its parent thread ends."""

    def ask_kernel() -> None:
        if _LIBC is None:
            return
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal_number)
        if os.getppid() != parent:  # it ended between the fork and the call above
            os._exit(1)

    return ask_kernel

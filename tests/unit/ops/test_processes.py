"""Are programs kept running, stopped in good order, and taken along when we die?"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import psutil
import pytest

from labferry.clock import SystemClock
from labferry.environment import child_environment
from ops.interrupts import Interrupts
from ops.processes import BACKOFF_S, HURRY_S, Children, Program
from tests.waiting import PATIENCE_S, eventually

LINGER = """
import pathlib, signal, sys, time
log = pathlib.Path(sys.argv[1])
def end(*_):
    log.write_text(log.read_text() + "asked\\n")
    if len(sys.argv) < 3:
        sys.exit(0)
signal.signal(signal.SIGTERM, end)
log.write_text("ready\\n")
while True:
    time.sleep(0.05)
"""


SHORT = "import pathlib; (pathlib.Path(__file__).parent / 'runs').open('a').write('x')"

PARENT = """
import sys, time
from labferry.clock import SystemClock
from labferry.environment import child_environment
from ops.interrupts import Interrupts
from ops.processes import Children, Program
children = Children(child_environment(None), Interrupts(), SystemClock())
children.start(Program(name="linger", arguments=("linger", sys.argv[1])))
time.sleep(1000)
"""


class HandClock(SystemClock):
    """Real waits, and a time that the test moves."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def mono_s(self) -> float:
        return super().mono_s() + self.ahead_s


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m linger` and `python -m short`, for this test alone."""
    (tmp_path / "linger.py").write_text(LINGER)
    (tmp_path / "short.py").write_text(SHORT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Program]:
    """A program that notes that it is ready and that it was asked to stop."""

    def make(*options: str, grace_s: float = 10) -> Program:
        arguments = ("linger", str(tmp_path / "log"), *options)
        return Program(name="linger", arguments=arguments, grace_s=grace_s)

    return make


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    with Interrupts() as interrupts:
        yield interrupts


@pytest.fixture
def children(interrupts: Interrupts, clock: HandClock) -> Iterator[Children]:
    children = Children(child_environment(None), interrupts, clock)
    yield children
    children.stop(grace_s=0)


def said(tmp_path: Path) -> str:
    log = tmp_path / "log"
    return log.read_text() if log.exists() else ""


def our_children() -> list[psutil.Process]:
    """Return the programs that run below this test; servers of the session are not among them."""
    below = psutil.Process().children(recursive=True)
    return [child for child in below if "-P" in child.cmdline()]


def test_a_program_is_asked_to_stop_and_waited_for(
    children: Children, program: Callable[..., Program], tmp_path: Path
) -> None:
    children.start(program())
    eventually(lambda: said(tmp_path) == "ready\n")
    children.stop()
    assert said(tmp_path) == "ready\nasked\n"
    assert our_children() == []


def test_a_program_that_does_not_stop_is_killed_after_its_grace(
    children: Children, program: Callable[..., Program], tmp_path: Path, clock: HandClock
) -> None:
    children.start(program("stubborn", grace_s=0.2))
    eventually(lambda: said(tmp_path) == "ready\n")
    began_s = clock.mono_s()
    children.stop()
    assert said(tmp_path) == "ready\nasked\n"
    assert clock.mono_s() - began_s >= 0.2
    assert our_children() == []


def test_a_second_ctrl_c_asks_again_and_leaves_a_moment(
    children: Children, program: Callable[..., Program], tmp_path: Path, clock: HandClock
) -> None:
    children.start(program("stubborn", grace_s=1000))
    eventually(lambda: said(tmp_path) == "ready\n")
    stopping = Thread(target=children.stop)
    stopping.start()
    os.kill(os.getpid(), signal.SIGINT)
    eventually(lambda: said(tmp_path) == "ready\nasked\n")
    os.kill(os.getpid(), signal.SIGINT)
    eventually(lambda: said(tmp_path).startswith("ready\nasked\nasked\n"))
    assert our_children()
    clock.ahead_s += HURRY_S
    stopping.join(20)
    assert our_children() == []


def test_a_third_ctrl_c_kills_at_once(
    children: Children, program: Callable[..., Program], tmp_path: Path
) -> None:
    children.start(program("stubborn", grace_s=1000))
    eventually(lambda: said(tmp_path) == "ready\n")
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGINT)
    children.stop()
    assert our_children() == []


def test_ctrl_c_at_the_terminal_does_not_reach_a_child(
    children: Children, program: Callable[..., Program], tmp_path: Path
) -> None:
    children.start(program())
    eventually(lambda: said(tmp_path) == "ready\n")
    (child,) = our_children()
    assert os.getsid(child.pid) != os.getsid(0)
    assert os.getpgid(child.pid) != os.getpgid(0)


def test_a_program_that_ends_is_started_again_after_a_growing_wait(
    children: Children, clock: HandClock, tmp_path: Path
) -> None:
    children.start(Program(name="short", arguments=("short",)))
    for run, wait_s in enumerate(BACKOFF_S[:3], start=1):
        eventually(lambda: children.ended() == ["short"])
        children.tend()  # sees the end
        clock.ahead_s += wait_s / 2
        children.tend()  # too early
        assert (tmp_path / "runs").read_text() == "x" * run
        clock.ahead_s += wait_s
        children.tend()
        eventually(lambda run=run: (tmp_path / "runs").read_text() == "x" * (run + 1))  # type: ignore[misc]


def test_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], env=child_environment(None)
    )
    try:
        eventually(lambda: said(tmp_path) == "ready\n")
        (child,) = psutil.Process(parent.pid).children()
    finally:
        parent.kill()
        parent.wait()
    eventually(lambda: said(tmp_path) == "ready\nasked\n")
    child.wait(PATIENCE_S)

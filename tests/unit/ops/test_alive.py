"""Tells the health check a program that runs from one that only is there?"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ops.alive import has_run, program_below

DEADLINE_S = 10
LOOP = "import time\nwhile True: time.sleep(0.01)"


@pytest.fixture
def program() -> Iterator[psutil.Process]:
    with subprocess.Popen([sys.executable, "-c", LOOP]) as process:
        yield psutil.Process(process.pid)
        process.kill()


def await_answer(program: psutil.Process, seen: Path, *, wanted: bool) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while has_run(program, seen) is not wanted:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_program_that_works_in_turns_is_at_work(program: psutil.Process, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    assert has_run(program, seen)
    await_answer(program, seen, wanted=True)


def test_a_program_that_stands_still_is_not_at_work(
    program: psutil.Process, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    await_answer(program, seen, wanted=True)
    program.send_signal(signal.SIGSTOP)
    await_answer(program, seen, wanted=False)
    program.send_signal(signal.SIGCONT)
    await_answer(program, seen, wanted=True)


def test_a_program_that_was_started_anew_is_at_work(
    program: psutil.Process, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    program.send_signal(signal.SIGSTOP)
    await_answer(program, seen, wanted=False)
    assert has_run(psutil.Process(), seen)


def test_the_program_of_a_container_is_its_first_process_or_the_child_of_an_init(
    tmp_path: Path,
) -> None:
    first = psutil.Process()
    assert program_below(first) == first
    init = tmp_path / "tini"
    shutil.copy("/bin/sh", init)
    with subprocess.Popen(
        [str(init), "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert program_below(psutil.Process(process.pid)) == psutil.Process(child)
        os.kill(child, signal.SIGKILL)

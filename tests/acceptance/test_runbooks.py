"""Does each runbook lead out of the trouble that the demo makes for it?"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.demo_runs import SECOND, SEQUENCER, Injection
from tests.acceptance.command import Command, Ended, ctrl_c, processes_below
from tests.waiting import eventually

RUN = f"{SEQUENCER}/{SECOND}"
WAIT_S = 240


class Demo:
    """A demo in which something goes wrong, and the other terminal beside it."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._said = ""

    def start(self, injection: Injection) -> None:
        """Start it, and return once the trouble is there."""
        self.process: subprocess.Popen[str] = self._command.start("demo", "--inject", injection)
        self._read_until("mends it")
        (page,) = re.findall(r"docs/runbooks/\S+\.md", self._said)
        assert Path(__file__).parents[2].joinpath(page).is_file()

    def run(self, *arguments: str) -> Ended:
        """Run a command as the other terminal does."""
        (env,) = re.findall(r"(?m)^  \. (.+)$", self._said)[:1]
        lines = Path(env).read_text("utf-8").splitlines()
        words = [shlex.split(line)[1] for line in lines if line.startswith("export ")]
        return self._command.run(*arguments, **dict(word.split("=", 1) for word in words))

    def until(self, words: str, *arguments: str) -> None:
        """Wait until a command says something."""
        eventually(lambda: words in " ".join(self.run(*arguments).out.split()), WAIT_S)

    def mend(self) -> None:
        """Do what the demo says mends it."""
        (file,) = re.findall(r"(?m)^  rm (\S+) ", self._said)
        Path(file).unlink()

    def end(self) -> None:
        """See all runs complete, and end it."""
        self._read_until("stays open until Ctrl-C")
        assert self._said.count("all there as the manifest says") == 3
        ctrl_c(self.process)
        assert self.process.returncode == 0

    def _read_until(self, words: str) -> None:
        assert self.process.stdout is not None
        while words not in self._said:
            line = self.process.stdout.readline()
            assert line, self._said
            self._said += line


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = Command(tmp_path, {"TMPDIR": str(temporary), "COLUMNS": "200"})
    yield Demo(command)
    command.close()
    eventually(lambda: not processes_below(tmp_path), within_s=60)
    assert list(temporary.iterdir()) == []


def test_dead_letters_are_sent_in_again_once_their_cause_is_mended(demo: Demo) -> None:
    demo.start(Injection.DENIED)
    demo.until("3 files, 1 cause", "dead-letters", "list")
    assert "AccessDenied" in demo.run("dead-letters", "show", f"{RUN}/InterOp/QMetricsOut.bin").out
    requeue = ("dead-letters", "requeue", "--code", "AccessDenied", "--reason", "try", "--yes")
    too_early = demo.run(*requeue)
    assert (too_early.code, "AccessDenied came back" in too_early.out) == (1, True), too_early
    demo.mend()
    eventually(lambda: demo.run(*requeue).code == 0, WAIT_S)
    demo.end()


def test_renewed_credentials_are_all_it_takes(demo: Demo) -> None:
    demo.start(Injection.EXPIRED)
    demo.until("credentials:", "status")
    light = demo.run("doctor", "--light")
    assert (light.code, "SignatureDoesNotMatch" in light.out) == (1, True), light
    demo.mend()
    demo.end()


def test_an_endpoint_that_is_back_is_all_it_takes(demo: Demo) -> None:
    demo.start(Injection.DOWN)
    demo.until("endpoint:", "status")
    assert demo.run("doctor", "--light").code == 75
    demo.mend()
    demo.end()


def test_a_run_that_is_stuck_says_what_it_waits_for_and_ends_with_it(demo: Demo) -> None:
    demo.start(Injection.STUCK)
    demo.until("stale", "status", RUN)
    demo.until("marker: no CopyComplete.txt", "status", RUN)
    would = demo.run("close", RUN, "--dry-run", "--reason", "aborted")
    assert (would.code, "waits for marker" in would.out) == (0, True), would
    demo.mend()
    demo.end()

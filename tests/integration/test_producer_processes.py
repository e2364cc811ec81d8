"""Does the producer behave as a program: codes, output, signals, outages, memory?"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.completion import RunState, run_state
from labferry.identity import RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.passes import Watch, watch_of
from labferry.settings import LedgerSettings
from labferry.states import State
from ops.embedded import Valkey
from tests.waiting import PATIENCE_S, eventually

RUN = RunKey("inst", "run1")
MIB = 1024 * 1024

#: Prints the peak of memory after the program; a child's rusage would hold its parent's.
MEASURED = (
    "import pathlib, sys; from producer.__main__ import main; code = main(sys.argv[1:]);"
    "print(pathlib.Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]);"
    "sys.exit(code)"
)


class Lab:
    """A root, a configuration, and producers on them."""

    def __init__(self, folder: Path, ledger_url: str, broker_url: str) -> None:
        self.folder, self.root = folder, folder / "root"
        self.root.mkdir()
        self.urls = (ledger_url, broker_url)
        self.ledger: RedisLedger = open_ledger(LedgerSettings(url=ledger_url))
        self.processes: list[subprocess.Popen[str]] = []
        self.configure()

    def configure(self, **roots: Path) -> None:
        text = f'[store]\nbucket = "bucket"\n[ledger]\nurl = "{self.urls[0]}"\n'
        text += f'[broker]\nurl = "{self.urls[1]}"\n'
        for name, root in {"inst": self.root, **roots}.items():
            text += f'[instruments.{name}]\nroot = "{root}"\n'
            text += "settle_window_s = 0\nquiet_s = 0\nscan_interval_s = 0.1\n"
        (self.folder / "labferry.toml").write_text(text)

    def write(self, path: str) -> None:
        file = self.root / RUN.run / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def command(self, *options: str) -> list[str]:
        config = str(self.folder / "labferry.toml")
        return [sys.executable, "-m", "producer", "--config", config, *options]

    def once(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command("--once", *options),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command(), stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.processes.append(process)
        return process

    def state(self) -> RunState | None:
        facts = self.ledger.find_facts(RUN)
        return run_state(facts) if facts else None

    def count(self, state: State) -> int:
        facts = self.ledger.find_facts(RUN)
        return facts.counts[state] if facts else 0


@pytest.fixture
def lab(tmp_path: Path, ledger_url: str, broker_url: str) -> Iterator[Lab]:
    made = Lab(tmp_path, ledger_url, broker_url)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_one_pass_prints_what_it_found(lab: Lab) -> None:
    lab.write("a")
    lab.write("b.tmp")
    done = lab.once()
    assert done.returncode == 0, done.stderr
    assert "inst/run1: open, 1 files, 1 new, 1 settled, 1 held back" in done.stdout
    assert "held back: b.tmp" in done.stdout


def test_one_pass_as_json_is_one_object(lab: Lab) -> None:
    lab.write("a")
    done = lab.once("--json")
    (instrument,) = json.loads(done.stdout)["instruments"]
    assert (instrument["instrument"], instrument["condition"]) == ("inst", "scanned")
    assert instrument["published"] == 1
    (run,) = instrument["runs"]
    assert (run["run"], run["state"], run["settled"]) == ("inst/run1", "sealed", 1)


def test_a_pass_over_one_instrument_leaves_the_others_alone(lab: Lab) -> None:
    lab.write("a")
    other = lab.folder / "other"
    (other / "run9").mkdir(parents=True)
    (other / "run9/x").touch()
    lab.configure(other=other)
    assert lab.once("--instrument", "inst").returncode == 0
    assert lab.ledger.runs() == [RUN]


def test_an_instrument_that_is_not_set_is_a_wrong_setting(lab: Lab) -> None:
    done = lab.once("--instrument", "nobody")
    assert done.returncode == 2
    assert "nobody" in done.stderr
    assert "inst" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_configuration_ends_with_its_field(lab: Lab) -> None:
    (lab.folder / "labferry.toml").write_text('[store]\nbucket = "bucket"\nbukcet = 1\n')
    done = lab.once()
    assert done.returncode == 2
    assert "bukcet" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_root_that_is_away_is_done_in_part_and_the_others_are_whole(lab: Lab) -> None:
    lab.write("a")
    lab.configure(away=lab.folder / "absent")
    done = lab.once()
    assert done.returncode == 3
    assert "away: share unavailable" in done.stdout
    assert "inst/run1: sealed, 1 files, 1 new, 1 settled" in done.stdout


def test_a_ledger_that_does_not_answer_is_unavailable(lab: Lab) -> None:
    lab.urls = ("redis://127.0.0.1:1/0", lab.urls[1])
    lab.configure()
    lab.write("a")
    done = lab.once()
    assert done.returncode == 75
    assert "127.0.0.1:1" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_broker_that_does_not_answer_is_unavailable_and_the_pass_is_on_record(lab: Lab) -> None:
    lab.urls = (lab.urls[0], "redis://127.0.0.1:1/0")
    lab.configure()
    lab.write("a")
    done = lab.once()
    assert done.returncode == 75
    assert "broker" in done.stdout
    assert lab.count(State.ELIGIBLE) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_goes_on_until_it_is_told_to_end(lab: Lab, number: signal.Signals) -> None:
    agent = lab.start()
    lab.write("a")
    eventually(lambda: lab.state() is RunState.SEALED)
    lab.write("b")
    eventually(lambda: lab.count(State.ELIGIBLE) == 2)
    agent.send_signal(number)
    assert agent.wait(timeout=PATIENCE_S) == 0
    # It said by when it looks again; then its silence says that nobody does.
    passes = lab.ledger.passes()
    assert watch_of(passes, passes[0].instrument, passes[0].due_ms)[0] is Watch.WATCHED
    assert watch_of(passes, passes[0].instrument, passes[0].due_ms + 1)[0] is Watch.UNWATCHED
    assert agent.stderr is not None
    assert "Traceback" not in agent.stderr.read()


def test_two_agent_processes_on_one_root_do_no_harm(lab: Lab) -> None:
    for number in range(300):
        lab.write(f"{number % 5}/{number}")
    agents = [lab.start(), lab.start()]
    for number in range(300, 600):
        lab.write(f"{number % 5}/{number}")
    eventually(lambda: lab.state() is RunState.SEALED and lab.count(State.ELIGIBLE) == 600)
    for agent in agents:
        agent.terminate()
    logs = [agent.communicate(timeout=PATIENCE_S)[1] for agent in agents]
    assert not any("Traceback" in log or "failed" in log for log in logs)
    facts = lab.ledger.find_facts(RUN)
    assert facts is not None
    assert sum(facts.counts.values()) == 600


def test_an_agent_that_is_killed_in_mid_scan_is_followed_by_another(lab: Lab) -> None:
    for number in range(3000):
        lab.write(f"{number % 5}/{number}")
    first = lab.start()
    eventually(lambda: lab.count(State.DISCOVERED) + lab.count(State.ELIGIBLE) > 0)
    first.kill()
    lab.start()
    eventually(lambda: lab.state() is RunState.SEALED)
    assert lab.count(State.ELIGIBLE) == 3000


def test_an_agent_outlives_an_outage_of_the_ledger(tmp_path: Path, broker_url: str) -> None:
    with Valkey(directory=tmp_path / "valkey") as server:
        lab = Lab(tmp_path, server.url(1), broker_url)
        agent = lab.start()
        try:
            lab.write("a")
            eventually(lambda: lab.state() is RunState.SEALED)
            server.kill()
            lab.write("b")
            assert agent.stderr is not None
            assert any("ledger unavailable" in line for line in agent.stderr)
            server.start()
            eventually(lambda: lab.count(State.ELIGIBLE) == 2)
            assert agent.poll() is None
        finally:
            agent.terminate()
            agent.communicate(timeout=PATIENCE_S)


def peak_bytes(lab: Lab) -> int:
    """Return the peak of memory of one pass."""
    command = [sys.executable, "-c", MEASURED, *lab.command("--once", "--json")[3:]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return int(done.stdout.split()[-1]) * 1024


def test_memory_is_flat_however_large_a_run_is(lab: Lab) -> None:
    def grow(start: int, end: int) -> None:
        for number in range(start, end):
            folder = lab.root / RUN.run / f"L{number // 2000:03d}"
            if number % 2000 == 0:
                folder.mkdir(parents=True)
            os.mknod(folder / f"s_1_{number:07d}.bcl.bgzf")

    grow(0, 20_000)
    small = [peak_bytes(lab) for _ in range(2)]
    assert lab.count(State.ELIGIBLE) == 20_000
    grow(20_000, 200_000)
    large = [peak_bytes(lab) for _ in range(2)]
    assert lab.count(State.ELIGIBLE) == 200_000
    shutil.rmtree(lab.root)
    assert max(large) < 150 * MIB
    assert max(large) - max(small) < 16 * MIB

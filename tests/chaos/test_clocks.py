"""Does anybody's clock but the ledger's matter? Of a host, of a share, of two agents: no.

The clock of real processes is moved by a `sitecustomize` that Python imports at its start: each
asks a file by how much it is wrong, so that it also jumps while they run. That moves what Celery,
kombu and labferry ask; monotonic time and the servers' clocks stay, as they do when a host's clock
is set. Requests are signed with the right time: what servers say of a wrong one is test 21.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from labferry.identity import RunKey
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey
from tests.ledger_world import memory_world, was_claimed_once
from tests.memory_store import Breaking
from tests.model_lab import RUN as MODEL_RUN
from tests.model_lab import UNIT_S, Blow, Lab, When
from tests.site import Site, open_site

RUN = RunKey("scope", "movie 1")
HOUR_S = 3600

WRONG_CLOCK = """
import os, time
_time, _time_ns = time.time, time.time_ns

def _wrong_s():
    with open(os.environ["WRONG_CLOCK"]) as file:
        return float(file.read())

time.time = lambda: _time() + _wrong_s()
time.time_ns = lambda: _time_ns() + int(_wrong_s() * 1e9)
"""


@dataclass
class Clockmaker:
    """A site whose processes have a clock that a test sets."""

    site: Site
    folder: Path

    def set(self, wrong_s: float) -> None:
        after = self.folder / "next"
        after.write_text(str(wrong_s))
        after.rename(self.folder / "wrong_s")

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.folder), "WRONG_CLOCK": str(self.folder / "wrong_s")}

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        return self.site.start(*command, **self.environment)

    def write(self, name: str, body: bytes = b"bytes") -> Path:
        path = self.site.roots["scope"] / RUN.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = self.folder / "whole"  # no look sees half of it
        whole.write_bytes(body)
        return whole.rename(path)

    def count(self, state: State) -> int:
        facts = self.site.ledger.find_facts(RUN)
        return facts.counts[state] if facts else 0

    def demand_untroubled(self) -> None:
        """No attempt, no lost worker, no change, no line in any history."""
        for path, record in self.site.ledger.records(RUN):
            assert (record.attempt, record.lost, record.rounds) == (0, 0, 0), path
            assert was_claimed_once(record), path
            assert self.site.ledger.history(RUN.file(path)) == [], path


@pytest.fixture
def clockmaker(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Clockmaker]:
    share, folder = tmp_path / "share", tmp_path / "clock"
    share.mkdir()
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WRONG_CLOCK)
    with open_site(tmp_path, valkey, store_settings, {"scope": share}) as site:
        made = Clockmaker(site, folder)
        made.set(0)
        yield made


def test_the_processes_of_these_tests_do_have_a_wrong_clock(clockmaker: Clockmaker) -> None:
    clockmaker.set(-HOUR_S)
    code = "import time; print(time.time(), time.time_ns() / 1e9)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **clockmaker.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    for told in done.stdout.split():
        assert abs(float(told) + HOUR_S - time.time()) < 60


def test_a_host_clock_that_is_set_back_and_forward_under_way_is_not_noticed(
    clockmaker: Clockmaker,
) -> None:
    """No lease ends early, nothing settles early or never, nothing is sent twice."""
    for number in range(30):
        clockmaker.write(f"a{number}")
    clockmaker.write("large", os.urandom(1024))
    clockmaker.set(HOUR_S)
    clockmaker.start("worker")
    clockmaker.start("agent")
    clockmaker.site.until(lambda: clockmaker.count(State.VERIFIED) > 0, "the run flows")
    for wrong_s in (-HOUR_S, HOUR_S, 0):
        clockmaker.set(wrong_s)
        before = clockmaker.count(State.VERIFIED)
        for number in range(10):
            clockmaker.write(f"at {wrong_s} {number}")
        clockmaker.site.until(
            lambda n=before: clockmaker.count(State.VERIFIED) >= n + 10,  # type: ignore[misc]
            "the run goes on",
        )
    clockmaker.site.until(clockmaker.site.complete, "the run complete")
    clockmaker.demand_untroubled()


def test_files_whose_times_are_an_hour_off_settle_like_others(clockmaker: Clockmaker) -> None:
    """The share's clock: times in the future, in the past, and at the begin of time."""
    for name, at_s in {"late": 4_000_000_000, "early": 1_000_000, "zero": 0}.items():
        path = clockmaker.write(name)
        os.utime(path, (at_s, at_s))
    clockmaker.start("worker")
    clockmaker.start("agent")
    clockmaker.site.until(clockmaker.site.complete, "the run complete")
    clockmaker.demand_untroubled()


def test_a_file_that_is_written_with_its_old_time_is_noticed(clockmaker: Clockmaker) -> None:
    """A copy that restores the time of change: the ctime tells, before it settles and after."""
    clockmaker.start("agent")
    path = clockmaker.write("a", b"first")
    clockmaker.site.until(lambda: clockmaker.count(State.ELIGIBLE) == 1, "the file settled")
    before = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    clockmaker.start("worker")
    clockmaker.site.until(clockmaker.site.complete, "the run complete")
    body = clockmaker.site.body(clockmaker.site.client(), clockmaker.site.layout.raw(RUN.file("a")))
    assert body == b"other"
    record = clockmaker.site.ledger.find_record(RUN.file("a"))
    assert record is not None
    assert record.attempt == 0


# -- agents


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    (tmp_path / MODEL_RUN.run).mkdir()
    (tmp_path / MODEL_RUN.run / "a").write_bytes(b"bytes")
    (tmp_path / MODEL_RUN.run / "done.txt").touch()
    return Lab(memory_world(), tmp_path)


def goes_on(lab: Lab) -> None:
    """Demand that others make of it one upload and one marker."""
    for _ in range(4):
        lab.world.pass_ms(3 * UNIT_S * 1000)
        lab.scan()
        lab.sweep()
        for _ in range(len(lab.wakeups.bundles)):
            lab.deliver(0)
        lab.complete()
    assert lab.ledger.markers(MODEL_RUN) == {1}
    assert was_claimed_once(lab.world.record("a", MODEL_RUN))
    assert lab.world.record("a", MODEL_RUN).attempt == 0


def test_an_agent_that_dies_between_ledger_and_broker_is_followed_by_a_sweep(lab: Lab) -> None:
    """At each of its calls: what was recorded and not published is published by others."""
    calls = Breaking(lab.ledger)
    lab.scan()
    lab.world.pass_ms(UNIT_S * 1000)
    lab._scan(calls, None)
    assert "take" in calls.calls, "something was published"
    goes_on(lab)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 16))
def test_an_agent_may_die_at_any_call(lab: Lab, nth: int, when: When) -> None:
    lab.scan()
    lab.world.pass_ms(UNIT_S * 1000)
    lab.scan(Blow("ledger", nth, when))
    lab.lose_messages()
    goes_on(lab)


def test_a_second_agent_that_only_helps_changes_nothing(lab: Lab) -> None:
    """It looks at the same moments: whoever comes second finds it done."""
    lab.scan()
    lab.scan()
    lab.world.pass_ms(UNIT_S * 1000)
    lab.scan()
    lab.scan()
    assert [bundle.paths for bundle in lab.wakeups.bundles] == [("a",)]
    goes_on(lab)

"""When is the next pass, and who hears of what went wrong?"""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from labferry.errors import LedgerUnavailable
from labferry.ports import Clock, Ledger
from labferry.settings import BrokerSettings, InstrumentSettings, Settings, StoreSettings
from producer.agent import Agent
from tests.memory_ledger import MemoryLedger
from tests.recorded_wakeups import RecordedWakeups
from tests.trees import make_tree


class Dice(Clock):
    """A clock that stands still and dice that are held."""

    def __init__(self, face: float) -> None:
        self.face = face

    def mono_s(self) -> float:
        return 0.0

    def sleep_s(self, seconds: float) -> None:
        raise AssertionError("an agent waits for its stop, not for the clock")

    def uniform(self) -> float:
        return self.face


class LostLedger:
    """A ledger of which nothing is known."""

    def __getattr__(self, name: str) -> Any:
        def call(*_: object) -> None:
            raise LedgerUnavailable(url="redis://x", why="lost on purpose")

        return call


class Waits(Flag):
    """A stop that comes after some waits, and remembers them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        if len(self.seconds) == self.count:
            self.set()
        return self.is_set()


def agent(root: Path, face: float = 0.5, ledger: Ledger | None = None) -> Agent:
    settings = Settings.model_construct(
        store=StoreSettings(bucket="bucket"),
        broker=BrokerSettings(),
        instruments={
            "inst": InstrumentSettings.model_validate({"root": root, "scan_interval_s": 20})
        },
    )
    return Agent("inst", settings, ledger or LostLedger(), RecordedWakeups(), Dice(face))


@pytest.mark.parametrize(("face", "seconds"), [(0.0, 18), (0.5, 20), (1.0, 22)])
def test_passes_keep_no_step_with_those_of_other_agents(
    tmp_path: Path, face: float, seconds: float
) -> None:
    stop = Waits(2)
    agent(tmp_path / "absent", face, MemoryLedger()).run_forever(stop)
    assert stop.seconds == pytest.approx([seconds, seconds])


def test_an_agent_asks_a_ledger_that_is_away_ever_more_rarely_up_to_a_minute(
    tmp_path: Path,
) -> None:
    make_tree(tmp_path, "run1/a")
    stop = Waits(2000)
    agent(tmp_path).run_forever(stop)
    assert stop.seconds[:7] == pytest.approx([1, 2, 4, 8, 16, 32, 60])
    assert set(stop.seconds[6:]) == {60.0}


def test_a_pass_begins_where_the_one_before_was_cut_short(tmp_path: Path) -> None:
    for run in ("run1", "run2", "run3", "run4"):
        make_tree(tmp_path, f"{run}/a")
    one, seen = agent(tmp_path, ledger=MemoryLedger()), list[str]()

    def looked(stop_after: int) -> list[str]:
        seen.clear()

        def stopped() -> bool:
            if len(seen) > stop_after:
                return True
            seen.append("asked")
            return False

        report = one.make_pass(stopped)
        return [run.run for run in report.runs]

    # Asked before each run and for each of its batches.
    assert looked(3) == ["inst/run1", "inst/run2"]
    assert looked(99) == ["inst/run3", "inst/run4", "inst/run1", "inst/run2"]
    assert looked(99) == ["inst/run1", "inst/run2", "inst/run3", "inst/run4"]


class Slow(Dice):
    """A clock by which every pass takes long."""

    now_s = 0.0

    def mono_s(self) -> float:
        self.now_s += 50
        return self.now_s


def test_a_share_that_takes_long_is_looked_at_for_half_of_the_time_at_most(tmp_path: Path) -> None:
    one = agent(tmp_path, ledger=MemoryLedger())
    one._clock = Slow(0.5)
    stop = Waits(2)
    one.run_forever(stop)
    assert min(stop.seconds) >= 50

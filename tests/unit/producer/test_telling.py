"""Does the ledger hear of every look at a share, and of its silence?"""

import shutil
from pathlib import Path
from threading import Event as Flag

import pytest

from labferry.errors import LedgerUnavailable
from labferry.identity import RunKey
from labferry.passes import FORGOTTEN_S, SILENT_S, Pass, Waiting, Watch, watch_of
from producer.agent import JITTER
from producer.telling import BEAT_S
from tests.bench import Bench

RUN = RunKey("inst", "run1")
DAY_S = 86_400


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "inst", "generic", RUN, scan_interval_s=20)


def told(bench: Bench) -> Pass:
    (found,) = bench.ledger.passes()
    return found


class AfterOne(Flag):
    """A stop that comes after one pass."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


def test_an_agent_that_goes_on_says_when_it_tells_again(bench: Bench) -> None:
    bench.agent().run_forever(AfterOne())
    longest_ms = (20 * (1 + JITTER) + SILENT_S) * 1000
    assert (told(bench).at_ms, told(bench).due_ms) == (
        bench.ledger.clock_ms,
        bench.ledger.clock_ms + longest_ms,
    )
    assert (
        watch_of([told(bench)], told(bench).instrument, bench.ledger.clock_ms)[0] is Watch.WATCHED
    )
    bench.wait(longest_ms / 1000 + 1)
    assert (
        watch_of([told(bench)], told(bench).instrument, bench.ledger.clock_ms)[0] is Watch.UNWATCHED
    )


def test_one_pass_alone_promises_nothing_and_hides_no_silence(bench: Bench) -> None:
    bench.look()
    assert told(bench).due_ms == 0
    bench.agent().run_forever(AfterOne())
    due_ms = told(bench).due_ms
    bench.wait(DAY_S)
    bench.new_agent().look()
    assert (told(bench).at_ms, told(bench).due_ms) == (bench.ledger.clock_ms, due_ms)


def test_a_share_that_is_away_is_told_and_its_runs_are_not_forgotten(bench: Bench) -> None:
    bench.write("a")
    bench.look()
    assert told(bench).waiting[0].run == str(RUN)
    shutil.move(bench.root, bench.root.with_name("away"))
    bench.look()
    assert "ENOENT" in told(bench).away
    since_ms = told(bench).away_ms
    assert since_ms == bench.ledger.clock_ms
    bench.wait(60)
    bench.new_agent().look()
    assert told(bench).away_ms == since_ms
    assert told(bench).waiting
    shutil.move(bench.root.with_name("away"), bench.root)
    bench.look()
    assert (told(bench).away, told(bench).away_ms) == ("", 0)


def test_a_run_is_told_with_what_it_lacks_until_it_is_done(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "inst", "generic", RUN, marker="done", quiet_s=30)
    bench.write("a")
    bench.looks(120)
    (waiting,) = told(bench).waiting
    assert waiting.lacks == ("marker: no done at the top of the run",)
    bench.write("done")
    bench.until_sealed()
    assert told(bench).waiting == ()


def test_a_long_pass_tells_that_it_goes_on(bench: Bench) -> None:
    agent, beats = bench.agent(), list[int]()

    def stopping() -> bool:
        bench.clock.now_s += BEAT_S
        bench.wait(BEAT_S)
        return False

    bench.write(*(str(number) for number in range(3)))
    agent.run_forever(AfterOne())
    bench.ledger.tell_pass = lambda told: beats.append(told.at_ms)  # type: ignore[method-assign]
    agent.make_pass(stopping)
    # As it begins, after its first run was begun, and as it ends.
    assert len(beats) == 3


def test_what_is_stuck_is_stuck_for_the_next_agent_too(bench: Bench) -> None:
    bench.write("a", "b.part")
    bench.look()
    bench.wait(DAY_S - 60)
    assert bench.new_agent().look().stuck == ()
    bench.wait(61)
    assert bench.new_agent().look().stuck
    assert told(bench).waiting[0].stuck
    assert [one.key for one in bench.ledger.alerts()] == [f"stuck:{RUN}/b.part"]


def test_a_host_that_is_gone_is_forgotten_with_time(bench: Bench) -> None:
    gone = Pass(instrument="inst", host="gone", at_ms=bench.ledger.clock_ms, due_ms=1)
    bench.ledger.tell_pass(gone)
    bench.ledger.tell_waiting("inst", "gone", [Waiting(run=str(RUN), since_ms={"a.part": 5})])
    bench.write("a.part")
    # What it knew is known all the same.
    assert bench.look().stuck
    assert len(bench.ledger.passes()) == 2
    bench.wait(FORGOTTEN_S + 1)
    bench.new_agent().look()
    assert told(bench).host != "gone"


def test_a_ledger_that_does_not_hear_the_end_of_a_pass_hears_the_next(bench: Bench) -> None:
    def lost(told: Pass) -> None:
        raise LedgerUnavailable(url="redis://x", why="lost on purpose")

    bench.write("a")
    bench.ledger.tell_pass = lost  # type: ignore[method-assign]
    assert bench.look().new == 1
    del bench.ledger.tell_pass
    bench.look()
    assert told(bench).waiting

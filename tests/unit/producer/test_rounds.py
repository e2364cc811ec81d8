"""Is a run that is over looked at less and less, and at once when something comes?"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from labferry.identity import RunKey
from labferry.records import Step
from labferry.source.share import RunFolder
from labferry.states import Event
from producer.report import RunReport
from producer.rounds import MOST_FOLDERS, Rounds, folder_times
from tests.ledger_world import RUN, World, memory_world
from tests.manual_clock import ManualClock

HOUR_S = 3600
DONE = RunReport(run=str(RUN), state="complete", files=2)


class Watched:
    """A complete run on record and on disk, and how often it was looked at."""

    def __init__(self, root: Path) -> None:
        self.folder = root / RUN.run
        (self.folder / "a" / "b").mkdir(parents=True)
        self.clock = ManualClock()
        self.world: World = memory_world()
        self.world.complete_run("one", "two")
        self.rounds = Rounds(self.world.ledger, self.clock, HOUR_S)
        self.report = DONE
        self.looks = 0

    def survey(self) -> RunReport:
        self.looks += 1
        return self.report

    def look(self) -> bool:
        """Make a pass; return whether the run was looked at as a whole."""
        before = self.looks
        report = self.rounds.look(RunFolder(run=RUN, path=os.fsencode(self.folder)), self.survey)
        assert report == self.report
        return self.looks > before

    def pass_s(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.world.pass_ms(int(seconds * 1000))

    def rest(self) -> None:
        """Let the run be over for a day, and be looked at twice since: it is known by then."""
        self.pass_s(24 * HOUR_S)
        assert [self.look(), self.look(), self.look()] == [True, True, False]


@pytest.fixture
def run(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_run_that_was_just_completed_is_looked_at_in_every_pass(run: Watched) -> None:
    for _ in range(5):
        assert run.look()


def test_a_run_that_rests_is_looked_at_in_full_after_its_time_only(run: Watched) -> None:
    run.rest()
    looks = []
    for _ in range(8):
        run.pass_s(HOUR_S / 4)
        looks.append(run.look())
    assert looks == [False, False, False, True] * 2


def test_a_file_that_comes_is_seen_by_a_glance(run: Watched) -> None:
    run.rest()
    (run.folder / "a" / "b" / "late").write_bytes(b"late")
    run.pass_s(601)
    assert run.look()


def test_a_folder_that_comes_is_seen_by_a_glance(run: Watched) -> None:
    run.rest()
    (run.folder / "a" / "new").mkdir()
    run.pass_s(601)
    assert run.look()


def test_a_move_on_record_ends_the_rest(run: Watched) -> None:
    run.rest()
    run.world.move(Event.CONFLICT, "one", fingerprint=run.world.record("one").fingerprint)
    assert run.look()


def test_a_run_that_was_put_away_or_taken_back_is_as_before(run: Watched) -> None:
    run.rest()
    run.world.ledger.note_sight(RUN, "12")
    assert not run.look()


@pytest.mark.parametrize(
    "change",
    [{"new": 1}, {"errors": 1}, {"wants_records": True}, {"failure": "x"}, {"state": "open"}],
)
def test_a_run_with_something_to_do_does_not_rest(run: Watched, change: dict[str, object]) -> None:
    run.report = replace(DONE, **change)  # type: ignore[arg-type]
    run.pass_s(24 * HOUR_S)
    assert [run.look() for _ in range(4)] == [True] * 4


def test_a_run_that_is_gone_is_forgotten(run: Watched) -> None:
    run.rest()
    run.rounds.forget_all_but({RunKey("other", "run")})
    assert run.look()


def test_folders_are_glanced_at_from_above_and_no_more_than_so_many(tmp_path: Path) -> None:
    for number in range(MOST_FOLDERS):
        (tmp_path / f"{number:04}" / "below").mkdir(parents=True)
    times = folder_times(os.fsencode(tmp_path))
    (tmp_path / "0001" / "below" / "late").write_bytes(b"")
    assert folder_times(os.fsencode(tmp_path)) == times
    (tmp_path / "0001" / "late").write_bytes(b"")
    assert folder_times(os.fsencode(tmp_path)) != times


def test_a_folder_that_cannot_be_read_leaves_nothing_to_glance_at(tmp_path: Path) -> None:
    assert folder_times(os.fsencode(tmp_path / "gone")) == b""


def test_a_change_of_the_ledger_alone_is_enough(run: Watched) -> None:
    """A source that a replay found changed settles by a look."""
    run.rest()
    run.world.ledger.move(RUN, Event.RECHECK, [Step(path="one")])
    assert run.look()

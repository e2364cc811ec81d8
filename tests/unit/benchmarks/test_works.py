"""Is the table of works sound?"""

from pathlib import Path

import pytest

from benchmarks.arrivals import p50_p99
from benchmarks.copies import TOOLS
from benchmarks.job import Point, Scale, Shape, Work
from benchmarks.loads import make_files, paths
from benchmarks.processes import Cost
from benchmarks.works import WORKS
from labferry.settings import Settings

each_work = pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)


def test_every_work_that_was_agreed_is_there() -> None:
    agreed = {
        "small-10k", "small-200k", "large-4g", "large-4g-tls", "rescan-200k", "ledger-memory",
        "ledger-moves", "unbundled-10k", "dead-letters", "latency", "fairness", "finished",
        "poison",
    }  # fmt: skip
    assert agreed <= set(WORKS)


@each_work
def test_a_work_is_for_tools_and_servers_that_are_there(work: Work) -> None:
    assert set(work.tools) <= set(TOOLS)
    assert set(work.servers) <= {"seaweedfs", "sink", "nowhere"}
    assert work.servers == ("sink",) or not (work.tls or work.delay_ms)


@each_work
def test_points_of_one_work_can_be_told_apart(work: Work) -> None:
    for scale in Scale:
        labels = [point.label for point in work.at(scale)]
        assert len(labels) == len(set(labels)) > 0
        assert len(labels) == 1 or work.shape in {Shape.CURVE, Shape.FIGURES_BY_POINT}


@each_work
def test_a_setting_of_a_point_exists(work: Work) -> None:
    for point in (one for scale in Scale for one in work.at(scale)):
        for name in point.environment:
            section, field = name.removeprefix("LABFERRY_").lower().split("__")
            model = Settings.model_fields[section].annotation
            assert field in model.model_fields  # type: ignore[union-attr]


def test_a_first_look_is_smaller_and_the_full_size_falls_back_to_the_usual_one() -> None:
    def nothing(_: object) -> Cost:
        raise NotImplementedError

    usual, quick = Point(sizes=(1, 2)), Point(sizes=(1,))
    work = Work(name="w", title="t", measure=nothing, servers=(), points=(usual,), quick=(quick,))
    assert work.at(Scale.QUICK) == (quick,)
    assert work.at(Scale.USUAL) == work.at(Scale.FULL) == (usual,)


def test_files_are_where_the_ledger_is_told_and_of_their_sizes(tmp_path: Path) -> None:
    sizes = tuple(range(1002))
    make_files(tmp_path / "load", sizes)
    assert [(tmp_path / "load" / one).stat().st_size for one in paths(len(sizes))] == list(sizes)


def test_no_two_files_of_a_load_are_the_same(tmp_path: Path) -> None:
    make_files(tmp_path / "load", (64,) * 20)
    assert len({(tmp_path / "load" / one).read_bytes() for one in paths(20)}) == 20


def test_one_in_a_hundred_is_above_p99() -> None:
    assert p50_p99([float(n) for n in range(101)]) == (50, 99)

"""Are results what the runs say?"""

from pathlib import Path

from benchmarks.job import Scale
from benchmarks.results import Results
from benchmarks.rows import row_of
from tests.unit.benchmarks.rows_by_hand import SETUP, cost, row


def test_a_row_holds_the_median_of_its_runs_and_their_spread() -> None:
    made = row_of(SETUP, [cost(3, 0.3), cost(1, 0.9), cost(2, 0.2)])
    assert (made.wall_s, made.wall_s_spread) == (2, (1, 3))
    assert (made.cpu_s, made.cpu_s_spread) == (0.3, (0.2, 0.9))
    assert made.runs == 3


def test_figures_are_medians_too() -> None:
    made = row_of(SETUP, [cost(1, 1, p50_ms=5), cost(1, 1, p50_ms=9), cost(1, 1, p50_ms=6)])
    assert made.figures == {"p50_ms": 6}
    assert made.figures_spread == {"p50_ms": (5, 9)}


def test_a_row_says_what_a_file_took() -> None:
    made = row_of(SETUP, [cost(4, 2)])
    assert (made.files_per_s, made.cpu_ms_per_file) == (2500, 0.2)


def test_a_row_in_the_file_has_the_fields_that_were_agreed() -> None:
    agreed = {
        "work",
        "tool",
        "server",
        "tls",
        "cpu_s",
        "wall_s",
        "peak_rss_bytes",
        "files",
        "bytes",
    }
    assert agreed <= set(row("small-10k").facts())


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [row("latency", "labferry", "", cost(1, 1, p50_ms=5.5)), row("latency", "s5cmd")]
    written = Results().replaced("latency", rows, Scale.USUAL)
    written.write(tmp_path / "deep" / "results.json")
    assert Results.read(tmp_path / "deep" / "results.json") == written


def test_a_work_that_is_measured_again_takes_the_place_of_its_rows_alone() -> None:
    first = Results().replaced("latency", [row("latency")], Scale.USUAL)
    both = first.replaced("workers", [row("workers")], Scale.USUAL)
    again = both.replaced("latency", [row("latency", "labferry", "", cost(9, 9))], Scale.USUAL)
    assert [(one.work, one.wall_s) for one in again.rows] == [("workers", 2), ("latency", 9)]


def test_there_are_no_results_where_there_is_no_file(tmp_path: Path) -> None:
    assert Results.read(tmp_path / "none.json").rows == ()

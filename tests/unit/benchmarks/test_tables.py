"""Do the tables say what was measured, and what was to be reached?"""

import pytest

from benchmarks.aims import BOUNDS, RATIOS, Bound
from benchmarks.tables import tables
from benchmarks.works import WORKS
from tests.unit.benchmarks.rows_by_hand import cost, row


def cells(text: str, name: str) -> list[str]:
    """Return the cells of the line that begins with a name."""
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    [found] = [[cell.strip() for cell in line] for line in lines if line[0].strip() == name]
    return found


def test_labferry_is_shown_as_a_share_of_each_tool_beside_what_was_to_be_reached() -> None:
    rows = [
        row("small-10k", "labferry", "", cost(3, 1)),
        row("small-10k", "s5cmd", "", cost(4, 2)),
        row("small-10k", "rclone", "", cost(6, 4)),
    ]
    assert cells(tables(rows), "s5cmd")[-2:] == ["0.75 (1.00)", "0.50 (0.75)"]
    assert cells(tables(rows), "rclone")[-2:] == ["0.50", "0.25"]


def test_tools_are_shown_without_labferry_too() -> None:
    assert cells(tables([row("small-10k", "s5cmd")]), "s5cmd")[:3] == ["s5cmd", "2.00", "1.00"]


def test_each_server_has_a_table_of_its_own() -> None:
    text = tables([row("small-10k"), row("latency", "labferry", "", cost(1, 1, p50_ms=5))])
    assert text.startswith("`small-10k` on sink: files of 4 KiB; 10,000 files, 39 MiB; one run\n")
    assert "\n`latency` on sink: " in text


@pytest.mark.parametrize(("bytes_", "reached"), [(199.5, "yes"), (200.5, "no")])
def test_a_figure_stands_beside_its_aim(bytes_: float, reached: str) -> None:
    text = tables([row("ledger-memory", "labferry", "", cost(1, 1, bytes_per_file=bytes_))])
    assert cells(text, "bytes a file")[-2:] == ["<= 200", reached]


def test_a_figure_that_was_to_reach_nothing_has_no_aim() -> None:
    text = tables([row("latency", "labferry", "", cost(1, 1, p50_ms=5.25))])
    assert cells(text, "p50, ms") == ["p50, ms", "5.25", "", "", ""]


def test_a_curve_says_what_a_file_takes_at_each_point() -> None:
    peaks = {"agent_peak_mib": 61.2, "worker_peak_mib": 99.6, "ledger_peak_mib": 10.1}
    rows = [
        row("curve-small", "labferry", "10,000", cost(4, 2, **peaks)),
        row("curve-small", "labferry", "20,000", cost(8, 4, **peaks)),
    ]
    assert cells(tables(rows), "10,000")[3:] == ["2.00", "0.200", "61", "100", "10", "50"]


def test_figures_of_several_points_stand_side_by_side() -> None:
    rows = [
        row("dead-letters", "labferry", "150", cost(1, 1, list_peak_mib=70)),
        row("dead-letters", "labferry", "600", cost(1, 1, list_peak_mib=71)),
    ]
    text = tables(rows)
    assert cells(text, "") == ["", "150 files", "600 files"]
    assert cells(text, "list peak, MiB") == ["list peak, MiB", "70", "71"]


def test_what_was_to_be_reached_names_works_that_are_there() -> None:
    assert {work for work, _ in (*RATIOS, *BOUNDS)} <= set(WORKS)


def test_a_bound_is_met_at_its_value() -> None:
    assert Bound(least=5).is_met(5) and not Bound(least=5).is_met(4.9)
    assert Bound(most=5).is_met(5) and not Bound(most=5).is_met(5.1)

"""Do results get into the page, and are the pictures what was measured?"""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.charts import charts
from benchmarks.figures import BEGIN, END, PAGE, main, rewritten
from benchmarks.job import Scale
from benchmarks.results import Results
from benchmarks.svg import HEIGHT, LEFT, RIGHT, WIDTH, Chart, Line, draw, short
from tests.unit.benchmarks.rows_by_hand import cost, row

SVG = "{http://www.w3.org/2000/svg}"
PEAKS = {"agent_peak_mib": 60.0, "worker_peak_mib": 100.0}
CURVE = [
    row("curve-small", "labferry", "10,000", cost(4, 2, **PEAKS)),
    row("curve-small", "s5cmd", "10,000", cost(4, 2)),
    row("curve-small", "labferry", "20,000", cost(8, 4, **PEAKS)),
    row("curve-small", "s5cmd", "20,000", cost(8, 4)),
]


def dots(chart: Chart) -> list[tuple[float, float]]:
    """Return where the values of a chart are drawn."""
    drawn = ElementTree.fromstring(draw(chart)).iter(f"{SVG}circle")
    return [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in drawn]


def test_figures_stand_between_the_marks_and_nothing_else_is_touched() -> None:
    page = f"before\n{BEGIN}old\n{END}\nafter\n"
    assert rewritten(page, "new") == f"before\n{BEGIN}new\n{END}\nafter\n"


@pytest.mark.parametrize("page", ["no marks", BEGIN, f"{END}\n"])
def test_a_page_without_both_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no marks"):
        rewritten(page, "new")


def test_the_page_has_its_marks() -> None:
    assert "new" in rewritten(PAGE.read_text("utf-8"), "new")


def test_a_page_gets_tables_and_pictures_of_what_was_measured(tmp_path: Path) -> None:
    results, page = tmp_path / "latest.json", tmp_path / "page.md"
    Results().replaced("curve-small", CURVE, Scale.USUAL).write(results)
    page.write_text(f"{BEGIN}{END}\n")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "bench-old.svg").write_text("of another time")
    main(results, page)
    assert "`curve-small` on sink" in page.read_text()
    assert "(pictures/bench-files.svg)" in page.read_text()
    pictures = {one.name for one in (tmp_path / "pictures").iterdir()}
    assert pictures == {"bench-files.svg", "bench-memory.svg"}


def test_nothing_is_written_without_results(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make bench"):
        main(tmp_path / "none.json", tmp_path / "page.md")


def test_a_curve_of_one_point_is_no_picture() -> None:
    assert list(charts(CURVE[:2])) == []


def test_a_chart_begins_at_zero_and_is_true_to_its_values() -> None:
    line = Line(name="a", points=((0, 0), (5, 10), (10, 20)))
    first, middle, last = dots(Chart(title="t", x_name="x", y_name="y", lines=(line,)))
    assert first[0] == LEFT
    assert middle == pytest.approx([(a + b) / 2 for a, b in zip(first, last, strict=True)], abs=0.1)
    assert last[0] <= WIDTH - RIGHT and 0 < last[1] < first[1] < HEIGHT


def test_ten_times_as_much_is_as_far_everywhere_on_a_logarithmic_axis() -> None:
    line = Line(name="a", points=((1, 1), (10, 10), (100, 100)))
    chart = Chart(title="t", x_name="x", y_name="y", lines=(line,), is_log_x=True, is_log_y=True)
    first, middle, last = dots(chart)
    assert middle == pytest.approx([(a + b) / 2 for a, b in zip(first, last, strict=True)], abs=0.1)


def test_names_of_lines_that_end_together_do_not_cover_each_other() -> None:
    names = {"one", "two", "three"}
    lines = tuple(Line(name=name, points=((1, 1), (2, 7))) for name in names)
    drawn = ElementTree.fromstring(draw(Chart(title="t", x_name="x", y_name="y", lines=lines)))
    texts = [one for one in drawn.iter(f"{SVG}text") if one.text in names]
    top, middle, bottom = sorted(float(one.attrib["y"]) for one in texts)
    assert min(middle - top, bottom - middle) >= 13


def test_a_chart_says_large_numbers_shortly() -> None:
    assert [short(one) for one in (0.5, 50, 2_000, 1_000_000)] == ["0.5", "50", "2k", "1M"]

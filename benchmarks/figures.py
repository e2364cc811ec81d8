"""How do results get into docs/performance.md? `make figures`, from benchmarks/results/latest.json.

What stands between the two marks is written anew, and so are the pictures beside it; nothing else
is touched, so that no figure is ever typed by hand.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.charts import charts
from benchmarks.estimate import estimate
from benchmarks.job import Scale
from benchmarks.loads import GIB
from benchmarks.results import LATEST, Results
from benchmarks.svg import draw
from benchmarks.tables import tables

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- figures from benchmarks/results/latest.json -->\n", "<!-- end of figures -->"


def main(source: Path = LATEST, page: Path = PAGE) -> None:
    """Write the page and its pictures. Exits where there is nothing to write."""
    results = Results.read(source)
    if not results.rows:
        sys.exit(f"There are no results in {source}: `make bench` first.")
    pictures = page.parent / "pictures"
    pictures.mkdir(exist_ok=True)
    for old in pictures.glob("bench-*.svg"):
        old.unlink()
    shown = []
    for name, chart in charts(results.rows):
        (pictures / f"{name}.svg").write_text(draw(chart), "utf-8")
        shown.append(f"![{chart.title}](pictures/{name}.svg)")
    text = page.read_text("utf-8")
    page.write_text(rewritten(text, "\n\n".join(_parts(results, shown))), "utf-8")
    print(f"Written to {page}, with {len(shown)} pictures.")


def rewritten(text: str, figures: str) -> str:
    """Return a page with these figures between its marks. Raises: ValueError without marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there are no marks: {BEGIN.strip()} and {END}")
    return f"{before}{BEGIN}{figures}\n{END}{after}"


def _parts(results: Results, pictures: list[str]) -> Iterator[str]:
    machine = results.machine
    quick = " These are of quick runs: too small to mean much." * (results.scale == Scale.QUICK)
    yield (
        f"On {results.at}; {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / GIB:.0f} GiB; Python {machine['python']}; "
        f"load at the end {machine['load']}.{quick} "
        "In brackets: the spread of runs, or what was to be reached."
    )
    yield from pictures
    yield tables(results.rows).rstrip("\n")
    if paper := estimate(results.rows):
        yield "### On paper: 100 million files a day, 1 PB a month"
        yield "By these figures, doubled, since no estimate is an upper bound. It was not run."
        yield paper.rstrip("\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""Which pictures come of the rows? One for each curve that was measured."""

from collections.abc import Callable, Iterator, Sequence

from benchmarks.loads import GIB
from benchmarks.rows import Row
from benchmarks.svg import Chart, Line

#: labferry first, in every picture.
_COLOURS = {"labferry": 0, "s5cmd": 1}


def charts(rows: Sequence[Row]) -> Iterator[tuple[str, Chart]]:
    """Yield each picture with its name; a curve of one point is none."""
    by_work = {work: [row for row in rows if row.work == work] for work in _DRAWN}
    for work, drawn in _DRAWN.items():
        if len({row.point for row in by_work[work]}) > 1:
            yield from drawn(by_work[work])


def _small(rows: Sequence[Row]) -> Iterator[tuple[str, Chart]]:
    yield (
        "bench-files",
        Chart(
            title="The cost of many small files",
            x_name="files of 0 to 4 KiB",
            y_name="seconds",
            lines=_times(rows, lambda row: row.files),
            is_log_x=True,
            is_log_y=True,
        ),
    )
    ours = [row for row in rows if row.tool == "labferry"]
    drawn = (("agent_peak_mib", "agent", 0), ("worker_peak_mib", "one worker process", 2))
    each = [
        Line(
            name=words,
            colour=colour,
            points=tuple((float(row.files), row.figures[name]) for row in ours),
        )
        for name, words, colour in drawn
    ]
    yield (
        "bench-memory",
        Chart(
            title="Peak memory, whatever a run's size",
            x_name="files of the run",
            y_name="MiB",
            lines=tuple(each),
            is_log_x=True,
        ),
    )


def _large(rows: Sequence[Row]) -> Iterator[tuple[str, Chart]]:
    yield (
        "bench-bytes",
        Chart(
            title="The cost of one large file",
            x_name="GiB",
            y_name="seconds",
            lines=_times(rows, lambda row: row.bytes / GIB),
        ),
    )


def _workers(rows: Sequence[Row]) -> Iterator[tuple[str, Chart]]:
    points = tuple((float(row.point), row.files_per_s) for row in rows)
    yield (
        "bench-workers",
        Chart(
            title="Small files by worker processes",
            x_name="processes of the small lane",
            y_name="files a second",
            lines=(Line(name="labferry", points=points),),
        ),
    )


def _times(rows: Sequence[Row], x: Callable[[Row], float]) -> tuple[Line, ...]:
    lines = []
    for tool in dict.fromkeys(row.tool for row in rows):
        of_tool = [row for row in rows if row.tool == tool]
        for kind, dashed in (("CPU", False), ("clock", True)):
            points = tuple((float(x(row)), row.wall_s if dashed else row.cpu_s) for row in of_tool)
            name = f"{tool}, {kind}"
            lines.append(Line(name=name, points=points, colour=_COLOURS[tool], dashed=dashed))
    return tuple(lines)


_DRAWN = {"curve-small": _small, "curve-large": _large, "workers": _workers}

"""What do the rows say, as tables? Markdown: for a terminal and for docs/performance.md."""

from collections.abc import Sequence
from itertools import groupby

from benchmarks.aims import RATIOS, bound_of
from benchmarks.job import Shape
from benchmarks.loads import GIB, MIB
from benchmarks.rows import Row, Spread
from benchmarks.works import WORKS

#: Below this many files a work is about bytes.
_MANY = 100


def tables(rows: Sequence[Row]) -> str:
    """Return a table for each work and server."""
    return "\n".join(
        _table_of(list(group)) for _, group in groupby(rows, key=lambda row: (row.work, row.server))
    )


def _table_of(rows: Sequence[Row]) -> str:
    first = rows[0]
    work = WORKS[first.work]
    title = f"`{first.work}`{_where(first)}: {work.title}{_size(rows)}; {_runs(first.runs)}"
    return f"{title}\n\n{_BODIES[work.shape](rows)}"


def _where(row: Row) -> str:
    if row.server == "nowhere":
        return ""
    return f" on {row.server}{' over TLS' if row.tls else ''}"


def _size(rows: Sequence[Row]) -> str:
    if len({row.point for row in rows}) > 1:
        return ""
    files, mib = rows[0].files, rows[0].bytes / MIB
    return f"; {files:,} files" + (f", {mib:,.0f} MiB" if mib else "")


def _runs(count: int) -> str:
    return "one run" if count == 1 else f"median of {count}"


def _comparison(rows: Sequence[Row]) -> str:
    """Return a line a tool; the last columns are labferry's share of its cost, aims in brackets."""
    ours = next((row for row in rows if row.tool == "labferry"), None)
    headings = ["tool", "wall s", "CPU s", "peak MiB"]
    lines = [
        [
            row.tool,
            _with_spread(row.wall_s, row.wall_s_spread),
            _with_spread(row.cpu_s, row.cpu_s_spread),
            f"{row.peak_rss_bytes / MIB:.0f}",
        ]
        for row in rows
    ]
    if len(rows) > 1 and ours:
        headings += ["labferry/tool: wall", "CPU"]
        lines = [[*line, *_shares(ours, row)] for line, row in zip(lines, rows, strict=True)]
    table = markdown(headings, lines)
    return f"{table}\n{_aimed(ours)}" if ours else table


def _shares(ours: Row, row: Row) -> list[str]:
    if row is ours:
        return ["", ""]
    aim = RATIOS.get((row.work, row.tool))
    cpu, wall = (f" ({aim.cpu:.2f})", f" ({aim.wall:.2f})") if aim else ("", "")
    return [f"{_share(ours.wall_s, row.wall_s)}{wall}", f"{_share(ours.cpu_s, row.cpu_s)}{cpu}"]


def _share(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f}" if theirs else "-"


def _aimed(row: Row) -> str:
    """Return a line of labferry's own figures that were to reach something."""
    said = [
        f"{_spoken(name)} {_number(value)} ({bound})"
        for name, value in row.figures.items()
        if (bound := bound_of(row.work, name))
    ]
    return f"labferry: {'; '.join(said)}\n" if said else ""


def _figures(rows: Sequence[Row]) -> str:
    """Return a line a figure."""
    row = rows[0]
    cost = {
        "wall_s": (row.wall_s, row.wall_s_spread),
        "cpu_s": (row.cpu_s, row.cpu_s_spread),
        "peak_mib": (row.peak_rss_bytes / MIB, None),
    }
    each = {name: (value, row.figures_spread[name]) for name, value in row.figures.items()}
    lines = []
    for name, (value, spread) in {**each, **cost}.items():
        bound = bound_of(row.work, name)
        met = "" if bound is None else "yes" if bound.is_met(value) else "no"
        shown = f"{_number(spread[0])} to {_number(spread[1])}" if spread and row.runs > 1 else ""
        lines.append([_spoken(name), _number(value), shown, str(bound or ""), met])
    return markdown(["figure", "", "from, to", "aim", "reached"], lines)


def _curve(rows: Sequence[Row]) -> str:
    """Return a line a point and tool, with what one file or one GiB took."""
    by_files = rows[-1].files >= _MANY
    lines = [
        [
            row.point,
            row.tool,
            _with_spread(row.wall_s, row.wall_s_spread),
            _with_spread(row.cpu_s, row.cpu_s_spread),
            f"{row.cpu_ms_per_file:.3f}" if by_files else f"{row.cpu_s * GIB / row.bytes:.2f}",
            *(_mib(row, name) for name in ("agent_peak_mib", "worker_peak_mib", "ledger_peak_mib")),
            f"{row.peak_rss_bytes / MIB:.0f}",
        ]
        for row in rows
    ]
    each = "CPU ms a file" if by_files else "CPU s a GiB"
    peaks = ["agent MiB", "one worker process MiB", "ledger MiB", "all MiB"]
    return markdown(["", "tool", "wall s", "CPU s", each, *peaks], lines)


def _mib(row: Row, name: str) -> str:
    return f"{row.figures[name]:.0f}" if name in row.figures else ""


def _figures_by_point(rows: Sequence[Row]) -> str:
    """Return a line a figure, with a column a point."""
    lines = [
        [_spoken(name), *(_number(row.figures[name]) for row in rows)] for name in rows[0].figures
    ]
    return markdown(["", *(f"{row.point} files" for row in rows)], lines)


_BODIES = {
    Shape.TOOLS: _comparison,
    Shape.CURVE: _curve,
    Shape.FIGURES: _figures,
    Shape.FIGURES_BY_POINT: _figures_by_point,
}


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns are aligned, so that it can be read as it is."""
    widths = [max(3, *(len(line[n]) for line in (headings, *lines))) for n in range(len(headings))]
    rule = ["-" * width for width in widths]
    return "".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |\n"
        for line in (headings, rule, *lines)
    )


_UNITS = {
    "_per_cpu_s": "a second of CPU",
    "_per_s": "a second",
    "_per_1000_files": "for 1,000 files",
    "_bytes_per_file": "bytes a file",
    "_cpu_s": "CPU s",
    "_bytes": "bytes",
    "_mib": "MiB",
    "_ms": "ms",
    "_s": "s",
}


def _spoken(name: str) -> str:
    """Return a figure's name in words, its unit last."""
    for ending, unit in _UNITS.items():
        if f"_{name}".endswith(ending):
            words = f"_{name}".removesuffix(ending).replace("_", " ").strip()
            return (
                f"{words} {unit}".strip()
                if ending.startswith("_per_") and ending.endswith("_s")
                else f"{words}, {unit}".strip(", ")
            )
    return name.replace("_", " ")


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _with_spread(middle: float, spread: Spread) -> str:
    shown = f"{middle:.2f}"
    return (
        shown if spread.least == spread.most else f"{shown} ({spread.least:.2f}-{spread.most:.2f})"
    )

"""Rows of results, as no machine measured them."""

from dataclasses import replace

from benchmarks.processes import Cost
from benchmarks.rows import Row, Setup, row_of

SETUP = Setup(work="small-10k", tool="labferry", server="sink", files=10_000, bytes=40_960_000)


def cost(wall_s: float, cpu_s: float, **figures: float) -> Cost:
    return Cost(wall_s=wall_s, cpu_s=cpu_s, peak_rss_bytes=50 * 1024**2, figures=figures)


def row(work: str, tool: str = "labferry", point: str = "", *costs: Cost) -> Row:
    return row_of(replace(SETUP, work=work, tool=tool, point=point), costs or (cost(2.0, 1.0),))

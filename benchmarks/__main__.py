"""What does labferry cost, beside tools that only copy and alone? Linux only.

Each run is on a fresh server; the tools take turns, so that what else goes on meets all of them.
"""

import argparse
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.copies import TOOLS, copy, digests
from benchmarks.job import Job, Point, Scale, Work
from benchmarks.loads import make_files
from benchmarks.processes import Cost
from benchmarks.results import LATEST, Results
from benchmarks.rows import Row, Setup, row_of
from benchmarks.servers import running
from benchmarks.tables import tables
from benchmarks.works import WORKS


def main() -> None:
    """Run what was asked for; print tables and write the results after each work."""
    asked = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and clean up
    scratch = Path(tempfile.mkdtemp(prefix="labferry-bench-", dir=asked.scratch))
    results = Results.read(asked.out) if asked.add else Results()
    measured = []
    try:
        for work in (WORKS[name] for name in asked.only or WORKS):
            rows = list(_rows(work, asked, scratch))
            measured += rows
            results = results.replaced(work.name, rows, asked.scale)
            results.write(asked.out)
    finally:
        shutil.rmtree(scratch)
    print(f"\n{tables(measured)}\nWritten to {asked.out}.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.partition("\n")[0]
    )
    scales = parser.add_mutually_exclusive_group()
    for scale, meaning in (
        (Scale.QUICK, "a few seconds a run, for a first look"),
        (Scale.FULL, "also a million files, 16 GiB in one, a whole sequencer's run: hours"),
    ):
        scales.add_argument(
            f"--{scale}", dest="scale", action="store_const", const=scale, help=meaning
        )
    parser.set_defaults(scale=Scale.USUAL)
    parser.add_argument(
        "--repeat", type=int, help="most runs of each: 1 with --quick, else as the work says"
    )
    parser.add_argument("--only", action="append", choices=list(WORKS), help="default: all")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="default: as the work says")
    parser.add_argument("--server", choices=("seaweedfs", "sink"), help="default: as the work says")
    parser.add_argument("--scratch", type=Path, help="where to put files and servers (15 GB)")
    parser.add_argument("--out", type=Path, default=LATEST, help="the JSON file to write")
    parser.add_argument("--add", action="store_true", help="keep the other works in that file")
    return parser


def _rows(work: Work, asked: argparse.Namespace, scratch: Path) -> Iterator[Row]:
    for point in work.at(asked.scale):
        folder = scratch / "source"
        if work.needs_files:
            make_files(folder, point.sizes)
        # What is no copy may need what the other server has not.
        swaps = asked.server in work.servers or (asked.server and work.measure is copy)
        for server in (asked.server,) if swaps else work.servers:
            yield from _measured(work, point, server, asked, scratch)
        shutil.rmtree(folder, ignore_errors=True)


def _measured(
    work: Work, point: Point, server: str, asked: argparse.Namespace, scratch: Path
) -> Iterator[Row]:
    tools = [tool for tool in work.tools if tool in (asked.tool or TOOLS)]
    costs: dict[str, list[Cost]] = {tool: [] for tool in tools}
    runs = min(asked.repeat or (1 if asked.scale is Scale.QUICK else work.runs), work.runs)
    for round_, tool in itertools.product(range(runs), costs):
        os.sync()  # what the run before wrote shall not be written during this one
        costs[tool].append(_run(work, point, server, tool, scratch))
        print(
            f"{work.name} {point.label} {server} {round_ + 1}/{runs} {tool:8}"
            f" {costs[tool][-1].wall_s:7.2f} s wall {costs[tool][-1].cpu_s:7.2f} s CPU",
            flush=True,
        )
    for tool, taken in costs.items():
        setup = Setup(
            work=work.name,
            tool=tool,
            server=server,
            point=point.label,
            tls=work.tls,
            delay_ms=work.delay_ms,
            files=len(point.sizes),
            bytes=sum(point.sizes),
            digests=digests(tool) if work.measure is copy else "",
        )
        yield row_of(setup, taken)


def _run(work: Work, point: Point, server: str, tool: str, scratch: Path) -> Cost:
    inner = scratch / "tool"
    inner.mkdir()
    try:
        with running(server, scratch / "server", tls=work.tls, delay_ms=work.delay_ms) as endpoint:
            folder = scratch / "source"
            return work.measure(
                Job(point=point, tool=tool, endpoint=endpoint, folder=folder, scratch=inner)
            )
    except Exception as error:
        for log in sorted(inner.glob("*.log")):
            error.add_note(f"{log.name}:\n{log.read_text(errors='replace')[-3000:]}")
        raise
    finally:
        shutil.rmtree(inner)


if __name__ == "__main__":
    main()

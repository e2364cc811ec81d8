"""What would 100 million files a day and 1 PB a month take, on paper, by what was measured?

Every cost is doubled, since no estimate is an upper bound. Nothing of this was run.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from benchmarks.loads import GIB
from benchmarks.rows import Row
from benchmarks.tables import markdown

FILES_A_DAY = 100_000_000
BYTES_A_MONTH = 10**15
FILES_A_MESSAGE = 500
DAY_S, MONTH_S = 86_400, 30 * 86_400
DOUBLED = 2

Line = tuple[str, str, str]


def estimate(rows: Sequence[Row]) -> str:
    """Return the table; what was not measured is left out of it, '' where nothing was."""
    ours = [row for row in rows if row.tool == "labferry"]
    found = chain.from_iterable(
        line(max(of_work, key=lambda row: (row.files, row.server == "sink")))
        for work, line in _LINES.items()
        if (of_work := [row for row in ours if row.work == work])
    )
    lines = list(found)
    return markdown(["", "a second", "means"], lines) if lines else ""


def _small(row: Row) -> Iterator[Line]:
    files_per_s = FILES_A_DAY / DAY_S
    cores = _cores(files_per_s * row.cpu_ms_per_file / 1000)
    messages = f"{files_per_s / FILES_A_MESSAGE:.1f} messages of {FILES_A_MESSAGE} files"
    means = f"{row.cpu_ms_per_file:.3f} ms of CPU each, doubled: {cores}; {messages}"
    yield "100 million small files a day", f"{files_per_s:,.0f} files", means


def _large(row: Row) -> Iterator[Line]:
    bytes_per_s = BYTES_A_MONTH / MONTH_S
    each_s = row.cpu_s * GIB / row.bytes
    cores = bytes_per_s / GIB * each_s
    means = (
        f"{each_s:.2f} s of CPU a GiB, doubled: {_cores(cores)}; "
        f"{bytes_per_s * 8 / 1e9:.1f} Gbit/s of the link and of the shares"
    )
    yield "1 PB a month in large files", f"{bytes_per_s / 1e6:,.0f} MB", means


def _moves(row: Row) -> Iterator[Line]:
    files_per_s = FILES_A_DAY / DAY_S
    each_ms = 1000 * row.figures["ledger_cpu_s"] / row.files
    cores = _cores(files_per_s * each_ms / 1000)
    means = f"{each_ms:.3f} ms of Valkey's CPU a file, doubled: {cores}"
    yield "the ledger's moves", f"{4 * files_per_s:,.0f} moves", means


def _memory(row: Row) -> Iterator[Line]:
    each = row.figures["bytes_per_file"]
    hour, day = (each * FILES_A_DAY * share / 1e9 for share in (1 / 24, 1))
    after = f"{hour:.1f} GB after an hour's outage, {day:.0f} GB after a day's"
    yield "files in flight", "", f"{each:.0f} bytes each: {after}"


def _rescan(row: Row) -> Iterator[Line]:
    rate = row.figures["known_files_per_s"]
    minutes = f"{FILES_A_DAY / rate / 60:,.0f} minutes of one agent"
    means = f"{minutes} for a day's, from a local disk"
    yield "a look at what is known", f"{rate:,.0f} files", means


def _cores(cores: float) -> str:
    return f"{DOUBLED * cores:.2f} cores"


_LINES: dict[str, Callable[[Row], Iterator[Line]]] = {
    "curve-small": _small,
    "large-4g": _large,
    "ledger-moves": _moves,
    "ledger-memory": _memory,
    "rescan-200k": _rescan,
}

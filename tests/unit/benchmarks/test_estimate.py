"""Does the estimate follow from what was measured?"""

from dataclasses import replace

import pytest

from benchmarks.estimate import estimate
from benchmarks.rows import Row
from tests.unit.benchmarks.rows_by_hand import cost, row
from tests.unit.benchmarks.test_tables import cells


def test_small_files_take_twice_the_cpu_that_was_measured() -> None:
    text = estimate([row("curve-small", "labferry", "", cost(9, 0.864 * 10))])
    told = cells(text, "100 million small files a day")
    assert told[1] == "1,157 files"
    assert told[2].endswith("doubled: 2.00 cores; 2.3 messages of 500 files")


def test_the_largest_load_counts() -> None:
    small, large = row("curve-small", "labferry", "", cost(9, 80)), row("curve-small")
    assert estimate([replace(small, files=10), large]) == estimate([large])


def test_what_other_tools_take_does_not_count() -> None:
    assert estimate([row("curve-small", "s5cmd")]) == ""


@pytest.mark.parametrize(
    ("measured", "name", "means"),
    [
        (
            row("ledger-memory", "labferry", "", cost(1, 1, bytes_per_file=150)),
            "files in flight",
            "150 bytes each: 0.6 GB after an hour's outage, 15 GB after a day's",
        ),
        (
            row("ledger-moves", "labferry", "", cost(1, 1, ledger_cpu_s=0.432)),
            "the ledger's moves",
            "0.043 ms of Valkey's CPU a file, doubled: 0.10 cores",
        ),
        (
            row("rescan-200k", "labferry", "", cost(1, 1, known_files_per_s=100_000)),
            "a look at what is known",
            "17 minutes of one agent for a day's, from a local disk",
        ),
    ],
)
def test_the_ledger_takes_what_was_measured(measured: Row, name: str, means: str) -> None:
    assert cells(estimate([measured]), name)[2] == means


def test_a_petabyte_takes_a_link() -> None:
    told = cells(estimate([row("large-4g")]), "1 PB a month in large files")
    assert told[1] == "386 MB"
    assert told[2].endswith("3.1 Gbit/s of the link and of the shares")

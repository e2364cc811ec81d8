"""Does a benchmark run to its end, and leave results that the page can be made of?"""

import subprocess
import sys
from pathlib import Path

from benchmarks.aims import BOUNDS
from benchmarks.results import Results

ROOT = Path(__file__).parent.parent.parent

WORKS = ("ledger-moves", "ledger-memory")
TIMEOUT_S = 300


def test_each_work_of_a_first_look_leaves_a_row_with_what_was_to_be_reached(tmp_path: Path) -> None:
    out = tmp_path / "latest.json"
    asked = [word for work in WORKS for word in ("--only", work)]
    command = [sys.executable, "-m", "benchmarks", "--quick", *asked, "--out", str(out)]
    subprocess.run([*command, "--scratch", str(tmp_path)], cwd=ROOT, check=True, timeout=TIMEOUT_S)
    rows = Results.read(out).rows
    assert [row.work for row in rows] == list(WORKS)
    for row in rows:
        aimed = {figure for work, figure in BOUNDS if work == row.work}
        assert all(row.figures[figure] > 0 for figure in aimed)
    assert list(tmp_path.iterdir()) == [out]

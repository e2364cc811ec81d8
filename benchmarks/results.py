"""Where are the results kept? In one JSON file, with the machine that they are of."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.rows import Row, read_row

LATEST = Path(__file__).parent / "results" / "latest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All rows, in the order they were measured; `machine` and `at` are of the newest."""

    rows: tuple[Row, ...] = ()
    machine: dict[str, Any] = field(default_factory=dict)
    at: str = ""
    scale: str = ""

    def replaced(self, work: str, rows: Sequence[Row], scale: str) -> "Results":
        """Return them with these rows in the place of those of a work."""
        others = [row for row in self.rows if row.work != work]
        return replace(
            self,
            rows=(*others, *rows),
            machine=_machine(),
            at=datetime.now(UTC).date().isoformat(),
            scale=scale,
        )

    def write(self, path: Path) -> None:
        """Write them, whole or not at all."""
        facts = {
            "machine": self.machine,
            "at": self.at,
            "scale": self.scale,
            "rows": [row.facts() for row in self.rows],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(facts, indent=2) + "\n")
        unfinished.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Return what a file holds; nothing where there is none."""
        if not path.exists():
            return cls()
        facts = json.loads(path.read_text())
        return cls(**{**facts, "rows": tuple(read_row(row) for row in facts["rows"])})


def _machine() -> dict[str, Any]:
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }

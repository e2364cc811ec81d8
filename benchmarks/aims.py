"""What was to be reached? Shares of a tool's cost in the same run, and labferry's own figures."""

from dataclasses import dataclass
from typing import NamedTuple


class Ratio(NamedTuple):
    """The most of a tool's cost that labferry may take."""

    cpu: float
    wall: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The least or the most that a figure may be."""

    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether a figure is as it should be."""
        if self.least is not None and value < self.least:
            return False
        return self.most is None or value <= self.most

    def __str__(self) -> str:
        if self.least is not None:
            return f">= {self.least:,g}"
        return f"<= {self.most:,g}"


#: By work and tool.
RATIOS = {
    ("small-10k", "s5cmd"): Ratio(cpu=0.75, wall=1.0),
    ("small-200k", "s5cmd"): Ratio(cpu=0.60, wall=0.60),
    ("small-200k", "rclone"): Ratio(cpu=0.40, wall=0.45),
    ("large-4g", "s5cmd"): Ratio(cpu=0.30, wall=0.50),
    ("large-4g", "awscrt"): Ratio(cpu=0.7, wall=0.8),
    ("large-4g-tls", "s5cmd"): Ratio(cpu=0.45, wall=0.60),
}

#: By work and figure.
BOUNDS = {
    ("rescan-200k", "known_files_per_s"): Bound(least=100_000),
    ("ledger-moves", "moves_per_s"): Bound(least=50_000),
    ("ledger-memory", "bytes_per_file"): Bound(most=200),
    ("unbundled-10k", "files_per_s"): Bound(least=700),
    ("fairness", "ratio_together"): Bound(most=2),
    ("fairness", "ratio_in_turn"): Bound(most=2),
    ("poison", "ratio"): Bound(least=0.9),
}

#: Of any work: the agent, and one process of a worker.
PEAKS = {"agent_peak_mib": Bound(most=150), "worker_peak_mib": Bound(most=250)}


def bound_of(work: str, figure: str) -> Bound | None:
    """Return what a figure should be, if anything was said."""
    return BOUNDS.get((work, figure)) or PEAKS.get(figure)

"""What is on record of a work that was measured? Medians of some runs, each with its spread."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, NamedTuple

from benchmarks.processes import Cost

#: Digits that are kept: a clock tells no more.
_DIGITS = 4


class Spread(NamedTuple):
    """The least and the most of some runs."""

    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What was measured: one tool on one point of a work, on one server."""

    work: str
    tool: str
    server: str
    point: str = ""
    tls: bool = False
    delay_ms: int = 0
    files: int = 0
    bytes: int = 0
    digests: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Setup):
    """A setup and its medians; `figures` have a unit at the end of their names."""

    runs: int
    cpu_s: float
    wall_s: float
    peak_rss_bytes: int
    cpu_s_spread: Spread
    wall_s_spread: Spread
    figures: dict[str, float] = field(default_factory=dict)
    figures_spread: dict[str, Spread] = field(default_factory=dict)

    @property
    def files_per_s(self) -> float:
        """Return how many files went through in a second of the clock."""
        return self.files / self.wall_s if self.wall_s else 0.0

    @property
    def cpu_ms_per_file(self) -> float:
        """Return what a file took."""
        return 1000 * self.cpu_s / self.files if self.files else 0.0

    def facts(self) -> dict[str, Any]:
        """Return the row for the JSON file."""
        return asdict(self)


def row_of(setup: Setup, costs: Sequence[Cost]) -> Row:
    """Return the row of some runs of one setup."""
    names = list(dict.fromkeys(name for cost in costs for name in cost.figures))
    each = {name: [one.figures[name] for one in costs if name in one.figures] for name in names}
    return Row(
        **asdict(setup),
        runs=len(costs),
        cpu_s=_middle([cost.cpu_s for cost in costs]),
        wall_s=_middle([cost.wall_s for cost in costs]),
        peak_rss_bytes=int(median(cost.peak_rss_bytes for cost in costs)),
        cpu_s_spread=_spread([cost.cpu_s for cost in costs]),
        wall_s_spread=_spread([cost.wall_s for cost in costs]),
        figures={name: _middle(values) for name, values in each.items()},
        figures_spread={name: _spread(values) for name, values in each.items()},
    )


def read_row(facts: dict[str, Any]) -> Row:
    """Return the row that the JSON file tells of."""
    spreads = {name: Spread(*facts[name]) for name in ("cpu_s_spread", "wall_s_spread")}
    figures = {name: Spread(*both) for name, both in facts["figures_spread"].items()}
    return Row(**{**facts, **spreads, "figures_spread": figures})


def _middle(values: Sequence[float]) -> float:
    return round(median(values), _DIGITS)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(round(min(values), _DIGITS), round(max(values), _DIGITS))

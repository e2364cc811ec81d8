"""What is to be measured, and with what in hand?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from benchmarks.loads import Sizes
from benchmarks.processes import Cost
from benchmarks.servers import Endpoint


class Scale(StrEnum):
    """How much is measured."""

    QUICK = "quick"  # a few seconds a run, for a first look
    USUAL = "usual"
    FULL = "full"  # with the largest loads, which take hours


class Shape(StrEnum):
    """What a table of a work's rows is about."""

    TOOLS = "tools"  # labferry's cost beside that of others
    CURVE = "curve"  # how the cost grows from point to point
    FIGURES = "figures"  # what else was measured
    FIGURES_BY_POINT = "figures by point"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One of the loads of a work; `environment` are settings of labferry's beside the default."""

    label: str = ""
    sizes: Sizes
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of one tool; `folder` holds the files of the point, `scratch` is empty."""

    point: Point
    tool: str
    endpoint: Endpoint
    folder: Path
    scratch: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is measured together; where `full` is empty, `points` are measured then too.

    `runs` are the most that make sense, `needs_files` whether the files have to be there before.
    """

    name: str
    title: str
    measure: Callable[[Job], Cost]
    servers: tuple[str, ...]
    points: tuple[Point, ...]
    quick: tuple[Point, ...]
    full: tuple[Point, ...] = ()
    tools: tuple[str, ...] = ("labferry",)
    shape: Shape = Shape.TOOLS
    tls: bool = False
    delay_ms: int = 0
    runs: int = 5
    needs_files: bool = True

    def at(self, scale: Scale) -> tuple[Point, ...]:
        """Return the points of a scale."""
        if scale is Scale.QUICK:
            return self.quick
        return self.full if scale is Scale.FULL and self.full else self.points

"""How is a chart of a few lines drawn as SVG, readable on a light and on a dark page?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 76, 170, 48, 52
#: Free of both backgrounds; the first two are kept for what is compared.
COLOURS = ("#2f7de1", "#e0782f", "#2aa198", "#b058c8")
#: Names at the ends of lines do not touch.
NAME_PX = 16
#: Lines of a grid that is not logarithmic.
MOST_STEPS = 7
#: How much room there is above the greatest value.
HEADROOM = 1.08

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #333 }
.title { font-size: 15px; font-weight: 600 }
.grid { stroke: #8884; stroke-width: 1 }
path { fill: none; stroke-width: 2 }
.dashed { stroke-dasharray: 6 4 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } }"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What is drawn in one colour; `dashed` for the second kind of figure of the same thing."""

    name: str
    points: tuple[tuple[float, float], ...]
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over one x axis; the y axis begins at 0 unless it is logarithmic."""

    title: str
    x_name: str
    y_name: str
    lines: tuple[Line, ...]
    is_log_x: bool = False
    is_log_y: bool = False


class _Axis:
    """Where values lie between two ends in pixels."""

    def __init__(self, values: Sequence[float], ends: tuple[float, float], *, is_log: bool) -> None:
        self._is_log = is_log
        self._from, self._to = ends
        if is_log:
            low, high = min(values), max(values) * HEADROOM
            self.ticks = [10.0**n for n in range(_exponent(low), _exponent(high) + 1)]
            self._low, self._high = math.log10(self.ticks[0]), math.log10(high)
            self.ticks = [tick for tick in self.ticks if math.log10(tick) <= self._high]
        else:
            step = _step(max(values))
            self._low, self._high = 0.0, max(values) * HEADROOM
            self.ticks = [step * n for n in range(int(self._high / step) + 1)]

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        place = math.log10(value) if self._is_log else value
        share = (place - self._low) / (self._high - self._low)
        return round(self._from + share * (self._to - self._from), 1)


def draw(chart: Chart) -> str:
    """Return the document."""
    xs = [x for line in chart.lines for x, _ in line.points]
    ys = [y for line in chart.lines for _, y in line.points]
    across = _Axis(xs, (LEFT, WIDTH - RIGHT), is_log=chart.is_log_x)
    up = _Axis(ys, (HEIGHT - BOTTOM, TOP), is_log=chart.is_log_y)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(chart.title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="22">{escape(chart.title)}</text>',
        f'<text x="{LEFT}" y="{TOP - 8}">{escape(chart.y_name)}</text>',
        _text(chart.x_name, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "middle"),
        *_grid(across, up),
        *(_path(line, across, up) for line in chart.lines),
        *_names(chart.lines, up),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(across: _Axis, up: _Axis) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for tick in up.ticks:
        y = up.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(_text(short(tick), LEFT - 8, y + 4, "end"))
    for tick in across.ticks:
        x = across.at(tick)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(_text(short(tick), x, bottom + 18, "middle"))
    return parts


def _path(line: Line, across: _Axis, up: _Axis) -> str:
    places = [(across.at(x), up.at(y)) for x, y in line.points]
    colour, kind = COLOURS[line.colour], ' class="dashed"' if line.dashed else ""
    drawn = " L".join(f"{x} {y}" for x, y in places)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places)
    return f'<path{kind} stroke="{colour}" d="M{drawn}"/>{dots}'


def _names(lines: Sequence[Line], up: _Axis) -> list[str]:
    """Return each line's name beside its end, moved down where another one is."""
    parts, free = [], float(TOP)
    for line in sorted(lines, key=lambda one: up.at(one.points[-1][1])):
        y = max(up.at(line.points[-1][1]) + 4, free)
        free = y + NAME_PX
        style = f'style="fill: {COLOURS[line.colour]}"'
        parts.append(f'<text {style} x="{WIDTH - RIGHT + 10}" y="{y}">{escape(line.name)}</text>')
    return parts


def _text(words: str, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def short(value: float) -> str:
    """Return a number as an axis says it, such as 200k."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _exponent(value: float) -> int:
    return math.floor(math.log10(value))


def _step(most: float) -> float:
    """Return a round step that leaves three to seven lines."""
    power = 10.0 ** _exponent(most)
    return next(power * share for share in (0.2, 0.5, 1, 2) if most / (power * share) <= MOST_STEPS)

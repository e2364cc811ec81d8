"""How does a preview look on a terminal? By prediction and cause, never thousands of lines."""

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ops.preview import Forecast, Prediction
from ops.shown import counted, terminal

#: Files named of each group.
_NAMED = 5
_STYLES = {
    Prediction.NO_OP: "green",
    Prediction.UPLOAD: "cyan",
    Prediction.FAIL: "bold red",
    Prediction.UNKNOWN: "yellow",
}


def show_forecasts(forecasts: Sequence[Forecast], obstacles: Sequence[str]) -> None:
    """Print what would become of files."""
    console = terminal()
    if not forecasts:
        console.print("No file is meant. `labferry dead-letters list` shows what stopped.")
        return
    for obstacle in obstacles:
        console.print(
            Text(f"In the way now: {obstacle} Files are held until it is gone.", "yellow")
        )
    groups: dict[tuple[Prediction, str, str], list[Forecast]] = defaultdict(list)
    for one in forecasts:
        groups[one.prediction, one.why, one.chosen.code].append(one)
    order = list(Prediction)
    for key in sorted(groups, key=lambda key: (order.index(key[0]), -len(groups[key]))):
        _show_group(console, key, groups[key])


def _show_group(
    console: Console, key: tuple[Prediction, str, str], group: Sequence[Forecast]
) -> None:
    prediction, why, code = key
    was = f" (stopped by {code})" if code else ""
    console.print(
        Text.assemble(
            (prediction, _STYLES[prediction]),
            f": {counted(len(group))}{was}: {why}",
            overflow="fold",
        )
    )
    table = Table.grid(padding=(0, 2))
    for one in group[:_NAMED]:
        table.add_row("", Text(str(one.chosen.file), overflow="fold"))
    if len(group) > _NAMED:
        table.add_row("", f"and {len(group) - _NAMED:,} more")
    console.print(table)

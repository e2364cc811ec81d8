"""Which arguments do several commands take?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from labferry.settings import Settings


def _config_given(context: typer.Context, value: Path | None) -> Path | None:
    """Let --config stand before the command or after it."""
    root = context.find_root()
    root.obj = value or root.obj
    chosen: Path | None = root.obj
    return chosen


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=_config_given,
        help="Settings; else LABFERRY_CONFIG, else ./labferry.toml.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="INSTRUMENT/RUN")]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; goes on record with your name.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Stop after showing what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where nobody can answer.")]


def load(config: Path | None, program: str) -> "Settings":
    """Return the settings of a command that logs under this name. Raises: SettingsError."""
    from labferry.settings import load_settings
    from labferry.telemetry import configure

    configure(program)
    settings = load_settings(config)
    settings.logs.apply(program)
    return settings

"""Which options of a command make a selector? The same ones for each command that takes one."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

_PANEL = "Which dead letters: everything named must hold"


def _option(name: str, metavar: str, meaning: str) -> Any:
    return Annotated[
        str | None,
        typer.Option(f"--{name}", metavar=metavar, help=meaning, rich_help_panel=_PANEL),
    ]


_OPTIONS = {
    "run": _option("run", "RUN", "Of this run, INSTRUMENT/RUN."),
    "instrument": _option("instrument", "NAME", "Of this instrument."),
    "code": _option("code", "CODE", "With this code, such as AccessDenied."),
    "fingerprint": _option("fingerprint", "HEX", "With this error fingerprint, or its beginning."),
    "file": _option("file", "KEY", "This file, INSTRUMENT/RUN/PATH."),
    "older_than": _option("older-than", "AGE", "Dead for longer, such as 2h or 3d."),
    "larger_than": _option("larger-than", "SIZE", "Of more bytes, such as 10GB."),
    "sink": _option("sink", "NAME", "Events not delivered to this sink, or to all; no files."),
    "all": Annotated[bool, typer.Option("--all", help="All.", rich_help_panel=_PANEL)],
}


def selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a selector; it gets them as one argument, `selector`."""
    kept = [one for one in inspect.signature(command).parameters.values() if one.name != "selector"]
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if name == "all" else None,
            annotation=annotation,
        )
        for name, annotation in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        from labferry.selector import read_selector

        named = {name: given.pop(name) for name in _OPTIONS}
        command(selector=read_selector(**named), **given)

    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in kept), *options]
    )
    called.__annotations__ = {
        one.name: one.annotation
        for one in called.__signature__.parameters.values()  # type: ignore[attr-defined]
    }
    return called

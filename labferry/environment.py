"""Which environment does a program have that labferry starts?"""

import os
from collections.abc import Mapping
from pathlib import Path

from labferry.settings import config_path


def child_environment(
    config: Path | None, changes: Mapping[str, str] | None = None, *, without: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the environment for a program of labferry that shall have the same settings.

    `without` names beginnings of variables that are left out.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    if path := config_path(config):
        kept["LABFERRY_CONFIG"] = str(path.resolve())
    return kept | dict(changes or {})


def adopt_environment(environment: Mapping[str, str]) -> None:
    """Make this process's environment that one; for the demo, which has servers of its own."""
    os.environ.clear()
    os.environ.update(environment)

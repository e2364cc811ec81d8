"""Where do profiles come from?

A profile is a TOML file, `<name>.toml`: shipped beside this module, or a facility's own in the
folder `profiles/` beside its labferry.toml. It may extend another one; an instrument's settings may
set any field over it. In a list, "..." stands for the list that it is laid over.
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labferry.errors import SettingsError
from labferry.profiles.fields import Profile

__all__ = ["NO_SUCH_FIELD", "Profile", "load_profile", "own_folder", "profile_names"]

NO_SUCH_FIELD = "a profile has no such field"
_STEP = "docs/profiles.md lists the fields of a profile."
_REST = "..."


def own_folder(config: Path | None) -> Path | None:
    """Return the folder of a facility's own profiles: `profiles/` beside its labferry.toml."""
    return config.resolve().parent / "profiles" if config else None


def profile_names(beside: Path | None = None) -> list[str]:
    """Return the names of all profiles, those of the facility's own folder among them."""
    return sorted(_files(beside))


def load_profile(name: str, own: Mapping[str, Any], beside: Path | None = None) -> Profile:
    """Return a profile with an instrument's own fields over it.

    Raises: SettingsError, which names the field, and the file where it is one of a facility's own.
    """
    fields = _over(_fields(name, beside, ()), own)
    try:
        return Profile.model_validate({**fields, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(
            field=".".join(str(part) for part in first["loc"]),
            why=_why(first["type"], first["msg"]),
            step=_STEP,
        ) from error


def _files(beside: Path | None) -> dict[str, Traversable]:
    """Return the file of each profile; a facility's own hides a shipped one of the same name."""
    folders: list[Traversable] = [files(__name__)]
    if beside is not None and beside.is_dir():
        folders.append(beside)
    return {
        item.name.removesuffix(".toml"): item
        for folder in folders
        for item in folder.iterdir()
        if item.name.endswith(".toml")
    }


def _fields(name: str, beside: Path | None, below: tuple[str, ...]) -> dict[str, Any]:
    """Return a profile's fields, laid over those of the one it extends."""
    known = _files(beside)
    # A facility's own may extend the shipped one of its name.
    file = _files(None).get(name) if name in below else known.get(name)
    if file is None or below.count(name) > 1:
        why = f"{name!r} extends itself" if name in below else f"there is no profile {name!r}"
        step = f"Known: {', '.join(sorted(known))}."
        raise SettingsError(field="extends" if below else "profile", why=why, step=step)
    try:
        fields = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        why = f"{file} cannot be read as TOML: {error}"
        raise SettingsError(field="profile", why=why, step="Mend it.") from error
    if not (base := str(fields.get("extends", ""))):
        return fields
    return _over(_fields(base, beside, (*below, name)), fields)


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Lay fields over others; in a list, "..." stands for what was there."""
    laid = {name: _spread(base.get(name, ()), value) for name, value in own.items()}
    return {**base, **laid}


def _spread(under: Any, value: Any) -> Any:
    if not isinstance(value, list | tuple) or _REST not in value:
        return value
    where = value.index(_REST)
    return [*value[:where], *under, *value[where + 1 :]]


def _why(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return NO_SUCH_FIELD
    return message.removeprefix("Value error, ").replace("Input should", "it should", 1)

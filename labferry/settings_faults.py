"""How is a wrong setting named to the person who set it: field, reason, file, variable?"""

from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from labferry.errors import BadName, SettingsError
from labferry.profiles import NO_SUCH_FIELD

#: What a whole section that is missing stands for.
_REQUIRED = {"store": "store.bucket", "instruments": "instruments.NAME.root"}


def name_fault(error: ValidationError, path: Path | None) -> SettingsError:
    """Return the first fault as one sentence; `path` is the file in force."""
    fault = error.errors()[0]
    field = ".".join(str(part) for part in fault["loc"])
    if fault["type"] in {"missing", "too_short"}:
        field = _REQUIRED.get(field, field)
    unknown = fault["type"] == "extra_forbidden"
    step = _where_it_stands(field, path) if unknown else _where_to_set(field, path)
    return SettingsError(field=field, why=_why(fault), step=step)


def name_instrument_fault(
    name: str, error: BadName | SettingsError, path: Path | None
) -> SettingsError:
    """Return what is wrong with an instrument's name or with a field of its profile."""
    field = f"instruments.{name}"
    if isinstance(error, BadName):
        why = "the name is not letters, digits, '.', '_' and '-'"
        return SettingsError(field=field, why=why, step="Rename it.")
    field = f"{field}.{error.field}"
    where = _where if error.why == NO_SUCH_FIELD else _where_to_set
    step = f"{where(field, path)} {error.step}"
    return SettingsError(field=field, why=error.why, step=step)


def _why(fault: ErrorDetails) -> str:
    match fault["type"]:
        case "missing":
            return "it is not set"
        case "too_short":
            return "no instrument is set"
        case "extra_forbidden":
            return "labferry has no such setting"
        case "string_pattern_mismatch":
            return f"it should match {fault['ctx']['pattern']}"
        case "value_error":  # a relation between fields of a section
            return str(fault["ctx"]["error"])
    why = fault["msg"].replace("Input should", "it should", 1)
    given = fault["input"]
    # Not the value of a text: a URL or a credential holds a password.
    return f"{why}, not {given}" if isinstance(given, int | float) else why


def _where_to_set(field: str, path: Path | None) -> str:
    *section, name = field.split(".")
    if not section:
        return _where_it_stands(field, path)
    here = str(path) if path else "labferry.toml (there is none here; `labferry init` writes one)"
    return f"Set `{name}` under [{'.'.join(section)}] of {here}, or {_variable(field)}."


def _where_it_stands(field: str, path: Path | None) -> str:
    """For what has no right place: a name that is wrong, or fields that do not go together."""
    return f"{_where(field, path)} `labferry init PATH` shows every setting."


def _where(field: str, path: Path | None) -> str:
    variable = _variable(field) if "." in field else f"{_variable(field)}__*"
    file = f"{path}, or in " if path else ""
    return f"It stands in {file}the environment as {variable}."


def _variable(field: str) -> str:
    return "LABFERRY_" + field.upper().replace(".", "__")

"""How are settings read from the environment?"""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_settings import BaseSettings, EnvSettingsSource, TomlConfigSettingsSource

from labferry.errors import SettingsError


class Environment(EnvSettingsSource):
    """LABFERRY_SECTION__FIELD; an instrument of the file keeps the file's spelling of its name.

    The names of variables are read without regard to case, so NOVASEQ1 would be a second instrument
    beside NovaSeq1.
    """

    def __init__(self, settings_cls: type[BaseSettings], file: TomlConfigSettingsSource) -> None:
        super().__init__(settings_cls)
        named = file().get("instruments")
        self._spelled = {name.lower(): name for name in named} if isinstance(named, dict) else {}

    def __call__(self) -> dict[str, Any]:
        """Return what the environment sets."""
        found = super().__call__()
        if isinstance(instruments := found.get("instruments"), dict):
            found["instruments"] = {
                self._spelled.get(name.lower(), name): fields
                for name, fields in instruments.items()
            }
        return found


def refuse_unknown_sections(variables: Iterable[str], sections: Sequence[str]) -> None:
    """Refuse a variable of a section that is not there. Raises: SettingsError."""
    for variable in variables:
        section, _, rest = variable.removeprefix("LABFERRY_").partition("__")
        if not variable.startswith("LABFERRY_") or not rest:
            continue
        if section.lower() not in sections:
            raise SettingsError(
                field=variable,
                why=f"there is no section [{section.lower()}]",
                step=f"Sections: {', '.join(sections)}. Unset or rename the variable.",
            )

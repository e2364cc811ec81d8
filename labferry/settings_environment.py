"""How are settings read from the environment?"""

from typing import Any

from pydantic_settings import BaseSettings, EnvSettingsSource, TomlConfigSettingsSource


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

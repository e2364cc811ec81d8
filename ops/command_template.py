"""What does `--exec 'CMD {run} {manifest}'` run for an event? No shell: a word is an argument."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from labferry.errors import SettingsError
from labferry.events import execution_name

#: What stands for a field of the event; `{name}` for a name that an execution may have.
FIELDS = ("run", "instrument", "generation", "bucket", "manifest", "marker", "id", "event", "name")
_FIELD = re.compile(r"\{([a-z_]+)\}")


class CommandTemplate:
    """A command line with fields to be filled in."""

    def __init__(self, text: str) -> None:
        """Raises: SettingsError."""
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise _fault(f"{error}") from error
        if not self._words:
            raise _fault("it is empty")
        named = {name for word in self._words for name in _FIELD.findall(word)}
        if unknown := named - set(FIELDS):
            raise _fault(f"{{{min(unknown)}}} is no field of an event")

    def filled(self, event: Mapping[str, Any]) -> list[str]:
        """Return program and arguments for an event."""
        known = {**event, "name": execution_name(event)}
        return [
            _FIELD.sub(lambda match: str(known.get(match[1], "")), word) for word in self._words
        ]


def _fault(why: str) -> SettingsError:
    fields = ", ".join(f"{{{name}}}" for name in FIELDS)
    return SettingsError(field="--exec", why=why, step=f"Write CMD and arguments with {fields}.")

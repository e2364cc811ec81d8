"""How is a small record kept as JSON, so that no version of labferry misreads another's?

A field that another version may do without is added under the same number, and left out by who does
not know it; what must not be left out gets the next number.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from labferry.errors import MalformedMessage

T = TypeVar("T")


def known(kind: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return those fields of a record that this version has; a newer one may have written more."""
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in found.items() if name in names}


def write_versioned(version: int, record: Mapping[str, object]) -> str:
    """Return the JSON text, always the same one for the same fields."""
    return json.dumps({"version": version, **record}, sort_keys=True)


def read_record(text: bytes | str, version: int, what: str, kind: Callable[..., T]) -> T:
    """Return the record of such a text whose fields are as JSON has them.

    Raises: MalformedMessage, as `read_versioned`.
    """
    return read_versioned(text, version, what, lambda found: kind(**known(kind, found)))


def read_versioned(
    text: bytes | str, version: int, what: str, make: Callable[[dict[str, Any]], T]
) -> T:
    """Return what is made of the fields of such a text; `what` it is, for a person.

    Raises: MalformedMessage for another version, and where the fields are not as `make` needs them.
    """
    try:
        found = json.loads(text)
        if found.pop("version") != version:
            raise MalformedMessage(what=what, why="its version is not known")
        return make(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedMessage(what=what, why=str(error)) from error

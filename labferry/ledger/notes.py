"""How does one line of a file's history lie in the ledger? `<at_ms> <JSON>`, `form` in it.

`version` is the note's own: which labferry wrote it.
"""

import json
from dataclasses import replace

from labferry.errors import MalformedMessage
from labferry.records import NEW_NOTE, Note, fields_of
from labferry.states import Event

_FORM = 1
_TYPES = {name: type(value) for name, value in NEW_NOTE.items()}


def pack_note(note: Note | None) -> str:
    """Return the JSON text, without what is as in a new note; '' for none."""
    if note is None:
        return ""
    # ASCII alone: a message may quote a name that is not valid UTF-8.
    return json.dumps({"form": _FORM, **fields_of(note)}, sort_keys=True)


def pack_line(note: Note) -> str:
    """Return the line of a history, dated as the note is."""
    return f"{note.at_ms} {pack_note(replace(note, at_ms=0))}"


def unpack_note(line: bytes) -> Note:
    """Read a line of a history; unknown extra fields are tolerated. Raises: MalformedMessage."""
    at_ms, _, text = line.partition(b" ")
    try:
        fields = json.loads(text)
        if fields.pop("form") != _FORM:
            raise MalformedMessage(what="a note", why="its form is not known")
        known = {name: fields.get(name, value) for name, value in NEW_NOTE.items()}
        known |= {"event": Event(fields["event"]), "at_ms": int(at_ms)}
        if wrong := [name for name, value in known.items() if type(value) is not _TYPES[name]]:
            raise MalformedMessage(what="a note", why=f"of another type: {', '.join(wrong)}")
        return Note(**known)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedMessage(what="a note", why=str(error)) from error

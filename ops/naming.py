"""Which file does a person mean?

By its file key, by its object's key, or by its path as the source has it: below the root, or whole,
with whatever bytes and however deep its run lies. A name may be read in several ways; what is on
record decides.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from labferry.errors import BadName, NotFound, SettingsError
from labferry.identity import FileKey, Layout, RunKey, encode_path
from labferry.source.scan import stand_in

#: Folders from a root to its runs, at most, that are tried.
_DEEPEST = 4
Found = TypeVar("Found")


def first_found(
    text: str, layout: Layout, roots: Mapping[str, Path], look: Callable[[FileKey], Found]
) -> Found:
    """Return what is known of the file that a text names, asked reading by reading.

    Raises: NotFound, the first one that `look` raised; SettingsError when it names no file.
    """
    missing: NotFound | None = None
    for file in readings(text, layout, roots):
        try:
            return look(file)
        except NotFound as error:
            missing = missing or error
    if missing is not None:
        raise missing
    raise SettingsError(
        field="KEY",
        why=f"{text!r} is not INSTRUMENT/RUN/PATH",
        step="PATH is the file's path below its run folder; `labferry status` lists the runs.",
    )


def readings(text: str, layout: Layout, roots: Mapping[str, Path]) -> Iterator[FileKey]:
    """Yield the files that a text may name, the likeliest first."""
    yield from _parsed(text)
    if (found := layout.find_file(text)) is not None:
        yield found[0]
    for instrument, raw in _sources(text, roots):
        names = encode_path(raw).split("/")
        for depth in range(1, min(len(names), _DEEPEST + 1)):
            path = "/".join(names[depth:])
            try:
                run = RunKey.below(instrument, names[:depth])
            except BadName:
                continue
            yield run.file(path)
            yield run.file(stand_in(path))


def _parsed(text: str) -> Iterator[FileKey]:
    try:
        yield FileKey.parse(text)
    except BadName:
        return


def _sources(text: str, roots: Mapping[str, Path]) -> Iterator[tuple[str, bytes]]:
    """Yield an instrument and a path below its root, as the source has it."""
    raw = os.fsencode(text)
    for instrument, root in roots.items():
        above = os.fsencode(root) + b"/"
        if raw.startswith(above):
            yield instrument, raw.removeprefix(above)
    instrument, _, rest = text.partition("/")
    if instrument in roots and rest:
        yield instrument, os.fsencode(rest)

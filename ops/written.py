"""How does a report come into a file? Whole or not at all."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from io import TextIOWrapper
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO, TextIO

from labferry.errors import SettingsError


@contextmanager
def written(output: Path | None) -> Iterator[TextIO]:
    """Lend a file for text, or standard output for None. Raises: SettingsError."""
    if output is None:
        yield sys.stdout
        return
    with placed(output) as file:
        text = TextIOWrapper(file, encoding="utf-8", write_through=True)
        yield text
        text.detach()


@contextmanager
def placed(output: Path) -> Iterator[BinaryIO]:
    """Lend a file that takes its place once the block has ended well. Raises: SettingsError."""
    try:
        if output.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        handle, name = mkstemp(dir=output.parent, prefix=f".{output.name}.")
    except OSError as error:
        raise SettingsError(
            field=str(output),
            why=f"it cannot be written ({error.strerror})",
            step="Name a file in a folder that can be written.",
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).rename(output)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

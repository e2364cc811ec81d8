"""Folders for tests of the scan, and a file system that fails where it is told to."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from labferry.identity import Layout, RunKey
from labferry.profiles import load_profile
from labferry.source.scan import Batch, scan

RUN = RunKey("inst", "run1")


def make_tree(folder: Path, *paths: str | bytes) -> bytes:
    """Make files, each of as many bytes as its place in the list; return the folder as bytes."""
    for number, path in enumerate(paths):
        file = folder / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * number)
    return os.fsencode(folder)


def scanned(folder: bytes, layout: Layout = Layout(), **fields: object) -> Batch:  # noqa: B008
    """Return everything one scan found, as one batch."""
    found = Batch()
    for batch in scan(folder, RUN, load_profile("generic", fields), layout):
        found.files.extend(batch.files)
        found.last.extend(batch.last)
        found.left_out.extend(batch.left_out)
        found.temporary.extend(batch.temporary)
        found.vanished.extend(batch.vanished)
        found.unreadable.extend(batch.unreadable)
    return found


def paths(batch: Batch) -> list[str]:
    return sorted(path for path, _ in batch.files)


class FailingOpens:
    """Makes os.open fail for some names, as a share does; a stand-in that also works for root."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left: dict[bytes, tuple[int, int]] = {}
        self._open = os.open
        monkeypatch.setattr(os, "open", self._opened)

    def fail(self, name: bytes, number: int, times: int = 10**9) -> None:
        """Let opens of this name fail with this errno, so many times."""
        self._left[name] = (number, times)

    def _opened(self, name: bytes, *arguments: Any, **options: Any) -> int:
        number, times = self._left.get(os.fsencode(name), (0, 0))
        if times > 0:
            self._left[os.fsencode(name)] = (number, times - 1)
            raise OSError(number, os.strerror(number))
        return self._open(name, *arguments, **options)


class _Listing:
    def __init__(self, entries: Any, before: Callable[[str], None]) -> None:
        self._entries, self._before = entries, before

    def __enter__(self) -> "_Listing":
        return self

    def __exit__(self, *_: object) -> None:
        self._entries.close()

    def __iter__(self) -> Iterator[Any]:
        for entry in list(self._entries):
            self._before(os.fsdecode(entry.name))
            yield entry


def after_listing(monkeypatch: pytest.MonkeyPatch, deeds: Mapping[str, Callable[[], None]]) -> None:
    """Do something when a name was listed and before it is looked at, once each."""
    listed, left = os.scandir, dict(deeds)

    def before(name: str) -> None:
        left.pop(name, lambda: None)()

    monkeypatch.setattr(os, "scandir", lambda folder: _Listing(listed(folder), before))


def open_below(folder: Path | bytes) -> int:
    """Return how many descriptors of this process are open on a folder and what is in it.

    What other threads of a test run open and close, such as connections, is left out.
    """
    root, count = Path(os.fsdecode(folder)).resolve(), 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            count += entry.readlink().is_relative_to(root)
        except FileNotFoundError:  # the descriptor of this listing itself, or of another thread
            continue
    return count

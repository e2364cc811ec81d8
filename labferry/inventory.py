"""Do two lists of objects agree? Identities compared, never counts alone, in bounded memory.

Both sides are lines `name NUL facts`, sorted on disk, then merged: a bucket lists in an order of
its own, and a run may have a million files.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

#: Lines sorted in memory at a time: 20 MiB of a manifest's.
CHUNK_LINES = 50_000
#: Names kept of each kind of difference; all are counted.
KEPT_NAMES = 100


@dataclass(slots=True)
class Differences:
    """What does not agree: counts, and the first names of each kind."""

    compared: int = 0
    missing_count: int = 0
    different_count: int = 0
    unexpected_count: int = 0
    missing: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether everything expected is there as expected."""
        return not self.missing_count and not self.different_count

    def differs(self, name: str) -> None:
        """Count one that is not as expected."""
        self.different_count += 1
        _keep(self.different, name.encode())


def fact_line(name: str, size: int, etag: str) -> bytes:
    """Return the line of one object; names have no control characters (labferry.identity)."""
    return f"{name}\0{size} {etag}\n".encode()


def sorted_lines(lines: Iterable[bytes], folder: Path, label: str) -> Iterator[bytes]:
    """Yield the lines sorted, each once; what does not fit in memory is sorted in the folder."""
    source = iter(lines)
    files: list[BinaryIO] = []
    while chunk := sorted(islice(source, CHUNK_LINES)):
        if len(chunk) < CHUNK_LINES and not files:
            yield from _once(chunk)
            return
        path = folder / f"{label}-{len(files)}"
        with path.open("wb") as file:
            file.writelines(chunk)
        chunk.clear()  # before the next one is read
        files.append(path.open("rb"))
    yield from _once(heapq.merge(*files))
    for one in files:
        one.close()


def _once(lines: Iterable[bytes]) -> Iterator[bytes]:
    last = b""
    for line in lines:
        if line != last:
            yield line
        last = line


def compare(expected: Iterator[bytes], found: Iterator[bytes]) -> Differences:
    """Compare two sorted sequences of fact lines."""
    report = Differences()
    want, have = next(expected, None), next(found, None)
    while want is not None or have is not None:
        wanted, had = _name(want), _name(have)
        if have is None or (want is not None and wanted < had):
            report.missing_count += 1
            _keep(report.missing, wanted)
            want = next(expected, None)
        elif want is None or had < wanted:
            report.unexpected_count += 1
            _keep(report.unexpected, had)
            have = next(found, None)
        else:
            report.compared += 1
            if want != have:
                report.different_count += 1
                _keep(report.different, wanted)
            want, have = next(expected, None), next(found, None)
    return report


def missing_names(expected: Iterator[bytes], found: Iterator[bytes]) -> Iterator[str]:
    """Yield the names of sorted fact lines that are expected and not found."""
    have = next(found, None)
    for wanted in map(_name, expected):
        while have is not None and _name(have) < wanted:
            have = next(found, None)
        if have is None or _name(have) != wanted:
            yield wanted.decode()


def _name(line: bytes | None) -> bytes:
    return line.partition(b"\0")[0] if line is not None else b""


def _keep(names: list[str], name: bytes) -> None:
    if len(names) < KEPT_NAMES:
        names.append(name.decode())

"""What does one list of checksums say of one file, however long the list is?

A list is read whole once a process, for each version of it. Of each entry eight bytes are kept,
where its line lies; the line is read again when its file is asked about.
"""

import errno
import os
import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from typing import BinaryIO

from labferry.sidecars import MOST_LINE_BYTES, Form, Listed, lines_of, read_list

#: Entries of all lists that a process remembers: 32 MB.
_MOST_ENTRIES = 4_000_000
#: An entry is some bits of its path's hash above the place of its line; lists end before a TiB.
_PLACE_BITS = 40
_HASH_MASK = (1 << (64 - _PLACE_BITS)) - 1
_PLACE_MASK = (1 << _PLACE_BITS) - 1

Version = tuple[int, int, int, int]


class _Lines:
    """The lines of a file; `at` is where the last one began."""

    def __init__(self, file: BinaryIO) -> None:
        self.at = 0
        self.head = b""
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        lines = lines_of(self._file)
        while True:
            self.at = self._file.tell()
            line = next(lines, None)
            if line is None:
                return
            self.head = self.head or (line.strip() and line)
            yield line


class ListIndex:
    """Where in one version of a list which file stands."""

    def __init__(
        self, file: BinaryIO, form: Form, name: str, most_entries: int = _MOST_ENTRIES
    ) -> None:
        """Read the list, which must be at its begin. Raises: OSError."""
        self.version = version_of(file)
        lines = _Lines(file)
        places = array("Q")
        for entry in read_list(lines, form, name):
            if isinstance(entry, Listed) and entry.algorithm:
                places.append(_hash(entry.path) << _PLACE_BITS | lines.at)
            if len(places) > most_entries:
                break
        self._is_whole = len(places) <= most_entries
        self._places = array("Q", sorted(places))
        self._form, self._name = form, name
        self._head = [lines.head] if form is Form.MINKNOW else []

    def __len__(self) -> int:
        return len(self._places)

    def find(self, file: BinaryIO, path: str) -> Iterator[Listed]:
        """Yield what the list says of a path, relative to its base.

        Raises: OSError, EFBIG where the list has more entries than may be remembered.
        """
        if not self._is_whole:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        hashed = _hash(path)
        at = bisect_left(self._places, hashed << _PLACE_BITS)
        while at < len(self._places) and self._places[at] >> _PLACE_BITS == hashed:
            file.seek(self._places[at] & _PLACE_MASK)
            for entry in read_list(
                (*self._head, file.readline(MOST_LINE_BYTES)), self._form, self._name
            ):
                if isinstance(entry, Listed) and entry.path == path:
                    yield entry
            at += 1


class Indexes:
    """The lists that a process read last, as many as there is room for. Safe in threads."""

    def __init__(self, most_entries: int = _MOST_ENTRIES) -> None:
        self._most_entries = most_entries
        self._known: OrderedDict[tuple[bytes, str], ListIndex] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, run_folder: bytes, path: str, file: BinaryIO, form: Form) -> ListIndex:
        """Return the index of a list that is open, read again if it changed. Raises: OSError."""
        key, version = (run_folder, path), version_of(file)
        with self._lock:
            known = self._known.get(key)
            if known is None or known.version != version:
                file.seek(0)
                name = path.rpartition("/")[2]
                known = ListIndex(file, form, name, self._most_entries)
                self._known[key] = known
            self._known.move_to_end(key)
            while len(self._known) > 1 and self._count() > self._most_entries:
                self._known.popitem(last=False)
            return known

    def _count(self) -> int:
        return sum(map(len, self._known.values()))


def version_of(file: BinaryIO) -> Version:
    """Return what tells an open file from another version of it."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns


def _hash(path: str) -> int:
    return hash(path) & _HASH_MASK

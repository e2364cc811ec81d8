"""What do lists of checksums beside the data say of a file, and do its bytes agree?

The lists are read at the source, once a process; the file's digests are made of the same read that
is sent. A file that its list contradicts is not uploaded.
"""

import hashlib
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, Protocol

from labferry.clock import SystemClock
from labferry.errors import SidecarMismatch, SourceError
from labferry.profiles.fields import Sidecars
from labferry.sidecars import Algorithm, Listed, lines_of, read_list
from labferry.source.claims import RunReader
from labferry.source.scan import GONE, errno_name
from workers.list_finder import Finder, FolderLists, ListRules
from workers.list_index import Indexes, ListIndex

#: Lists of a bundle that stay open.
_LISTS_KEPT = 16


class Expected(NamedTuple):
    """What a list says of a file."""

    algorithm: Algorithm
    digest: str
    list: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMemory:
    """What a process remembers of lists, for all bundles."""

    finder: Finder = field(default_factory=lambda: Finder(SystemClock().mono_s))
    indexes: Indexes = field(default_factory=Indexes)


#: That of this process.
_MEMORY = ListMemory()


class ChecksumLists:
    """The lists of one run, found as files are asked about. Safe in threads."""

    def __init__(
        self, run_folder: bytes, rules: Sequence[Sidecars], memory: ListMemory = _MEMORY
    ) -> None:
        self._run_folder = run_folder
        self._rules = ListRules(rules)
        self._reader = RunReader(run_folder)
        self._lock = threading.Lock()
        self._memory = memory
        self._in_folder: dict[str, FolderLists | None] = {}
        self._open: OrderedDict[str, tuple[ExitStack, BinaryIO, ListIndex]] = OrderedDict()

    def close(self) -> None:
        """Close all lists and folders."""
        self._keep_open(0)
        self._reader.close()

    def expected(self, path: str) -> tuple[Expected, ...]:
        """Return what all lists say of a file. Raises: SourceError when one cannot be read."""
        if not self._rules:
            return ()
        with self._lock:
            return tuple(self._expected(path))

    def _expected(self, path: str) -> Iterator[Expected]:
        folder, _, name = path.rpartition("/")
        if lists := self._lists(folder):
            prefix = f"{folder}/" if folder else ""
            for beside in lists.of(name):
                for rule in self._rules.of(prefix, beside):
                    yield from self._said(prefix + beside, rule, path, beside=True)
        while True:
            prefix = f"{folder}/" if folder else ""
            for naming in lists.naming if (lists := self._lists(folder)) else ():
                for rule in self._rules.of(prefix, naming):
                    yield from self._said(prefix + naming, rule, path, beside=False)
            if not folder:
                return
            folder = folder.rpartition("/")[0]

    def _lists(self, folder: str) -> FolderLists | None:
        """Return the lists in a folder, None where it is gone."""
        if folder not in self._in_folder:
            try:
                found = self._memory.finder.lists(self._run_folder, folder, self._rules)
            except OSError as error:
                if error.errno not in GONE:
                    raise SourceError(path=folder, errno_name=errno_name(error)) from error
                found = None
            self._in_folder[folder] = found
        return self._in_folder[folder]

    def _said(self, list_path: str, rule: Sidecars, path: str, *, beside: bool) -> list[Expected]:
        """Return what a list says of a file; one that stands beside it is of no other."""
        folder = list_path.rpartition("/")[0]
        base = f"{folder}/" if folder and rule.base == "list" else ""
        if not path.startswith(base):
            return []
        look = self._read if beside else self._look_up
        try:
            found = look(list_path, rule, path.removeprefix(base))
        except OSError as error:
            if error.errno not in GONE:
                raise SourceError(path=list_path, errno_name=errno_name(error)) from error
            return []
        return [Expected(one.algorithm, one.digest, list_path) for one in found if one.algorithm]

    def _read(self, list_path: str, rule: Sidecars, path: str) -> list[Listed]:
        name = list_path.rpartition("/")[2]
        with self._reader.open(list_path) as file:
            entries = read_list(lines_of(file), rule.form, name)
            said = (one for one in entries if isinstance(one, Listed) and one.path == path)
            return _at_first(said)

    def _look_up(self, list_path: str, rule: Sidecars, path: str) -> list[Listed]:
        if list_path not in self._open:
            with ExitStack() as stack:
                file = stack.enter_context(self._reader.open(list_path))
                index = self._memory.indexes.of(self._run_folder, list_path, file, rule.form)
                self._open[list_path] = (stack.pop_all(), file, index)
            self._keep_open(_LISTS_KEPT)
        self._open.move_to_end(list_path)
        _, file, index = self._open[list_path]
        return _at_first(index.find(file, path))

    def _keep_open(self, count: int) -> None:
        while len(self._open) > count:
            _, (stack, _, _) = self._open.popitem(last=False)
            stack.close()


def _at_first(said: Iterable[Listed]) -> list[Listed]:
    """Return what differs of what is said of a file: of so many two contradict each other."""
    different: list[Listed] = []
    for one in said:
        if one not in different:
            different.append(one)
        if len(different) > len(Algorithm):
            break
    return different


class _Hash(Protocol):
    def update(self, data: memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Crc32:
    """CRC-32 as hashlib's classes go."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: memoryview, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


def _new(algorithm: Algorithm) -> _Hash:
    if algorithm is Algorithm.CRC32:
        return _Crc32()
    return hashlib.new(algorithm, usedforsecurity=False)


class Digests:
    """The digests of one file while it is read; `done` bytes from its begin are in them."""

    def __init__(self, path: str, expected: Sequence[Expected]) -> None:
        self.done = 0
        self.lock = threading.RLock()
        self._path = path
        self._expected = expected
        self._hashes = {one.algorithm: _new(one.algorithm) for one in expected}

    def add(self, block: memoryview, offset: int) -> None:
        """Add what a block has beyond the bytes that are in; it must not begin behind them."""
        fresh = block[self.done - offset :] if offset <= self.done else block[:0]
        for one in self._hashes.values():
            one.update(fresh)
        self.done += len(fresh)

    def check(self) -> None:
        """Compare with what the lists say. Raises: SidecarMismatch."""
        for one in self._expected:
            found = self._hashes[one.algorithm].hexdigest()
            if found != one.digest:
                raise SidecarMismatch(
                    key=self._path,
                    ours=f"{one.algorithm} {found}",
                    theirs=one.digest,
                    list=one.list,
                )

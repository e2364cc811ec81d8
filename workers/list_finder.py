"""Which lists of checksums lie in a folder, however large it is?

A folder is listed again only when it may hold another list. Its stamps tell, but coarse ones do not
tell what comes within their grain: a listing is believed once the stamp was seen to be the same for
longer than that, by our own looks. Of a list that stands beside a file eight bytes are kept.
"""

import os
import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from labferry.identity import decode_path, encode_path
from labferry.profiles.fields import Sidecars
from labferry.profiles.patterns import NamePatterns
from labferry.sidecars import file_of
from labferry.source.lists import matcher

#: Stamps of file systems have a grain of two seconds at most (FAT).
GRAIN_S = 10.0
#: Lists that a process remembers: 16 MB.
_MOST_LISTS = 2_000_000
_ENDING_BITS = 8
_HASH_MASK = (1 << (64 - _ENDING_BITS)) - 1


class ListRules:
    """Which names are lists, by a profile."""

    def __init__(self, rules: Sequence[Sidecars]) -> None:
        self._rules = [(rule, matcher(rule.file)) for rule in rules]
        self._names = NamePatterns(tuple(rule.file.rpartition("/")[2] for rule in rules))

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, prefix: str, name: str) -> Iterator[Sidecars]:
        """Yield the rules by which a name, below the run at a prefix, is a list."""
        if self._names.match(name):
            yield from (rule for rule, matches in self._rules if matches(prefix + name))


class FolderLists:
    """The lists in one folder: such as stand beside one file, and such as name their files."""

    def __init__(self, names: Iterator[str], is_list: Callable[[str], bool]) -> None:
        hashes, lists = array("Q"), list[str]()
        for name in names:
            hashes.append(_hash(name))
            if is_list(name):
                lists.append(name)
        there = array("Q", sorted(hashes))
        self.naming: list[str] = []
        self._endings: list[str] = []
        beside = array("Q")
        for name in sorted(lists):
            own = file_of(name)
            if own and _holds(there, _hash(own)):
                beside.append(_hash(own) << _ENDING_BITS | self._ending(name[len(own) :]))
            else:
                self.naming.append(name)
        self._beside = array("Q", sorted(beside))

    def __len__(self) -> int:
        return len(self.naming) + len(self._beside)

    def of(self, name: str) -> Iterator[str]:
        """Yield the lists that stand beside a file of the folder."""
        at = bisect_left(self._beside, _hash(name) << _ENDING_BITS)
        while at < len(self._beside) and self._beside[at] >> _ENDING_BITS == _hash(name):
            yield name + self._endings[self._beside[at] & ((1 << _ENDING_BITS) - 1)]
            at += 1

    def _ending(self, ending: str) -> int:
        """Return the number of an ending; there are as many as ways to capitalise them."""
        if ending not in self._endings:
            self._endings.append(ending)
        return self._endings.index(ending)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """What was found at `listed_s`, while the folder's stamp was the same since `since_s`."""

    lists: FolderLists
    stamp: tuple[int, int, int]
    since_s: float
    listed_s: float


class Finder:
    """The folders that a process listed last, as many as there is room for. Safe in threads."""

    def __init__(self, mono_s: Callable[[], float], most_lists: int = _MOST_LISTS) -> None:
        self._mono_s = mono_s
        self._most_lists = most_lists
        self._known: OrderedDict[tuple[bytes, str], _Listing] = OrderedDict()
        self._lock = threading.Lock()

    def lists(self, run_folder: bytes, folder: str, rules: ListRules) -> FolderLists:
        """Return the lists in a folder of a run. Raises: OSError."""
        where = run_folder + b"/" + decode_path(folder)
        found = Path(os.fsdecode(where)).stat()
        stamp, now_s = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino), self._mono_s()
        with self._lock:
            known = self._known.get((run_folder, folder))
            since_s = known.since_s if known and known.stamp == stamp else now_s
            # Of a stamp that is new the time begins now: what was listed before is not believed.
            if known is None or known.listed_s - since_s < GRAIN_S:
                prefix = f"{folder}/" if folder else ""
                lists = _list(where, lambda name: any(rules.of(prefix, name)))
                known = _Listing(lists=lists, stamp=stamp, since_s=since_s, listed_s=now_s)
                self._known[run_folder, folder] = known
            self._known.move_to_end((run_folder, folder))
            self._make_room()
            return known.lists

    def _make_room(self) -> None:
        # An empty folder takes room, too.
        while len(self._known) > 1 and (
            sum(len(one.lists) + 100 for one in self._known.values()) > self._most_lists
        ):
            self._known.popitem(last=False)


def _list(where: bytes, is_list: Callable[[str], bool]) -> FolderLists:
    with os.scandir(where) as entries:
        return FolderLists((encode_path(entry.name) for entry in entries), is_list)


def _hash(name: str) -> int:
    return hash(name) & _HASH_MASK


def _holds(hashes: "array[int]", one: int) -> bool:
    at = bisect_left(hashes, one)
    return at < len(hashes) and hashes[at] == one

"""What is in one run folder right now?

Walks the folder once, one stat a file, and yields what it finds in batches: the run is never held
in memory. Links are not followed. An error belongs to the path it happened at; the walk goes on,
and what it yields says that the listing is not whole.
"""

import errno
import os
import stat
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from labferry.errors import BadName
from labferry.identity import (
    HIDDEN_ENDINGS,
    MAX_KEY_BYTES,
    MAX_SEGMENT_BYTES,
    Layout,
    RunKey,
    check_path,
    encode_path,
)
from labferry.profiles import Profile
from labferry.profiles.patterns import NamePatterns
from labferry.records import Fingerprint
from labferry.source.alike import alike, fold, may_be_alike
from labferry.source.folders import Folders

#: Entries in a batch, at most: one question to the ledger.
BATCH_ENTRIES = 1000

#: Bytes of a character, at most: what is short by this measure needs no closer look.
_WIDEST = 4
_TYPE, _REGULAR = 0o170000, stat.S_IFREG  # stat.S_ISREG without a call a file
#: Characters of a path that its stand-in begins with: with its digest they fit one segment.
_STAND_IN = 50

#: What it means when a path that was listed is not there.
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_HIDDEN = tuple(f"*{ending}" for ending in HIDDEN_ENDINGS)
_NOT_REGULAR = {
    stat.S_IFLNK: ("symlink", "a symbolic link; links are not followed"),
    stat.S_IFIFO: ("not_regular", "a FIFO, not a regular file"),
    stat.S_IFSOCK: ("not_regular", "a socket, not a regular file"),
    stat.S_IFBLK: ("not_regular", "a block device, not a regular file"),
    stat.S_IFCHR: ("not_regular", "a character device, not a regular file"),
}
_OTHER = ("not_regular", "not a regular file")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """An entry that is not moved, and why; `refused` when it may be data all the same."""

    path: str
    fingerprint: Fingerprint
    code: str
    message: str
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A path that could not be looked at; '' is the run folder itself."""

    path: str
    errno_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some of a run's entries; `last` are those of `files` that go up after all others.

    `vanished` were listed and then gone: normal while an instrument writes, but such a listing is
    not whole, and neither is one with `unreadable` paths. `alike` are names of one folder that only
    case, or the writing of accents, tells apart.
    """

    files: list[tuple[str, Fingerprint]] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    alike: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        lists = (self.files, self.left_out, self.temporary, self.vanished, self.unreadable)
        return sum(len(entries) for entries in lists)


def scan(folder: bytes, run: RunKey, profile: Profile, layout: Layout) -> Iterator[Batch]:
    """Walk one run folder; yield batches of its entries, the last one perhaps empty."""
    return _Scan(folder, run, profile, layout).batches()


class _Scan:
    """One walk; the stack holds folders to be listed, as the source and as the ledger call them."""

    def __init__(self, folder: bytes, run: RunKey, profile: Profile, layout: Layout) -> None:
        self._run, self._profile, self._layout = run, profile, layout
        self._folders = Folders(folder)
        self._stack = [(b"", "")]
        self._batch = Batch()
        # One question a name; which list it is on is asked only of a name that is on one.
        #: What a fingerprint is made of.
        self._seen = fingerprint_by(profile)
        odd = (*profile.litter, *profile.temporary, *_HIDDEN)
        self._odd = NamePatterns(odd)
        lasts = [one for one in (profile.marker, *profile.last) if one]
        self._odd_at = {
            depth: NamePatterns((*odd, *(one.rpartition("/")[2] for one in lasts)))
            for depth in profile.lasts.depths
        }
        self._room = (MAX_KEY_BYTES - len(layout.raw_prefix(run).encode())) // _WIDEST

    def batches(self) -> Iterator[Batch]:
        try:
            while self._stack:
                source, prefix = self._stack.pop()
                try:
                    yield from self._list(source, prefix)
                except OSError as error:
                    self._failed(prefix.rstrip("/"), error)
            yield self._batch
        finally:
            self._folders.close()

    def _list(self, source: bytes, prefix: str) -> Iterator[Batch]:
        """List one folder. This loop is the cost of a scan: it holds what every file needs."""
        odd = self._odd_at.get(prefix.count("/"), self._odd).match
        short = min(self._room - len(prefix), MAX_SEGMENT_BYTES // _WIDEST)
        files, room, seen = self._batch.files, BATCH_ENTRIES - len(self._batch), self._seen
        folded = array("q")
        with os.scandir(self._folders.open(source)) as entries:
            for entry in entries:
                name = entry.name
                if name.isascii() and name.isprintable() and "%" not in name and "\\" not in name:
                    folded.append(hash(name.lower()))
                else:
                    name = encode_path(os.fsencode(name))
                    folded.append(hash(fold(name)))
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError as error:
                    self._failed(prefix + name, error)
                else:
                    regular = found.st_mode & _TYPE == _REGULAR
                    if regular and len(name) <= short and not odd(name):
                        files.append((prefix + name, seen(found)))
                    else:
                        self._sort(source, prefix, entry, found)
                room -= 1
                if room <= 0:
                    yield self._batch
                    self._batch = Batch()
                    files, room = self._batch.files, BATCH_ENTRIES
        if may_be_alike(folded):
            self._batch.alike.extend(self._alike(source, prefix))

    def _alike(self, source: bytes, prefix: str) -> Iterator[str]:
        with os.scandir(self._folders.open(source)) as entries:
            groups = alike(encode_path(os.fsencode(entry.name)) for entry in entries)
        yield from (prefix + " and ".join(group) for group in groups)

    def _sort(
        self, source: bytes, prefix: str, entry: os.DirEntry[str], found: os.stat_result
    ) -> None:
        """Put an entry that is not plainly a file where it belongs."""
        raw = os.fsencode(entry.name)
        name = encode_path(raw)
        path, kind = prefix + name, stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFDIR:
            self._folder(source + b"/" + raw if source else raw, path, name, found)
        elif kind != stat.S_IFREG:
            self._leave_out(path, found, *_NOT_REGULAR.get(kind, _OTHER))
        else:
            self._file(path, name, found)

    def _folder(self, source: bytes, path: str, name: str, found: os.stat_result) -> None:
        if self._profile.is_litter_folder(name):
            self._leave_out(path, found, "litter", "a folder that the profile calls litter")
        elif self._profile.is_apart(path):
            self._leave_out(path, found, "apart", "a folder that is a run of its own")
        elif self._profile.is_temporary(name):
            self._batch.temporary.append(path)
        elif why := self._unusable(path):
            self._leave_out(path, found, "bad_name", f"with all that is in it: {why}", refused=True)
        else:
            self._stack.append((source, path + "/"))

    def _file(self, path: str, name: str, found: os.stat_result) -> None:
        last = self._profile.is_last(path)
        if not last and self._profile.is_litter(name):
            self._leave_out(path, found, "litter", "a name that the profile calls litter")
        elif not last and self._profile.is_temporary(name):
            self._batch.temporary.append(path)
        elif why := self._unusable(path):
            self._leave_out(path, found, "bad_name", why, refused=True)
        else:
            self._batch.files.append((path, self._seen(found)))
            if last:
                self._batch.last.append(path)

    def _leave_out(
        self, path: str, found: os.stat_result, code: str, message: str, *, refused: bool = False
    ) -> None:
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        self._batch.left_out.append(
            LeftOut(
                path=stand_in(path) if self._unusable(path) else path,
                fingerprint=self._seen(found)._replace(size=size),
                code=code,
                message=message,
                refused=refused,
            )
        )

    def _unusable(self, path: str) -> str:
        """Return why no object key can hold the path, or ''."""
        try:
            check_path(path)
            self._layout.raw(self._run.file(path))
        except BadName as error:
            return str(error)
        return ""

    def _failed(self, path: str, error: OSError) -> None:
        if error.errno in GONE:
            self._batch.vanished.append(path)
        else:
            self._batch.unreadable.append(Unreadable(path=path, errno_name=errno_name(error)))


def stand_in(path: str) -> str:
    """Return the name under which the ledger lists a path that no key can hold; always the same."""
    return f"{path[:_STAND_IN].rstrip('/')}~{sha256(path.encode()).hexdigest()[:16]}"


def errno_name(error: OSError) -> str:
    """Return such as 'EACCES'."""
    return errno.errorcode.get(error.errno or 0, "EIO")


def fingerprint_by(profile: Profile) -> Callable[[os.stat_result], Fingerprint]:
    """Return how files of a profile's shares are told apart."""
    return _fingerprint if profile.identity == "inode" else _without_inode


def _fingerprint(found: os.stat_result) -> Fingerprint:
    seen = (found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)
    return tuple.__new__(Fingerprint, seen)  # as Fingerprint(*seen), without a call a file


def _without_inode(found: os.stat_result) -> Fingerprint:
    """Return what a share tells that gives files new inodes whenever it is mounted."""
    return Fingerprint(found.st_size, found.st_mtime_ns, 0, 0)

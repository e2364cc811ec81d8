"""How are a source file's bytes read so that they are the settled file's, or none?

Folders are opened one below the other without following links, files without blocking; nothing is
ever written. What was read counts only if the descriptor and the path still show the settled
fingerprint after the last byte; `ctime` is part of it, because it moves when `mtime` was put back.
Bytes are read into memory, never mapped: a mapped file cut short kills the process.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from labferry.errors import (
    ShareUnavailable,
    SourceChanged,
    SourceError,
    SourceRefused,
    SourceVanished,
)
from labferry.identity import RunKey, decode_path
from labferry.profiles.fields import Sidecars
from labferry.records import Fingerprint
from labferry.s3.checksum import crc64nvme
from workers.digests import ChecksumLists, Digests, Expected

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ROOT_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER_FLAGS = _ROOT_FLAGS | os.O_NOFOLLOW
#: Folders of a bundle that stay open; what lies in others walks down anew for each file.
_FOLDERS_KEPT = 128
_BLOCK_BYTES = 4 * 1024 * 1024
#: What is read at once is hashed while the processor still has it at hand.
_PIECE_BYTES = 1024 * 1024
_NOT_OURS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})


#: Waits until bytes may be read, and tells how many, of so many.
Take = Callable[[int], int]


def without_limit(size: int) -> int:
    """Let all bytes be read at once."""
    return size


def check_share(root: Path) -> None:
    """Make sure that a share is there: an unmounted one leaves an empty folder, or none.

    Raises: ShareUnavailable.
    """
    try:
        with os.scandir(root) as entries:
            if next(entries, None) is not None:
                return
    except OSError as error:
        raise _share_unavailable(root, error) from error
    raise ShareUnavailable(path=str(root), why="the root is empty")


class RunFolder:
    """A run's folder on its share, open while a bundle is worked on. Safe in threads."""

    def __init__(
        self,
        root: Path,
        run: RunKey,
        sidecars: Sequence[Sidecars] = (),
        take: Take = without_limit,
    ) -> None:
        """`sidecars` says which lists of checksums are obeyed, `take` is asked before bytes are
        read. Raises: ShareUnavailable."""
        self.take = take
        self._root = root
        self._run = run
        self._base = os.fsencode(root) + b"/" + decode_path(run.run) + b"/"
        self._folders: dict[str, int] = {}
        self._lists = ChecksumLists(self._base.rstrip(b"/"), sidecars)
        try:
            self._root_fd = os.open(root, _ROOT_FLAGS)
        except OSError as error:
            raise _share_unavailable(root, error) from error

    def close(self) -> None:
        """Close all folders. No thread may read any more."""
        self._lists.close()
        for fd in (self._root_fd, *self._folders.values()):
            os.close(fd)
        self._folders.clear()

    def open(self, path: str, settled: Fingerprint) -> "SourceFile":
        """Open a file that is as it was settled. Raises: SourceError."""
        try:
            fd = self._open(path)
        except OSError as error:
            raise self.fault(path, error) from error
        file = SourceFile(self, path, settled, fd)
        try:
            file.expect(self._lists.expected(path))
            file.check_descriptor()
        except BaseException:
            os.close(fd)
            raise
        return file

    def full_path(self, path: str) -> bytes:
        """Return a file's path on this host."""
        return self._base + (decode_path(path) if "%" in path else path.encode())

    def fault(self, path: str, error: OSError) -> SourceError:
        """Return what a failed system call means for a file."""
        if error.errno == errno.ENOENT:
            return self._absence(path)
        if error.errno in _NOT_OURS:
            return SourceRefused(path=path, why="it is a link or not a regular file")
        return SourceError(path=path, errno_name=_name(error))

    def _absence(self, path: str) -> SourceError:
        # In an empty folder every file seems deleted.
        try:
            check_share(self._root)
        except ShareUnavailable as error:
            return error
        return SourceVanished(path=path, why="it is not there")

    def _open(self, path: str) -> int:
        folder, _, name = path.rpartition("/")
        kept = self._folders.get(folder)
        if kept is not None:
            return os.open(_raw(name), _FILE_FLAGS, dir_fd=kept)
        fd = self._walk(folder)
        try:
            return os.open(_raw(name), _FILE_FLAGS, dir_fd=fd)
        finally:
            if len(self._folders) >= _FOLDERS_KEPT or self._folders.setdefault(folder, fd) != fd:
                os.close(fd)

    def _walk(self, folder: str) -> int:
        names = (*self._run.folders, *folder.split("/")) if folder else self._run.folders
        fd = self._root_fd
        for name in names:
            try:
                deeper = os.open(_raw(name), _FOLDER_FLAGS, dir_fd=fd)
            finally:
                if fd != self._root_fd:
                    os.close(fd)
            fd = deeper
        return fd


class SourceFile:
    """One open source file."""

    __slots__ = ("_digests", "_fd", "_folder", "_path", "_settled", "size")

    def __init__(self, folder: RunFolder, path: str, settled: Fingerprint, fd: int) -> None:
        self._folder = folder
        self._path = path
        self._settled = settled
        self._fd = fd
        self._digests: Digests | None = None
        self.size = settled.size

    def __enter__(self) -> "SourceFile":
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that was given up reads on: not the next file under the same number.
        fd, self._fd = self._fd, -1
        os.close(fd)

    def expect(self, expected: Sequence[Expected]) -> None:
        """Make digests of what is read, for `confirm` to compare."""
        self._digests = Digests(self._path, expected) if expected else None

    def read(self) -> bytes:
        """Return all bytes. Raises: SourceError."""
        body = self._read()
        if self._digests is not None:
            self._digests.add(memoryview(body), 0)
        return body

    def _read(self) -> bytes:
        granted = self._folder.take(self.size)
        try:
            body = os.pread(self._fd, granted, 0)
            if len(body) == self.size:
                return body
        except OSError as error:
            raise self._folder.fault(self._path, error) from error
        whole = bytearray(self.size)
        whole[: len(body)] = body
        self._fill(memoryview(whole)[len(body) :], len(body))
        return bytes(whole)

    def read_into(self, buffer: memoryview, offset: int, crc64: int = 0) -> int:
        """Fill the buffer with the bytes from the offset on; return their CRC64NVME, following on
        that of what came before. Raises: SourceError.

        Where digests are made, what was not read before the offset, because it is at the server
        already, is read first.
        """
        if self._digests is None:
            return self._fill(buffer, offset, crc64)
        with self._digests.lock:
            self._catch_up(self._digests, offset)
            crc64 = self._fill(buffer, offset, crc64)
            self._digests.add(buffer, offset)
        return crc64

    def in_order(self) -> AbstractContextManager[object]:
        """Let no other thread choose what to read next where digests are made: they go from the
        first byte to the last, and what is read out of turn is read twice."""
        return nullcontext() if self._digests is None else self._digests.lock

    def checksum(self, check: Callable[[], None]) -> int:
        """Return the CRC64NVME of all bytes, confirmed; `check` is called before each block.

        Raises: SourceError.
        """
        buffer = memoryview(bytearray(min(self.size, _BLOCK_BYTES)))
        crc64 = 0
        for offset in range(0, self.size, _BLOCK_BYTES):
            check()
            block = buffer[: self.size - offset]
            crc64 = self.read_into(block, offset, crc64)
        self.confirm()
        return crc64

    def _catch_up(self, digests: Digests, end: int) -> None:
        block = memoryview(bytearray(min(_BLOCK_BYTES, max(0, end - digests.done))))
        while digests.done < end:
            view = block[: end - digests.done]
            self._fill(view, digests.done)
            digests.add(view, digests.done)

    def _fill(self, buffer: memoryview, offset: int, crc64: int = 0) -> int:
        done = 0
        while done < len(buffer):
            wanted = min(len(buffer) - done, _PIECE_BYTES)
            piece = buffer[done : done + self._folder.take(wanted)]
            try:
                count = os.preadv(self._fd, [piece], offset + done)
            except OSError as error:
                raise self._folder.fault(self._path, error) from error
            if count == 0:
                raise SourceChanged(path=self._path, why="it is shorter than it was when settled")
            crc64 = crc64nvme(piece[:count], crc64)
            done += count
        return crc64

    def check_descriptor(self) -> None:
        """Raise unless the open file is a regular one with the settled fingerprint."""
        try:
            seen = os.fstat(self._fd)
        except OSError as error:
            raise self._folder.fault(self._path, error) from error
        if not stat.S_ISREG(seen.st_mode):
            raise SourceRefused(path=self._path, why="it is not a regular file")
        self._check(seen)

    def confirm(self) -> None:
        """Raise unless descriptor and path still show the settled file, and its lists agree."""
        if self._digests is not None:
            with self._digests.lock:
                self._catch_up(self._digests, self.size)
        try:
            seen, named = os.fstat(self._fd), os.lstat(self._folder.full_path(self._path))
        except OSError as error:
            raise self._folder.fault(self._path, error) from error
        self._check(seen)
        self._check(named)
        if self._digests is not None:
            self._digests.check()

    def _check(self, seen: os.stat_result) -> None:
        found = (seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_ctime_ns)
        if not self._settled.inode:  # by the profile, this share's inodes tell nothing
            found = (seen.st_size, seen.st_mtime_ns, 0, 0)
        if found != self._settled:
            names = zip(Fingerprint._fields, found, self._settled, strict=True)
            differ = " and ".join(name for name, now, then in names if now != then)
            raise SourceChanged(path=self._path, why=f"{differ} changed since it was settled")


def _raw(name: str) -> bytes:
    raw = decode_path(name) if "%" in name else name.encode()
    if raw in (b"", b".", b"..") or b"/" in raw or b"\0" in raw:
        raise SourceRefused(path=name, why="it is no name within its folder")
    return raw


def _share_unavailable(root: Path, error: OSError) -> ShareUnavailable:
    return ShareUnavailable(path=str(root), errno_name=_name(error), why="the root cannot be read")


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "EUNKNOWN")

"""What do the instrument's own summaries and lists claim, and is it so?

They are read at the source, and each file that a list names is looked for: only once everything
else about the run holds. A list that cannot be read, or in which nothing could be read, never
passes; where there is none, a profile may do without.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

from labferry.identity import decode_path
from labferry.profiles import Profile
from labferry.profiles.fields import Count, Manifest
from labferry.profiles.patterns import PathPatterns
from labferry.sidecars import MOST_LINE_BYTES, Form, Listed, lines_of, read_list
from labferry.source.done import Holds, Listing, Part
from labferry.source.folders import Folders
from labferry.source.named import named_part
from labferry.source.scan import GONE, errno_name
from labferry.source.tally import Names

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SUMMARY_BYTES = 1024 * 1024
_FIELD = re.compile(rb"^([A-Za-z0-9_]+)[ \t]*=[ \t]*([0-9]+)[ \t]*\r?$", re.MULTILINE)
_STATED = re.compile(rb"nfiles: *([0-9]+)")


class RunReader:
    """Reads files of one run at the source; nothing leads out of the run."""

    def __init__(self, run_folder: bytes) -> None:
        self._folders = Folders(run_folder)

    def close(self) -> None:
        """Close all folders."""
        self._folders.close()

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """Open a regular file. Raises: OSError."""
        above, _, name = decode_path(path).rpartition(b"/")
        fd = os.open(name, _FLAGS, dir_fd=self._folders.open(above))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotADirectoryError(errno.ENOTDIR, "it is no regular file", path)
        with os.fdopen(fd, "rb") as file:
            yield file

    def is_file(self, path: str) -> bool:
        """Whether there is a regular file. Raises: OSError when that cannot be told."""
        above, _, name = decode_path(path).rpartition(b"/")
        try:
            found = os.stat(name, dir_fd=self._folders.open(above), follow_symlinks=False)
        except OSError as error:
            if error.errno in GONE:
                return False
            raise
        return stat.S_ISREG(found.st_mode)


def claim_parts(run_folder: bytes, profile: Profile, listing: Listing) -> list[Part]:
    """Return the parts of the rule that only the instrument's own files can tell."""
    reader, parts = RunReader(run_folder), list[Part]()
    try:
        if profile.counts:
            parts.append(_counts(reader, profile.counts, listing))
        for rule in profile.manifests:
            lists = [path for path in listing.content.claims if rule.match(path)]
            if lists and rule.base == "name":
                parts.append(named_part(run_folder, profile, rule, lists, reader.open))
                continue
            parts += [_manifest(reader, rule, path) for path in sorted(lists, key=_in_order)]
            if not lists:
                what = f"there is no {rule.file}"
                parts.append(_untold("manifest", what, needed=rule.required))
    finally:
        reader.close()
    return parts


def _in_order(path: str) -> list[tuple[int, str]]:
    """Return what sorts Analysis/10 after Analysis/2."""
    return [(int(one) if one.isdecimal() else -1, one) for one in re.split("([0-9]+)", path)]


def _counts(reader: RunReader, rules: tuple[Count, ...], listing: Listing) -> Part:
    looked, wrong = list[str](), list[str]()
    for rule in rules:
        pattern = PathPatterns((rule.file,))
        summaries = [path for path in listing.content.claims if pattern.match(path)]
        try:
            stated = [value for path in summaries for value in _stated(reader, path, rule.field)]
        except OSError as error:
            return _untold("counts", f"{', '.join(summaries)}: {errno_name(error)}", needed=True)
        if not stated:
            continue
        there = listing.content.counted[rule.of] if rule.of else None
        sentence = f"{rule.field}={sum(stated)}"
        sentence += f", there are {there}" if there is not None else f", {rule.equals} expected"
        looked.append(sentence)
        if sum(stated) != rule.equals if there is None else there < sum(stated):
            wrong.append(sentence)
    if not looked:
        return _untold("counts", "no summary states a count", needed=False)
    holds = Holds.FAIL if wrong else Holds.PASS
    return Part(name="counts", holds=holds, looked_at="; ".join(wrong or looked))


def _stated(reader: RunReader, path: str, field: str) -> Iterator[int]:
    with reader.open(path) as file:
        for found in _FIELD.finditer(file.read(_SUMMARY_BYTES)):
            if found[1].decode() == field:
                yield int(found[2])


@dataclass(slots=True)
class _Look:
    """What was read in a list, and which of its files are not there."""

    listed: int = 0
    stated: int | None = None
    missing: Names = field(default_factory=Names)
    unread: Names = field(default_factory=Names)

    def faults(self) -> Iterator[str]:
        """Yield what speaks against the list."""
        if self.missing.count:
            yield f"{self.missing.count} are missing, such as {self.missing.first[0]}"
        if self.unread.count:
            yield f"{self.unread.count} lines cannot be read, such as {self.unread.first[0]}"
        if self.stated not in (None, self.listed):
            yield f"it states {self.stated}"
        if not self.listed:
            yield "nothing could be read in it"


def _manifest(reader: RunReader, rule: Manifest, path: str) -> Part:
    try:
        look = _look(reader, rule, path)
    except OSError as error:
        return _untold("manifest", f"{path}: {errno_name(error)}", needed=True)
    faults = list(look.faults())
    what = "; ".join([f"{path} lists {look.listed} files", *faults])
    return Part(name="manifest", holds=Holds.FAIL if faults else Holds.PASS, looked_at=what)


def base_of(rule: Manifest, path: str) -> str:
    """Return what the paths of a list are relative to, '' for the run."""
    folder = path.rpartition("/")[0]
    if rule.form is Form.PACBIO:
        folder = folder.rpartition("/")[0]  # it lies in metadata/, and lists the cell
    return f"{folder}/" if folder and rule.base == "list" else ""


def _look(reader: RunReader, rule: Manifest, path: str) -> _Look:
    name, base, look = path.rpartition("/")[2], base_of(rule, path), _Look()
    with reader.open(path) as file:
        if rule.form is Form.PACBIO and (stated := _STATED.search(file.readline(MOST_LINE_BYTES))):
            look.stated = int(stated[1])
        file.seek(0)
        for entry in read_list(lines_of(file), rule.form, name):
            if not isinstance(entry, Listed):
                look.unread.add([f"line {entry.number}: {entry.why}"])
                continue
            look.listed += 1
            if not reader.is_file(base + entry.path):
                look.missing.add([entry.path])
    return look


def _untold(name: str, looked_at: str, *, needed: bool) -> Part:
    return Part(name=name, holds=Holds.NOT_POSSIBLE, looked_at=looked_at, needed=needed)

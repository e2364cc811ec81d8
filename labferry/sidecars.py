"""Which files does a list beside the data name, and with which checksums?

Pure: lines in, entries out. Lists come from instruments, from coreutils, from BSD and from Windows:
CR LF, a byte-order mark, backslashes, `*`, `./` and upper-case digits are all read. An entry that
would lead out of its folder is refused, and a line that cannot be read is told, never passed over.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import BinaryIO, NamedTuple

from labferry.identity import encode_path


class Form(StrEnum):
    """How a list is written."""

    CHECKSUMS = "checksums"  # md5sum and its kin, BSD style, a bare digest in <file>.md5, .sfv
    ILLUMINA = "illumina_manifest"  # path, tab, CRC-32: Analysis/<n>/Manifest.tsv
    MINKNOW = "minknow_hashes"  # CSV with file_hash (SHA-256) and file_path: output_hash_*.csv
    PACBIO = "pacbio_transfer"  # paths on the instrument, no checksums: <movie>.transferdone
    SERIALEM = "serialem_mdoc"  # SubFramePath = a path at the camera, of which the name counts


class Algorithm(StrEnum):
    """What a digest was made with; its length tells."""

    CRC32 = "crc32"
    MD5 = "md5"
    SHA1 = "sha1"
    SHA256 = "sha256"


class Listed(NamedTuple):
    """A file on a list: a path from the list's base, and its digest in lower case where it has one.

    The path is written as labferry.identity writes paths.
    """

    path: str
    algorithm: Algorithm | None = None
    digest: str = ""


class Unread(NamedTuple):
    """A line that is no entry, and why."""

    number: int
    why: str


class _Refused(Exception):
    """The line cannot be an entry; the sentence says why."""


#: Of a longer line no more than the beginning is ever held. Source: a path on Linux has at most
#: 4,096 bytes, and no list writes more than a few digests beside it.
MOST_LINE_BYTES = 64 * 1024

_OF_DIGITS = {8: Algorithm.CRC32, 32: Algorithm.MD5, 40: Algorithm.SHA1, 64: Algorithm.SHA256}
#: What a sidecar's name adds to that of its file.
_ENDINGS = (
    ".md5", ".md5sum", ".md5.txt", ".sha1", ".sha1sum", ".sha256", ".sha256sum", ".sha", ".crc32",
)  # fmt: skip
_BOM = b"\xef\xbb\xbf"
_HEX = re.compile(rb"[0-9A-Fa-f]+")
#: What stands before the name; nothing in it can match in two ways, or a long line takes for ever.
_SUM = re.compile(rb"(\\?)([0-9A-Fa-f]{8,64})[ \t][ \t*]?[ \t]*")
_BSD = re.compile(rb"([A-Za-z0-9-]+) ?\((.+)\) ?= ?([0-9A-Fa-f]+)", re.DOTALL)
_FRAME = re.compile(rb"[ \t]*SubFramePath[ \t]*=", re.IGNORECASE)
_SFV_DIGITS = 8
_DRIVE = re.compile(r"[A-Za-z]:")
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}
_COMMENTS = (b"#", b";", b"//")


def file_of(name: str) -> str:
    """Return the name of the file that a sidecar of this name stands beside, or ''."""
    lowered = name.lower()
    for ending in sorted(_ENDINGS, key=len, reverse=True):
        if lowered.endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return ""


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a list, of one that is too long a beginning that is too long as well."""
    while line := file.readline(MOST_LINE_BYTES + 1):
        rest = line
        while len(rest) > MOST_LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(MOST_LINE_BYTES + 1)
        yield line


def read_list(lines: Iterable[bytes], form: Form, name: str) -> Iterator[Listed | Unread]:
    """Yield the entries of a list and the lines that are none; `name` is the list's own name."""
    clean = _clean(lines)
    if form is Form.MINKNOW:
        return _minknow(clean)
    return _each(clean, form, name)


def _clean(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(_BOM) if number == 1 else line
        text = text.rstrip(b"\r\n")
        if text.strip():
            yield number, text


def _each(lines: Iterable[tuple[int, bytes]], form: Form, name: str) -> Iterator[Listed | Unread]:
    for number, line in lines:
        try:
            _demand_short(line)
            entry = _ENTRY_OF[form](line, name)
        except _Refused as refused:
            yield Unread(number, str(refused))
        else:
            if entry is not None:
                yield entry


def _demand_short(line: bytes) -> None:
    if len(line) > MOST_LINE_BYTES:
        raise _Refused(f"it is longer than {MOST_LINE_BYTES} bytes")


def _checksums(line: bytes, name: str) -> Listed | None:
    if line.startswith(_COMMENTS):
        return None
    own = file_of(name)
    if _HEX.fullmatch(line.strip()) and own:
        return _listed(own, line.strip())
    if found := _BSD.fullmatch(line):
        return _listed(_path(found[2], own), found[3], found[1])
    if name.lower().endswith(".sfv") and (entry := _sfv(line)):
        return entry
    if (found := _SUM.match(line)) and (rest := line[found.end() :]).strip():
        raw = _unescape(rest) if found[1] else rest.replace(b"\\", b"/")
        return _listed(_path(raw, own, slashes=bool(found[1])), found[2])
    raise _Refused("it has no digest and name")


def _sfv(line: bytes) -> Listed | None:
    """Read a name, blanks and a CRC-32; None for a line that is something else."""
    before, digits = line[:-_SFV_DIGITS], line[-_SFV_DIGITS:]
    raw = before.rstrip(b" \t")
    if not raw or raw == before or not _HEX.fullmatch(digits):
        return None
    return _listed(_path(raw), digits)


def _unescape(raw: bytes) -> bytes:
    return re.sub(rb"\\[\\nr]", lambda found: _ESCAPES[found[0]], raw)


def _illumina(line: bytes, _: str) -> Listed:
    raw, tab, digest = line.rpartition(b"\t")
    if not tab:
        raise _Refused("it is not a path, a tab and a CRC-32")
    return _listed(_path(raw), digest.strip(), b"CRC32")


def _pacbio(line: bytes, name: str) -> Listed | None:
    """Read a path on the instrument: what follows the movie's folder is the path in the cell."""
    if not line.startswith(b"/"):
        return None  # the head, with the count, and the name of the transfer
    movie = name.rpartition(".")[0].encode()
    _, found, tail = line.partition(b"/" + movie + b"/")
    if not found:
        raise _Refused(f"there is no folder {movie.decode()} in it")
    return Listed(_path(tail))


def _serialem(line: bytes, _: str) -> Listed | None:
    """Read a frame's path, of which the last name is what it is called here."""
    found = _FRAME.match(line)
    raw = line[found.end() :].strip() if found else b""
    return Listed(_path(re.split(rb"[\\/]", raw)[-1])) if raw else None


_ENTRY_OF = {
    Form.CHECKSUMS: _checksums,
    Form.ILLUMINA: _illumina,
    Form.PACBIO: _pacbio,
    Form.SERIALEM: _serialem,
}


def _minknow(lines: Iterable[tuple[int, bytes]]) -> Iterator[Listed | Unread]:
    head: dict[str, int] = {}
    for number, line in lines:
        try:
            _demand_short(line)
            row = next(csv.reader([line.decode("utf-8", "surrogateescape")]), [])
        except (csv.Error, _Refused) as error:
            yield Unread(number, str(error))
            continue
        if not head:
            head = {field.strip().lower(): place for place, field in enumerate(row)}
            if missing := {"file_hash", "file_path"} - set(head):
                yield Unread(number, f"the head has no {' and no '.join(sorted(missing))}")
                return
            continue
        try:
            digest, path = row[head["file_hash"]], row[head["file_path"]]
            raw = path.encode("utf-8", "surrogateescape")
            yield _listed(_path(raw), digest.strip().encode(), b"SHA256")
        except IndexError:
            yield Unread(number, "it has too few columns")
        except _Refused as refused:
            yield Unread(number, str(refused))


def _listed(path: str, digits: bytes, said: bytes = b"") -> Listed:
    algorithm = _OF_DIGITS.get(len(digits)) if _HEX.fullmatch(digits) else None
    if algorithm is None:
        raise _Refused("its digest is not a CRC-32, MD5, SHA-1 or SHA-256")
    if said and said.decode().lower().replace("-", "") != algorithm:
        raise _Refused(f"its digest has not the length of a {said.decode()}")
    return Listed(path, algorithm, digits.decode().lower())


def _path(raw: bytes, own: str = "", *, slashes: bool = False) -> str:
    """Return a path below the list's base; `own` is the file that the list stands beside.

    `slashes` says that a backslash is part of a name.
    """
    text = encode_path(raw if slashes else raw.replace(b"\\", b"/"))
    if b"\0" in raw:
        raise _Refused("it holds a NUL")
    names = [name for name in text.split("/") if name not in {"", "."}]
    if ".." in names or not names:
        raise _Refused("it leads out of its folder")
    if text.startswith("/") or _DRIVE.match(text):
        if names[-1] != own:
            raise _Refused("it leads out of its folder")
        return own  # where the file lay when the list was made
    return "/".join(names)

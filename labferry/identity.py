"""What is a run, a file or an object called?

A file is known by its file key `instrument/run/path`, the idempotency key of everything. Keys are
clean text: what S3 servers or XML mangle (control characters, backslash, bytes that are not UTF-8,
U+FFFE and U+FFFF) or hide (what ends in `.uploads` or `.versions`, the folders in which SeaweedFS
keeps its own) is percent-encoded byte by byte, and a `%` is encoded only where two hex digits
follow it, so that decoding gives the source's bytes back. A run that lies deeper below its root is
one segment all the same: its folders are joined by `%2F`, which no encoded name holds
(docs/decisions/0005-deeper-runs.md). Source: research on SeaweedFS, MinIO and AWS keys; the S3
limit of 1,024 bytes a key.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from labferry.errors import BadName

#: Bytes of an object key, the S3 limit; prefix and fixed parts included.
MAX_KEY_BYTES = 1024
#: Bytes of one path segment; SeaweedFS and most file systems stop here.
MAX_SEGMENT_BYTES = 255

#: What the key of a dead letter's reason ends in.
_REASON = ".reason.json"
#: Endings of names that SeaweedFS may hide.
HIDDEN_ENDINGS = (".uploads", ".versions")
_MANGLED = re.compile(
    "[\x00-\x1f\x7f\\\\\ud800-\udfff\ufffe\uffff]|%(?=[0-9A-Fa-f]{2})"
    rf"|\.(?=(?:{'|'.join(ending[1:] for ending in HIDDEN_ENDINGS)})(?:/|$))"
)
_ESCAPE = re.compile(b"%([0-9A-Fa-f]{2})")
#: Where a key of a later edition has the edition's number.
_EDITION_AT = 3
#: Stands for the `/` between the folders of a run.
_DEEPER = "%2F"
_SURROGATE = re.compile("[\ud800-\udfff]")
_INSTRUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def encode_path(raw: bytes) -> str:
    """Return the clean text for a relative source path; `decode_path` reverses it."""
    text = raw.decode("utf-8", "surrogateescape")
    if not _MANGLED.search(text):
        return text
    return _MANGLED.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    raw = match.group().encode("utf-8", "surrogateescape")
    return "".join(f"%{byte:02X}" for byte in raw)


def decode_path(path: str) -> bytes:
    """Return the source's bytes for a path made by `encode_path`."""
    return _ESCAPE.sub(lambda match: bytes([int(match.group(1), 16)]), path.encode())


def check_path(path: str) -> None:
    """Refuse a path that could leave its run or that no object key can hold.

    Raises: BadName.
    """
    if _SURROGATE.search(path):
        raise BadName(name=path, why="it is not valid Unicode")
    segments = path.split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        raise BadName(name=path, why="it has an empty, '.' or '..' segment")
    if any(len(segment.encode()) > MAX_SEGMENT_BYTES for segment in segments):
        raise BadName(name=path, why=f"a segment is longer than {MAX_SEGMENT_BYTES} bytes")


def check_instrument(name: str) -> None:
    """Refuse an instrument name that is not letters, digits, '.', '_' and '-'. Raises: BadName."""
    if not _INSTRUMENT.fullmatch(name):
        raise BadName(name=name, why="an instrument name is letters, digits, '.', '_' and '-'")


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """One run: `instrument/run`; `run` is the encoded folder below the instrument's root.

    A run that lies deeper has the names of its folders joined by `%2F`.
    """

    instrument: str
    run: str

    def __str__(self) -> str:
        return f"{self.instrument}/{self.run}"

    @classmethod
    def parse(cls, text: str) -> "RunKey":
        """Read `INSTRUMENT/RUN`. Raises: BadName."""
        instrument, _, run = text.partition("/")
        check_instrument(instrument)
        if "/" in run:
            raise BadName(name=text, why="a run is one folder: INSTRUMENT/RUN")
        return cls.below(instrument, run.split(_DEEPER))

    @classmethod
    def below(cls, instrument: str, folders: Sequence[str]) -> "RunKey":
        """Return the run of encoded folder names below the root. Raises: BadName."""
        run = _DEEPER.join(folders)
        check_path(run)
        for folder in folders:
            check_path(folder)
            raw = decode_path(folder)
            if b"/" in raw or raw in (b".", b".."):
                raise BadName(name=run, why="it leads elsewhere than its names say")
        return cls(instrument, run)

    @property
    def folders(self) -> tuple[str, ...]:
        """The encoded names of the folders from the root to the run."""
        return tuple(self.run.split(_DEEPER))

    def file(self, path: str) -> "FileKey":
        """Return the key of a file of this run."""
        return FileKey(self, path)


@dataclass(frozen=True, slots=True, order=True)
class FileKey:
    """One file: `instrument/run/path`; `path` is the encoded path below the run folder."""

    run: RunKey
    path: str

    def __str__(self) -> str:
        return f"{self.run}/{self.path}"

    @classmethod
    def parse(cls, text: str) -> "FileKey":
        """Read `INSTRUMENT/RUN/PATH`, the run being one folder. Raises: BadName."""
        instrument, _, rest = text.partition("/")
        run, _, path = rest.partition("/")
        check_path(path)
        return cls(RunKey.parse(f"{instrument}/{run}"), path)


#: How the markers of a generation are named, whole or closed by a person.
MARKER_NAMES = ("complete.json", "incomplete.json")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are in the bucket, below an optional prefix without slashes at its ends."""

    prefix: str = ""

    def raw(self, file: FileKey) -> str:
        """Return the object key of a file. Raises: BadName when S3 cannot hold it."""
        key = self._key("raw", str(file))
        if len(key.encode()) > MAX_KEY_BYTES:
            raise BadName(name=str(file), why=f"its object key passes {MAX_KEY_BYTES} bytes")
        return key

    def edition(self, file: FileKey, number: int) -> str:
        """Return the object key of a file's edition, from 1. Raises: BadName."""
        if number == 1:
            return self.raw(file)
        key = f"{self.editions_prefix(file.run)}{number}/{file.path}"
        if len(key.encode()) > MAX_KEY_BYTES:
            raise BadName(name=str(file), why=f"its object key passes {MAX_KEY_BYTES} bytes")
        return key

    def editions_prefix(self, run: RunKey) -> str:
        """Return what all object keys of a run's later editions begin with."""
        return self._key("editions", f"{run}/")

    def object_prefixes(self, run: RunKey) -> tuple[str, str]:
        """Return what the object keys of all editions of a run's files begin with."""
        return self.raw_prefix(run), self.editions_prefix(run)

    def find_file(self, key: str) -> tuple[FileKey, int] | None:
        """Return the file, and its edition, that an object key is of; None for any other key."""
        names = key.removeprefix(f"{self.prefix}/" if self.prefix else "").split("/")
        number = (
            names.pop(_EDITION_AT) if names[0] == "editions" and len(names) > _EDITION_AT else "1"
        )
        try:
            file = FileKey.parse("/".join(names[1:]))
            edition = int(number) if number.isdecimal() else 0
            return (file, edition) if edition and self.edition(file, edition) == key else None
        except BadName:
            return None

    def everything(self, kind: str) -> str:
        """Return what all keys of a kind begin with: `raw`, `editions`, `runs`, `quarantine`."""
        return self._key(kind, "")

    def raw_prefix(self, run: RunKey) -> str:
        """Return what all object keys of a run's files begin with."""
        return self._key("raw", f"{run}/")

    def manifest(self, run: RunKey, generation: int) -> str:
        """Return the object key of a generation's manifest."""
        return self._key("runs", f"{run}/{generation}/manifest.jsonl")

    def marker(self, run: RunKey, generation: int) -> str:
        """Return the object key of a generation's completion marker."""
        return self._key("runs", f"{run}/{generation}/{MARKER_NAMES[0]}")

    def incomplete_marker(self, run: RunKey, generation: int) -> str:
        """Return the object key of the marker of a generation that a person closed as it was."""
        return self._key("runs", f"{run}/{generation}/{MARKER_NAMES[1]}")

    def records(self, run: RunKey, digest: str) -> str:
        """Return the object key of an archive of a run's records, by the digest of its bytes."""
        return self._key("runs", f"{run}/records/{digest[:16]}.jsonl.gz")

    def runs_prefix(self, run: RunKey) -> str:
        """Return what all manifests and markers of a run begin with."""
        return self._key("runs", f"{run}/")

    def reason(self, file: FileKey) -> str:
        """Return the object key of a dead letter's reason; names that are too long are cut."""
        room = MAX_SEGMENT_BYTES - len(_REASON)
        names = [_cut(name, room) for name in str(file).split("/")]
        key = self._key("quarantine", "/".join(names) + _REASON)
        if len(key.encode()) > MAX_KEY_BYTES:
            run = f"{file.run.instrument}/{_cut(file.run.run, room)}"
            key = self._key("quarantine", f"{run}/{_digest(str(file))}{_REASON}")
        return key

    def probe(self, name: str) -> str:
        """Return the object key of a scratch object that proves the endpoint."""
        return self._key("probe", name)

    def _key(self, kind: str, rest: str) -> str:
        return f"{self.prefix}/{kind}/{rest}" if self.prefix else f"{kind}/{rest}"


def _cut(name: str, most: int) -> str:
    """Return a name of at most so many bytes; one that was cut ends in its digest."""
    raw = name.encode()
    if len(raw) <= most:
        return name
    digest = _digest(name)
    return raw[: most - len(digest) - 1].decode(errors="ignore") + f"~{digest}"


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()

"""Are files held to the checksums that lie beside them, in the read that is sent?"""

import hashlib
import os
import zlib
from collections import Counter
from pathlib import Path

import pytest

from labferry.failures import Kind
from labferry.records import Step
from labferry.settings import InstrumentSettings, StoreSettings
from labferry.states import Event, State
from tests.dock import MIB, RUN, Dock, fingerprint
from tests.ledger_world import ACT
from tests.memory_store import Breaking, Died, MemoryStore
from workers.source import SourceFile

PART = 5 * MIB
LARGE = os.urandom(3 * PART + 7)


@pytest.fixture
def dock(tmp_path: Path, ledger_url: str) -> Dock:
    settings = StoreSettings(
        bucket="bucket", single_put_max_bytes=MIB, part_size_bytes=PART, complete_timeout_s=0.1
    )
    instrument = InstrumentSettings(root=tmp_path / "root", profile="generic-marker")
    return Dock(
        tmp_path,
        ledger_url,
        MemoryStore(),
        store_settings=settings,
        instruments={RUN.instrument: instrument},
    )


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the bytes that were read of each file."""
    counted: Counter[str] = Counter()
    fill, read = SourceFile._fill, SourceFile._read

    def counting_fill(file: SourceFile, buffer: memoryview, offset: int, crc64: int = 0) -> int:
        counted[file._path] += len(buffer)
        return fill(file, buffer, offset, crc64)

    def counting_read(file: SourceFile) -> bytes:
        body = read(file)
        counted[file._path] += len(body)
        return body

    monkeypatch.setattr(SourceFile, "_fill", counting_fill)
    monkeypatch.setattr(SourceFile, "_read", counting_read)
    return counted


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def refused(dock: Dock, name: str, *values: str) -> None:
    """The file is a dead letter that tells both values; nothing of it is in the bucket."""
    assert dock.state(name) is State.QUARANTINED
    note = dock.ledger.history(RUN.file(name))[-1]
    assert (note.event, note.kind, note.code) == (
        Event.QUARANTINE, Kind.PERMANENT, "sidecar_mismatch",
    )  # fmt: skip
    assert all(value in note.message for value in values), note.message
    assert dock.stored(name) is None
    assert dock.store.find_uploads(dock.key(name)) == []


@pytest.mark.parametrize(
    ("list_name", "line"),
    [
        ("a.bam.md5", "{md5}\n"),
        ("a.bam.md5", "{MD5} *.\\a.bam\r\n"),
        ("A.BAM.MD5SUM", "{md5}  a.bam\n"),
        ("md5sums.txt", "MD5 (a.bam) = {md5}\n"),
        ("a.bam.sha1", "{sha1}  ./a.bam\n"),
        ("SHA256SUMS", "{sha256}  a.bam\n"),
        ("files.sfv", "a.bam {crc32}\r\n"),
    ],
)
@pytest.mark.parametrize("content", [b"right", b"", LARGE], ids=["small", "empty", "large"])
def test_a_file_that_its_list_agrees_with_is_verified_by_one_read(
    dock: Dock, reads: Counter[str], content: bytes, list_name: str, line: str
) -> None:
    digests = {
        "md5": md5(content),
        "MD5": md5(content).upper(),
        "sha1": hashlib.sha1(content).hexdigest(),
        "sha256": hashlib.sha256(content).hexdigest(),
        "crc32": f"{zlib.crc32(content):08X}",
    }
    dock.write("a.bam", content)
    dock.write(list_name, line.format(**digests).encode())
    dock.ferried("a.bam", list_name)
    assert dock.state("a.bam") is State.VERIFIED
    assert dock.stored("a.bam") == content
    assert reads["a.bam"] == len(content)


@pytest.mark.parametrize("content", [b"wrong", LARGE], ids=["small", "large"])
def test_a_file_that_its_list_contradicts_is_not_uploaded(dock: Dock, content: bytes) -> None:
    dock.write("sub/a.bam", content)
    dock.write("sub/a.bam.md5", f"{md5(b'right')}\n".encode())
    dock.write("sub/b.bam", b"a neighbour")
    dock.ferried("sub/a.bam", "sub/a.bam.md5", "sub/b.bam")
    refused(dock, "sub/a.bam", md5(content), md5(b"right"), "sub/a.bam.md5")
    assert dock.state("sub/b.bam") is State.VERIFIED


def test_a_list_above_stands_for_what_lies_below_it(dock: Dock) -> None:
    dock.write("x/y/a", b"wrong")
    dock.write("x/SHA256SUMS", f"{hashlib.sha256(b'right').hexdigest()}  y/a\n".encode())
    dock.ferried("x/y/a")
    refused(dock, "x/y/a", "x/SHA256SUMS")


def test_every_list_that_names_a_file_is_heard(dock: Dock) -> None:
    dock.write("a", b"data")
    dock.write("a.md5", md5(b"data").encode())
    dock.write("SHA256SUMS", f"{hashlib.sha256(b'other').hexdigest()}  a\n".encode())
    dock.ferried("a")
    refused(dock, "a", "SHA256SUMS")


def test_a_sidecar_has_no_sidecar_and_says_nothing_of_others(dock: Dock) -> None:
    dock.write("a", b"a")
    dock.write("b", b"b")
    dock.write("a.md5", f"{md5(b'a')}  a\n{md5(b'x')}  b\n".encode())
    results = dock.ferried("a", "b", "a.md5")
    assert {result.state for result in results.values()} == {State.VERIFIED}


def test_parts_that_went_before_a_crash_are_in_the_digest_of_the_next_attempt(
    dock: Dock, reads: Counter[str]
) -> None:
    dock.tune("worker", part_threads=1)
    dock.write("a", LARGE)
    dock.write("a.md5", md5(LARGE).encode())
    with pytest.raises(Died):
        dock.ferried("a", store=Breaking(dock.store, 3, "before", method="put_part"))
    dock.lapse()
    reads.clear()
    dock.finish()
    assert dock.state("a") is State.VERIFIED
    assert dock.stored("a") == LARGE
    assert reads["a"] == len(LARGE)


@pytest.mark.parametrize("content", [LARGE, LARGE[:-1] + b"?"], ids=["right", "wrong"])
def test_parts_that_are_sent_at_a_time_make_one_digest_by_one_read(
    dock: Dock, reads: Counter[str], content: bytes
) -> None:
    dock.tune("worker", part_threads=4)
    dock.write("a", content)
    dock.write("a.md5", md5(LARGE).encode())
    dock.ferried("a")
    assert dock.state("a") is (State.VERIFIED if content == LARGE else State.QUARANTINED)
    assert reads["a"] == len(content)


def test_what_lies_under_a_lists_name_and_is_none_stops_nothing(dock: Dock) -> None:
    dock.write("a", b"data")
    dock.source("folder.md5").mkdir()
    os.mkfifo(dock.source("pipe.md5"))
    dock.source("a.md5").symlink_to("/etc/passwd")
    dock.ferried("a")
    assert dock.state("a") is State.VERIFIED


def test_a_mended_file_is_uploaded_when_it_is_sent_in_again(dock: Dock) -> None:
    file = dock.write("a", b"wrong")
    dock.write("a.md5", md5(b"right").encode())
    dock.ferried("a")
    refused(dock, "a")
    file.write_bytes(b"right")

    step = Step(path="a", fingerprint=fingerprint(file))
    dock.ledger.act(RUN, Event.REVISE, [step], ACT)
    dock.finish()
    assert dock.stored("a") == b"right"

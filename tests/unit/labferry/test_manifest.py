"""Manifest, marker and event are canonical bytes that read back as they were."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.errors import MalformedMessage
from labferry.identity import RunKey
from labferry.manifest import (
    Marker,
    entry_line,
    header,
    marker_bytes,
    read_entry,
    read_header,
    read_marker,
    split_lines,
)
from labferry.records import Evidence, FileRecord, Fingerprint, Lane, Level
from labferry.states import State

RUN = RunKey("seq", "run ü")
MARKER = Marker(
    run=RUN,
    generation=2,
    manifest="runs/seq/run ü/2/manifest.jsonl",
    sha256="ab" * 32,
    files=3,
    size=12,
    total_files=5,
    evidence={"A": 2, "D": 1},
)


def record(**changes: object) -> FileRecord:
    fields: dict[str, object] = {
        "state": State.VERIFIED,
        "attempt": 3,
        "lost": 0,
        "rounds": 0,
        "series": 0,
        "token": 9,
        "holder": 4,
        "fingerprint": Fingerprint(12, 1_700_000_000_000_000_001, 5, 6),
        "lane": Lane.SMALL,
        "discovered_ms": 1,
        "changed_ms": 2,
        "settled_ms": 3,
        "claimed_ms": 4,
        "verified_ms": 5,
        "evidence": Evidence(level=Level.A, crc64=255, etag="e" * 32, version_id="v"),
    }
    return FileRecord(**{**fields, **changes})  # type: ignore[arg-type]


def test_an_entry_reads_back() -> None:
    entry = read_entry(entry_line("a b#.txt", "raw/seq/run ü/a b#.txt", record()))
    assert (entry.path, entry.size, entry.crc64nvme) == ("a b#.txt", 12, "00000000000000ff")
    assert (entry.etag, entry.version_id, entry.evidence) == ("e" * 32, "v", "A")


@given(st.text(), st.text(), st.integers(0, 2**63), st.text())
def test_an_entry_is_canonical(path: str, etag: str, size: int, version_id: str) -> None:
    made = record(evidence=Evidence(level=Level.D, crc64=7, etag=etag, version_id=version_id))
    made = replace(made, fingerprint=made.fingerprint._replace(size=size))
    line = entry_line(path, f"raw/{path}", made)
    fields = json.loads(line)
    assert (fields["path"], fields["key"], fields["etag"]) == (path, f"raw/{path}", etag)
    plain = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert line == plain.encode() + b"\n"


def test_a_manifest_has_no_clock_attempt_or_worker_in_it() -> None:
    one = entry_line("p", "k", record())
    other = entry_line(
        "p",
        "k",
        record(
            attempt=0, token=1, holder=1, discovered_ms=7, changed_ms=7, settled_ms=7, verified_ms=9
        ),
    )
    assert one == other


def test_every_line_is_one_line() -> None:
    assert header(RUN, 1).count(b"\n") == 1
    assert entry_line("p", "k", record()).count(b"\n") == 1


def test_a_header_names_run_and_generation() -> None:
    assert read_header(header(RUN, 7)) == (RUN, 7)


def test_a_marker_reads_back_and_is_canonical() -> None:
    assert read_marker(marker_bytes(MARKER)) == MARKER
    assert list(json.loads(marker_bytes(MARKER))) == sorted(json.loads(marker_bytes(MARKER)))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"labferry_marker":2}', b'{"labferry_marker":1,"run":"seq/r"}'],
)
def test_a_marker_that_cannot_be_read_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_marker(content)


def test_an_unknown_field_is_tolerated() -> None:
    fields = {**json.loads(marker_bytes(MARKER)), "later": 1}
    assert read_marker(json.dumps(fields).encode()) == MARKER


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_are_found_across_blocks(size: int) -> None:
    content = b"one\ntwo\n\nthree\n"
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    assert list(split_lines(blocks)) == [b"one", b"two", b"", b"three"]


def test_a_manifest_that_is_cut_off_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        list(split_lines([b"one\ntw"]))

"""Does whatever comes in at a door give a record, or the door's own error? And in bounded time?

Each parser of what others can write is given what hypothesis makes up: bytes, JSON of any shape,
and what is nearly right. Nothing else than the error in its docstring may come out.
"""

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labferry.audit import read_line
from labferry.errors import BadName, MalformedMessage
from labferry.identity import FileKey, RunKey, check_path, decode_path
from labferry.ledger.layout import unpack_record, unpack_seen
from labferry.ledger.notes import unpack_note
from labferry.manifest import (
    read_entry,
    read_header,
    read_left_out,
    read_marker,
    split_lines,
)
from labferry.messages import COMPLETE, UploadMessage, read_run
from labferry.sidecars import MOST_LINE_BYTES, Form, Listed, Unread, lines_of, read_list

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
#: Deep enough for the parser of JSON to run out of stack.
DEEP = b"[" * 200_000


def nearly(sound: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A sound object in which some fields are missing, or hold anything."""
    fields = {name: st.just(value) | values for name, value in sound.items()}
    return st.fixed_dictionaries({}, optional=fields)


def as_lines(objects: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return (
        objects.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=60) | st.just(DEEP)
    )


MARKER = {
    "labferry_marker": 1, "run": "scope/r1", "generation": 1, "manifest": "m",
    "manifest_sha256": "0", "files": 1, "bytes": 1, "total_files": 1, "evidence": {"A": 1},
    "superseded": 0, "incomplete": True, "left_out_files": 1, "left_out_bytes": 1,
    "closed_by": "ada", "reason": "why",
}  # fmt: skip
HEADER = {"labferry_manifest": 1, "run": "scope/r1", "generation": 1}
ENTRY = {
    "path": "a", "key": "raw/scope/r1/a", "size": 1, "mtime_ns": 1, "crc64nvme": "0" * 16,
    "etag": "e", "version_id": "", "evidence": "A", "supersedes": "",
}  # fmt: skip
LEFT_OUT = {"left_out": True, "path": "a", "size": 1, "was": "", "code": "", "message": ""}
UPLOAD = {"version": 1, "run": "scope/r1", "bundle": 1, "paths": ["a"]}
DOCUMENTS: dict[str, tuple[Callable[[bytes], object], st.SearchStrategy[bytes]]] = {
    "marker": (read_marker, as_lines(nearly(MARKER) | values)),
    "header": (read_header, as_lines(nearly(HEADER) | values)),
    "entry": (read_entry, as_lines(nearly(ENTRY) | values)),
    "left out": (read_left_out, as_lines(nearly(LEFT_OUT) | values)),
    "manifest": (lambda raw: list(split_lines([raw])), st.binary()),
    "record": (unpack_record, st.binary(max_size=120)),
    "seen": (unpack_seen, st.binary(max_size=80)),
    "note": (unpack_note, as_lines(values).map(lambda line: b"1 " + line) | st.binary()),
    "audit": (
        lambda raw: read_line(raw.decode("latin-1")),
        as_lines(values).map(lambda r: b"x " + r),
    ),
}


@pytest.mark.parametrize("door", DOCUMENTS)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_a_document_is_read_or_malformed(door: str, data: st.DataObject) -> None:
    read, documents = DOCUMENTS[door]
    try:
        read(data.draw(documents))
    except MalformedMessage:
        return


@settings(deadline=None, max_examples=300)
@given(nearly(UPLOAD) | values)
def test_a_message_is_read_or_malformed(payload: object) -> None:
    for read in (UploadMessage.from_payload, lambda one: read_run(COMPLETE, one)):
        try:
            read(payload)
        except MalformedMessage:
            continue


@settings(deadline=None, max_examples=300)
@given(
    st.text(st.characters(), max_size=40)
    | st.from_regex(r"[a.]{1,2}/[a.%2F/\\]{0,9}", fullmatch=True)
)
def test_a_name_is_read_or_bad_and_never_leads_out(text: str) -> None:
    for read in (RunKey.parse, FileKey.parse):
        try:
            key = read(text)
        except BadName:
            continue
        for folder in (key if isinstance(key, RunKey) else key.run).folders:
            assert decode_path(folder) not in (b"", b".", b"..")
            assert b"/" not in decode_path(folder)


#: What lines of lists are made of, so that some of them are read.
PIECES = [
    b"d41d8cd98f00b204e9800998ecf8427e", b"d41d8cd9", b"0" * 40, b"a" * 64, b"  ", b" *", b"\t",
    b"MD5 (", b") = ", b"../", b"/", b"\\", b"C:", b"a", b"%2E%2E", b"%2F", b"\r", b"\0", b"\xff",
    b'"', b",", b"\n", b"file_hash,file_path\n", b"SHA256", b"./", b"..\\", b"/m/",
    b"nfiles: 3", b";",
]  # fmt: skip
lists = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=40).map(b"".join)


@settings(deadline=None, max_examples=400)
@given(
    lists, st.sampled_from(Form), st.sampled_from(["a.md5", "MD5SUMS", "x.sfv", "m.transferdone"])
)
def test_a_list_names_files_of_its_folder_or_says_why_not(
    raw: bytes, form: Form, name: str
) -> None:
    for one in read_list(lines_of(io.BytesIO(raw)), form, name):
        assert isinstance(one, Listed | Unread)
        if isinstance(one, Listed):
            assert one.path
            assert not {"", ".", ".."} & set(one.path.split("/"))
            assert not {b"", b".", b".."} & set(decode_path(one.path).split(b"/"))


SLOW = {
    "blanks after a digest and nothing": b"d41d8cd98f00b204e9800998ecf8427e" + b" " * 60_000,
    "blanks after a digest": b"d41d8cd98f00b204e9800998ecf8427e" + b" " * 60_000 + b"\0",
    "blanks within": b"a" + b" \t" * 30_000 + b"x",
    "brackets": b"MD5 (" + b") = a" * 12_000 + b"!",
    "a digest without an end": b"ab" * 32_000,
    "backslashes": b"\\" + b"d41d8cd98f00b204e9800998ecf8427e  " + b"\\" * 60_000,
    "a frame's path of blanks": b"SubFramePath =" + b" " * 60_000,
    "quotes": b'"' * 60_000,
    "commas": b"," * 60_000,
}


@pytest.mark.parametrize("line", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("name", ["a.md5", "x.sfv", "MD5SUMS"])
def test_no_line_of_a_list_takes_long(line: bytes, form: Form, name: str) -> None:
    began_s = time.process_time()
    list(read_list(lines_of(io.BytesIO(b"file_hash,file_path\n" + line)), form, name))
    assert time.process_time() - began_s < 1


class Endless(io.RawIOBase):
    """A file that has no line's end; counts what was read of it."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.largest = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.left)
        buffer[:count] = b"x" * count
        self.left -= count
        return count


def test_a_line_that_does_not_end_is_told_once_and_never_held() -> None:
    file = Endless(64 * 1024 * 1024)
    found = list(read_list(lines_of(io.BufferedReader(file)), Form.CHECKSUMS, "MD5SUMS"))
    assert found == [Unread(1, f"it is longer than {MOST_LINE_BYTES} bytes")]


def test_the_lines_after_one_that_is_too_long_are_read_under_their_own_numbers() -> None:
    raw = b"x" * (3 * MOST_LINE_BYTES) + b"\nnonsense\n" + b"d41d8cd98f00b204e9800998ecf8427e  a\n"
    long, nonsense, entry = read_list(lines_of(io.BytesIO(raw)), Form.CHECKSUMS, "MD5SUMS")
    assert (long.number, nonsense.number) == (1, 2)  # type: ignore[union-attr]
    assert isinstance(entry, Listed)


def test_a_manifest_whose_line_does_not_end_is_malformed_before_it_fills_the_memory() -> None:
    given_out = 0

    def blocks() -> Any:
        nonlocal given_out
        while True:
            given_out += 1
            yield b"x" * 65536

    with pytest.raises(MalformedMessage):
        list(split_lines(blocks()))
    assert given_out < 64


@pytest.mark.parametrize("raw", [DEEP, b'{"a":' * 100_000], ids=["lists", "objects"])
def test_json_that_is_nested_too_deep_is_malformed(raw: bytes) -> None:
    for read in (read_marker, read_header, read_entry):
        with pytest.raises(MalformedMessage):
            read(raw)


def test_a_message_of_too_many_paths_or_too_long_ones_is_malformed() -> None:
    for paths in (["a"] * 5001, ["/".join(["a" * 200] * 6)]):
        with pytest.raises(MalformedMessage):
            UploadMessage.from_payload({**UPLOAD, "paths": paths})


def test_a_path_whose_names_are_a_format_or_a_command_is_a_name_like_any_other() -> None:
    for name in ("%s%n%x", "{0.__class__}", "$(touch x)", "`id`", "; rm -rf x", "${jndi:x}"):
        check_path(name)
        assert FileKey.parse(f"scope/run/{name}").path == name

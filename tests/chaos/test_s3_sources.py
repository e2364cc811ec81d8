"""Does no strange, changing or oversized source become a wrong object, or stop its neighbours?

Numbers are those of research's 25 tests (docs/proof.md).
"""

import os
import shutil
import socket
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from labferry.failures import Kind
from labferry.identity import decode_path, encode_path
from labferry.manifest import read_entry, split_lines
from labferry.settings import MIB
from labferry.states import Event, State
from tests.dock import RUN, Meddling
from tests.quay import CREATE, PART, Quay
from workers.complete import Completer
from workers.plan import MOST_PART_BYTES, part_size_of

BODY = os.urandom(PART + 1)
PARTS = 2


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def rewrite_and_restore_mtime(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_file(path: Path) -> None:
    other = path.with_name(".other")
    shutil.copy(path, other)
    other.rename(path)


def add_link(path: Path) -> None:
    os.link(path, path.parent.parent / "backup")


Change = Callable[[Path], object]


@pytest.mark.parametrize(
    "change",
    [append, lambda path: os.truncate(path, 2), rewrite_and_restore_mtime, replace_file, os.unlink],
    ids=["append", "truncate", "rewrite, mtime restored", "replace", "delete"],
)
def test_a_file_that_changes_after_its_last_part_was_sent_becomes_no_object(
    quay: Quay, change: Change
) -> None:
    """Test 17: between parts, and before them, see tests/integration/test_transfer.py."""
    quay.write("f", BODY)
    quay.dock.write("neighbour")
    quay.dock.settle("neighbour")
    meddled = Meddling(
        quay.dock.store,
        "put_part",
        lambda: change(quay.dock.source("f")),
        nth=PARTS,
        when="after",
    )
    result = quay.ferry(store=meddled)["f"]
    assert result.failure is not None
    assert (result.state, result.failure.kind) == (State.DISCOVERED, Kind.SOURCE)
    quay.absent("f")
    assert quay.uploads("f") == []
    assert quay.dock.record("f").attempt == 0
    quay.verified("neighbour")


@pytest.mark.parametrize("nth", [1, PARTS])
def test_a_link_made_to_a_file_under_its_upload_costs_a_second_look_and_no_attempt(
    quay: Quay, nth: int
) -> None:
    """Test 17: ctime moved and nothing else; it is settled and sent again, and verified."""
    quay.write("f", BODY)
    linking = Meddling(
        quay.dock.store, "put_part", lambda: add_link(quay.dock.source("f")), nth=nth, when="after"
    )
    quay.ferry(store=linking)
    assert quay.dock.codes("f") == [(Event.ABANDON, "source_changed")]
    quay.finish()
    quay.verified("f")
    assert quay.dock.record("f").attempt == 0


# -- 18: what is no plain file, beside what is one


def to_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_socket(path: Path) -> None:
    path.unlink()
    here = Path.cwd()
    try:
        os.chdir(path.parent)  # the name of a socket is limited to 107 bytes
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


def to_link_out(path: Path) -> None:
    secret = path.parent.parent.parent / "secret"
    secret.write_bytes(b"s")
    path.unlink()
    path.symlink_to(secret)


def to_link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


def to_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


STRANGE = {
    "fifo": to_fifo,
    "socket": to_socket,
    "link out": to_link_out,
    "link to nothing": to_link_to_nothing,
    "loop": to_loop,
    "folder": to_folder,
}


def test_what_is_no_plain_file_is_refused_without_waiting_and_all_others_go_on(quay: Quay) -> None:
    """Test 18: one bundle with everything in it."""
    for name in STRANGE:
        quay.write(encode_path(name.encode()), b"plain for now")
    plain = {
        "empty": b"",
        encode_path(b"\xff\xfe not UTF-8"): b"named",
        "neighbour": b"n",
        "large": BODY,
    }
    for name, body in plain.items():
        quay.write(name, body)
    sparse = quay.dock.source("sparse")
    with sparse.open("wb") as file:
        file.truncate(PART + MIB)
    quay.dock.settle("sparse")
    for name, change in STRANGE.items():
        change(quay.dock.source(encode_path(name.encode())))

    quay.ferry()

    for name in STRANGE:
        path = encode_path(name.encode())
        assert quay.dock.codes(path) == [(Event.QUARANTINE, "source_refused")]
        quay.absent(path)
    quay.verified(*plain, "sparse")


# -- 19: names


def pairs() -> list[bytes]:
    """Names that some servers or file systems take for one another."""
    umlaut = "Größe"
    return [
        unicodedata.normalize("NFC", umlaut).encode(),
        unicodedata.normalize("NFD", umlaut).encode(),
        b"case", b"CASE", b"Case",
        b"a\\b", b"a/b", b"a%5Cb", b"a%2Fb",
        b"space", b" space", b"space ", b"spa ce", b"spa+ce", b"spa%20ce",
        b"#", b"?", b"&", b"%", b"%25", b"'", b'"', b"<x>", b"*", b":", b"~",
        b"tab\there", b"line\nbreak", b"carriage\rreturn", b"\x01", b"\x7f",
        "rtl\u202ename".encode(), "\ufffe".encode(), "emoji \N{MICROSCOPE}".encode(),
        b".hidden", b"..two", b"...", b".uploads/x", b"a.versions/x", b"d.d/e", b"not \xff utf-8",
    ]  # fmt: skip


def test_names_that_look_alike_are_different_objects_and_come_back_from_the_manifest(
    quay: Quay,
) -> None:
    """Test 19: each file has its own bytes, and its own name in bytes again."""
    names = {encode_path(raw): raw for raw in pairs()}
    assert len(names) == len(pairs())
    for path, raw in names.items():
        quay.write(path, b"body of " + raw)
    quay.finish()
    quay.verified(*names)
    assert quay.dock.ledger.seal(RUN, [], len(names))
    completer = Completer(ledger=quay.dock.ledger, store=quay.dock.store, layout=quay.dock.layout)
    assert completer.complete(RUN)
    _, *lines = split_lines(quay.direct.read(quay.dock.layout.manifest(RUN, 1)))
    assert sorted(decode_path(read_entry(line).path) for line in lines) == sorted(pairs())


# -- 23: limits of the plan


def test_a_file_that_no_number_of_parts_can_hold_is_refused_before_anything_is_sent(
    quay: Quay,
) -> None:
    """Test 23: one byte less would fit."""
    quay.dock.tune("store", max_parts=1)
    assert part_size_of(MOST_PART_BYTES, quay.dock.settings.store) == MOST_PART_BYTES
    path = quay.dock.write("f", b"")
    os.truncate(path, MOST_PART_BYTES + 1)
    quay.dock.settle("f")
    quay.write("neighbour", b"n")
    quay.ferry()
    assert quay.dock.codes("f") == [(Event.QUARANTINE, "refused")]
    assert quay.proxy.count(CREATE) == 0
    quay.verified("neighbour")

"""Are the bytes that are read the settled file's, or none?"""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.errors import (
    ShareUnavailable,
    SourceChanged,
    SourceError,
    SourceRefused,
    SourceVanished,
)
from labferry.identity import RunKey, encode_path
from labferry.records import Fingerprint
from tests.trees import open_below
from workers import source
from workers.source import RunFolder

RUN = RunKey("scope", "run 1")


def settle(path: Path) -> Fingerprint:
    seen = path.lstat()
    return Fingerprint(seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_ctime_ns)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "run 1"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def folder(run: Path) -> Iterator[RunFolder]:
    opened = RunFolder(run.parent, RUN)
    yield opened
    opened.close()


def write(run: Path, name: str, body: bytes = b"bytes") -> tuple[str, Fingerprint]:
    path = run / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return encode_path(os.fsencode(name)), settle(path)


def read(folder: RunFolder, path: str, settled: Fingerprint) -> bytes:
    with folder.open(path, settled) as file:
        body = file.read()
        file.confirm()
        return body


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "a/b/c",
        "with space/# + & %41.txt",
        "Größe/ü.tif",
        "control\x01\n",
        "100%",
        "back\\slash",
    ],
)
def test_a_file_is_read_whole_under_its_own_name(run: Path, folder: RunFolder, name: str) -> None:
    path, settled = write(run, name, b"x" * 10_000)
    assert read(folder, path, settled) == b"x" * 10_000


def test_a_name_of_undecodable_bytes_is_read(run: Path, folder: RunFolder) -> None:
    raw = os.fsencode(run) + b"/\xff\xfe.raw"
    Path(os.fsdecode(raw)).write_bytes(b"1")
    assert read(folder, encode_path(b"\xff\xfe.raw"), settle(Path(os.fsdecode(raw)))) == b"1"


def test_an_empty_file_is_read(run: Path, folder: RunFolder) -> None:
    assert read(folder, *write(run, "empty", b"")) == b""


def test_bytes_are_read_from_an_offset(run: Path, folder: RunFolder) -> None:
    path, settled = write(run, "f", bytes(range(100)))
    buffer = bytearray(20)
    with folder.open(path, settled) as file:
        file.read_into(memoryview(buffer), 50)
    assert bytes(buffer) == bytes(range(50, 70))


def test_more_folders_than_are_kept_open_are_read(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_FOLDERS_KEPT", 3)
    opened = RunFolder(run.parent, RUN)
    for number in range(12):
        assert read(opened, *write(run, f"d{number}/x/f")) == b"bytes"
    assert open_below(run.parent) == 1 + 3
    opened.close()
    assert open_below(run.parent) == 0


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def truncate(path: Path) -> None:
    os.truncate(path, 2)


def rewrite_and_restore_mtime(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"BYTES")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"BYTES")
    other.rename(path)


def link(path: Path) -> None:
    os.link(path, path.with_name("link"))


CHANGES = [grow, truncate, rewrite_and_restore_mtime, replace, link]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_changed_since_it_settled_is_not_opened(
    run: Path, folder: RunFolder, change: object
) -> None:
    path, settled = write(run, "f")
    change(run / "f")  # type: ignore[operator]
    with pytest.raises(SourceChanged):
        folder.open(path, settled)


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_changed_while_it_was_read_does_not_count(
    run: Path, folder: RunFolder, change: object
) -> None:
    path, settled = write(run, "f")
    with folder.open(path, settled) as file:
        file.read()
        change(run / "f")  # type: ignore[operator]
        with pytest.raises(SourceChanged):
            file.confirm()


def test_a_folder_swapped_under_the_read_does_not_count(run: Path, folder: RunFolder) -> None:
    path, settled = write(run, "d/f")
    with folder.open(path, settled) as file:
        (run / "d").rename(run / "old")
        write(run, "d/f")
        with pytest.raises(SourceChanged):
            file.confirm()


def test_a_change_that_the_descriptor_alone_shows_does_not_count(
    run: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, settled = write(run, "f")
    stale = (run / "f").lstat()
    with folder.open(path, settled) as file:
        grow(run / "f")
        monkeypatch.setattr(os, "lstat", lambda _: stale)  # a share's attributes are cached
        with pytest.raises(SourceChanged):
            file.confirm()


def test_a_file_deleted_while_it_was_read_does_not_count(run: Path, folder: RunFolder) -> None:
    path, settled = write(run, "f")
    write(run, "other")
    with folder.open(path, settled) as file:
        (run / "f").unlink()
        with pytest.raises(SourceVanished):
            file.confirm()


def test_a_short_read_is_a_change(run: Path, folder: RunFolder) -> None:
    path, settled = write(run, "f")
    with folder.open(path, settled) as file:
        truncate(run / "f")
        with pytest.raises(SourceChanged):
            file.read()


def test_without_an_inode_a_file_is_told_by_size_and_time_alone(
    run: Path, folder: RunFolder
) -> None:
    path, settled = write(run, "a")
    alone = settled._replace(inode=0, ctime_ns=0)
    (run / "a").unlink()
    write(run, "other")
    write(run, "a")
    os.utime(run / "a", ns=(settled.mtime_ns, settled.mtime_ns))
    assert read(folder, path, alone) == b"bytes"
    with pytest.raises(SourceChanged):
        read(folder, path, settled)
    os.utime(run / "a", ns=(1, 1))
    with pytest.raises(SourceChanged, match="mtime_ns"):
        read(folder, path, alone)


def test_a_run_that_lies_deeper_is_walked_folder_by_folder(tmp_path: Path) -> None:
    write(tmp_path / "root" / "exp 1" / "s#1" / "run", "sub/a")
    deep = RunFolder(tmp_path / "root", RunKey.below("ont", ["exp 1", "s#1", "run"]))
    settled = settle(tmp_path / "root/exp 1/s#1/run/sub/a")
    assert read(deep, "sub/a", settled) == b"bytes"
    deep.close()


def test_a_link_on_the_way_to_a_deeper_run_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "run", "a")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "exp").symlink_to(tmp_path / "elsewhere")
    deep = RunFolder(tmp_path / "root", RunKey.below("ont", ["exp", "run"]))
    with pytest.raises(SourceRefused):
        deep.open("a", settle(tmp_path / "elsewhere/run/a"))
    deep.close()


def test_the_difference_is_named(run: Path, folder: RunFolder) -> None:
    path, settled = write(run, "f")
    grow(run / "f")
    with pytest.raises(SourceChanged, match="size and mtime_ns and ctime_ns changed"):
        folder.open(path, settled)


def test_a_link_is_refused(run: Path, folder: RunFolder) -> None:
    outside = run.parent.parent / "secret"
    outside.write_bytes(b"s")
    (run / "f").symlink_to(outside)
    with pytest.raises(SourceRefused):
        folder.open("f", settle(outside))


def test_a_folder_that_became_a_link_is_refused(run: Path, folder: RunFolder) -> None:
    outside = run.parent.parent / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"s")
    (run / "d").symlink_to(outside)
    with pytest.raises(SourceRefused):
        folder.open("d/f", settle(outside / "f"))


def test_a_run_folder_that_is_a_link_is_refused(run: Path) -> None:
    (run.parent / "run 2").symlink_to(run)
    path, settled = write(run, "f")
    opened = RunFolder(run.parent, RunKey("scope", "run 2"))
    with pytest.raises(SourceRefused):
        opened.open(path, settled)
    opened.close()


def test_a_loop_of_links_is_refused(run: Path, folder: RunFolder) -> None:
    (run / "a").symlink_to(run / "b")
    (run / "b").symlink_to(run / "a")
    with pytest.raises(SourceRefused):
        folder.open("a", Fingerprint(0, 0, 0, 0))


def test_a_fifo_is_refused_without_waiting(run: Path, folder: RunFolder) -> None:
    os.mkfifo(run / "f")
    with pytest.raises(SourceRefused):
        folder.open("f", settle(run / "f"))


def test_a_socket_is_refused(run: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        with pytest.raises(SourceRefused):
            folder.open("s", settle(run / "s"))


def test_a_folder_where_a_file_was_is_refused(run: Path, folder: RunFolder) -> None:
    (run / "f").mkdir()
    with pytest.raises(SourceRefused):
        folder.open("f", settle(run / "f"))


def test_a_file_where_a_folder_was_is_refused(run: Path, folder: RunFolder) -> None:
    _, settled = write(run, "d")
    with pytest.raises(SourceRefused):
        folder.open("d/f", settled)


@pytest.mark.parametrize(
    "path",
    ["../outside", "d/../../outside", "%2E%2E/outside", "%2E%2E%2Foutside", "", "d/", "f%00"],
)
def test_a_path_that_leaves_its_run_is_refused(run: Path, folder: RunFolder, path: str) -> None:
    (run / "d").mkdir()
    _, settled = write(run.parent, "outside")
    with pytest.raises(SourceRefused):
        folder.open(path, settled)


def test_a_missing_file_has_vanished(run: Path, folder: RunFolder) -> None:
    with pytest.raises(SourceVanished):
        folder.open("f", Fingerprint(0, 0, 0, 0))


def test_under_an_empty_root_nothing_has_vanished(run: Path, folder: RunFolder) -> None:
    run.rmdir()
    with pytest.raises(ShareUnavailable):
        folder.open("f", Fingerprint(0, 0, 0, 0))


def test_under_a_root_that_went_away_nothing_has_vanished(run: Path, folder: RunFolder) -> None:
    run.rmdir()
    run.parent.rmdir()
    with pytest.raises(ShareUnavailable):
        folder.open("f", Fingerprint(0, 0, 0, 0))


def test_an_absent_root_is_an_unavailable_share(tmp_path: Path) -> None:
    with pytest.raises(ShareUnavailable):
        RunFolder(tmp_path / "absent", RUN)


def test_a_run_folder_that_went_away_leaves_vanished_files(run: Path, folder: RunFolder) -> None:
    run.rmdir()
    write(run.parent / "run 3", "f")
    with pytest.raises(SourceVanished):
        folder.open("f", Fingerprint(0, 0, 0, 0))


def test_a_system_call_that_fails_is_named(
    run: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, settled = write(run, "f")

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EACCES, "denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SourceError) as caught:
        folder.open(path, settled)
    assert (type(caught.value), caught.value.errno_name) == (SourceError, "EACCES")


def test_refused_files_leave_no_descriptor_behind(run: Path, folder: RunFolder) -> None:
    path, settled = write(run, "f")
    grow(run / "f")
    with pytest.raises(SourceChanged):
        folder.open(path, settled)
    before = open_below(run.parent)
    for _ in range(3):
        with pytest.raises(SourceChanged):
            folder.open(path, settled)
        with pytest.raises(SourceVanished):
            folder.open("absent", settled)
        with pytest.raises(SourceVanished):
            folder.open("no/such/folder/f", settled)
    assert open_below(run.parent) == before


def test_who_was_given_up_reads_nothing_of_the_next_file(run: Path, folder: RunFolder) -> None:
    """Its thread may still read when the file is closed; the next one gets the same number."""
    first, second = write(run, "first", b"first"), write(run, "second", b"other")
    with folder.open(*first) as given_up:
        pass
    buffer = bytearray(5)
    with folder.open(*second), pytest.raises(SourceError):
        given_up.read_into(memoryview(buffer), 0)
    assert bytes(buffer) == bytes(5)

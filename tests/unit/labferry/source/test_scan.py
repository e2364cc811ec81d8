"""What does a scan find in one run folder, and what does it leave out?"""

import errno
import os
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from labferry.identity import Layout, check_path, decode_path
from labferry.profiles import load_profile
from labferry.source.scan import BATCH_ENTRIES, Unreadable, scan
from tests.trees import (
    RUN,
    FailingOpens,
    after_listing,
    make_tree,
    open_below,
    paths,
    scanned,
)


def test_a_scan_finds_every_file_of_a_nested_tree(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, "a", "b/c", "b/d/e/f", "ä ü/#1+2.txt", "empty/x")
    found = scanned(folder)
    assert paths(found) == ["a", "b/c", "b/d/e/f", "empty/x", "ä ü/#1+2.txt"]
    assert not found.left_out
    assert not found.unreadable


def test_a_fingerprint_is_what_stat_says(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, "a", "b/c")
    expected = (tmp_path / "b/c").stat()
    fingerprint = dict(scanned(folder).files)["b/c"]
    assert fingerprint == (1, expected.st_mtime_ns, expected.st_ino, expected.st_ctime_ns)


def test_a_zero_byte_file_is_a_file(tmp_path: Path) -> None:
    assert dict(scanned(make_tree(tmp_path, "zero")).files)["zero"].size == 0


@pytest.mark.parametrize(
    "name",
    [b"\xff\xfe.raw", b"line\nbreak", b"back\\slash", b"100%41.txt", b"50%", "ß.czi".encode()],
)
def test_every_name_comes_back_byte_for_byte(tmp_path: Path, name: bytes) -> None:
    folder = make_tree(tmp_path, b"sub\xe4/" + name, name)
    found = paths(scanned(folder))
    assert sorted(decode_path(path) for path in found) == sorted([name, b"sub\xe4/" + name])
    for path in found:
        check_path(path)


@pytest.mark.parametrize("ending", [".uploads", ".versions"])
def test_a_name_that_servers_hide_is_encoded(tmp_path: Path, ending: str) -> None:
    folder = make_tree(tmp_path, f"a{ending}", f"b{ending}/c", f"d{ending}.txt")
    hidden = ending.replace(".", "%2E")
    assert paths(scanned(folder)) == [f"a{hidden}", f"b{hidden}/c", f"d{ending}.txt"]


def test_no_batch_is_larger_than_promised(tmp_path: Path) -> None:
    names = [f"{n % 7}/{n}" for n in range(2500)]
    folder = make_tree(tmp_path, *names, *(f"tmp/{n}.tmp" for n in range(30)))
    profile = load_profile("generic", {})
    sizes = [len(batch) for batch in scan(folder, RUN, profile, Layout())]
    assert max(sizes) <= BATCH_ENTRIES
    assert sum(sizes) == 2530


def test_a_link_is_left_out_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make_tree(outside, "secret")
    folder = make_tree(tmp_path / "run", "a")
    (tmp_path / "run/up").symlink_to("..")
    (tmp_path / "run/loop").symlink_to("loop")
    (tmp_path / "run/gone").symlink_to("nowhere")
    (tmp_path / "run/there").symlink_to(outside)
    (tmp_path / "run/file").symlink_to(outside / "secret")
    found = scanned(folder)
    assert paths(found) == ["a"]
    left = {entry.path: entry.code for entry in found.left_out}
    assert left == dict.fromkeys(["up", "loop", "gone", "there", "file"], "symlink")


def test_a_folder_swapped_for_a_link_during_the_scan_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    make_tree(outside, "secret/secret")
    folder = make_tree(tmp_path / "run", "a/b/c", "z")
    below = tmp_path / "run/a/b"

    def swap() -> None:
        below.rename(tmp_path / "moved")
        below.symlink_to(outside / "secret")

    real_open = os.open

    def swapping_open(name: bytes, *arguments: int, **options: int) -> int:
        if os.fsencode(name) == b"b" and not below.is_symlink():
            swap()
        return real_open(name, *arguments, **options)

    monkeypatch.setattr(os, "open", swapping_open)
    found = scanned(folder)
    assert paths(found) == ["z"]
    assert found.vanished == ["a/b"]


def test_what_is_not_a_regular_file_is_left_out_with_its_kind(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, "a")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(tmp_path)  # the path of a socket must be short
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        found = scanned(folder)
    assert paths(found) == ["a"]
    assert {entry.path: (entry.code, entry.message) for entry in found.left_out} == {
        "pipe": ("not_regular", "a FIFO, not a regular file"),
        "sock": ("not_regular", "a socket, not a regular file"),
    }
    assert not any(entry.refused for entry in found.left_out)


def test_litter_is_listed_and_a_litter_folder_is_one_entry(tmp_path: Path) -> None:
    folder = make_tree(
        tmp_path, "a", "sub/._a", "THUMBS.DB", "@eaDir/x", "@eaDir/y", "sub/.snapshot/deep/z"
    )
    found = scanned(folder)
    assert paths(found) == ["a"]
    assert {entry.path: entry.code for entry in found.left_out} == dict.fromkeys(
        ["sub/._a", "THUMBS.DB", "@eaDir", "sub/.snapshot"], "litter"
    )


def test_a_temporary_name_is_held_back_as_a_file_and_as_a_folder(tmp_path: Path) -> None:
    folder = make_tree(
        tmp_path, "a", "x.PART", ".raw.Xy12Ab", "sub/~$plan", "b.tmp/in", ".rsync-partial/c"
    )
    found = scanned(folder)
    assert paths(found) == ["a"]
    assert sorted(found.temporary) == sorted(
        ["x.PART", ".raw.Xy12Ab", "sub/~$plan", "b.tmp", ".rsync-partial"]
    )
    assert not found.left_out


def test_real_names_that_look_temporary_are_files(tmp_path: Path) -> None:
    names = ["format.temp", "DA.M/x.bak", "TEMPBASE", "TEMPDIR1/a", ".canary", "a_preview_.jpg"]
    assert paths(scanned(make_tree(tmp_path, *names))) == sorted(names)


def test_a_marker_is_a_file_at_the_top_whatever_its_name_looks_like(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, "a", "Run.Done.tmp", "sub/run.done.tmp")
    found = scanned(folder, marker="run.done*")
    assert found.last == ["Run.Done.tmp"]
    assert paths(found) == ["Run.Done.tmp", "a"]
    assert found.temporary == ["sub/run.done.tmp"]


def test_a_name_that_no_key_can_hold_is_refused_under_a_stand_in(tmp_path: Path) -> None:
    long_name = b"\xff" * 100  # 300 bytes when encoded
    folder = make_tree(tmp_path, b"a", b"sub/" + long_name)
    (entry,) = scanned(folder).left_out
    assert (entry.refused, entry.code) == (True, "bad_name")
    assert "%FF%FF" in entry.message
    check_path(entry.path)
    Layout("prefix").reason(RUN.file(entry.path))
    assert entry.path == scanned(folder).left_out[0].path


def test_paths_too_long_for_a_key_are_refused_one_by_one_each_under_its_own_name(
    tmp_path: Path,
) -> None:
    layout = Layout("prefix")
    room = 1024 - len(layout.raw_prefix(RUN))
    deep = "/".join(["d" * 200] * 5)[: room - 2]
    folder = make_tree(tmp_path, f"{deep}/one", f"{deep}/two", f"{deep}/3", "a")
    found = scanned(folder, layout)
    assert paths(found) == ["a", f"{deep}/3"]
    assert len({entry.path for entry in found.left_out}) == 2
    assert all(entry.refused for entry in found.left_out)


def test_a_folder_too_long_for_a_key_is_refused_with_all_that_is_in_it(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, b"\xff" * 100 + b"/file", b"a")
    found = scanned(folder)
    (entry,) = found.left_out
    assert entry.refused
    assert entry.fingerprint.size == 0
    assert paths(found) == ["a"]


def test_long_names_that_fit_are_files(tmp_path: Path) -> None:
    names = ["ä" * 127, "n" * 255, "/".join(["s" * 200] * 4)]
    assert paths(scanned(make_tree(tmp_path, *names))) == sorted(names)


def test_an_unreadable_folder_is_an_error_of_that_path_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_tree(tmp_path, "a", "closed/b", "open/c")
    FailingOpens(monkeypatch).fail(b"closed", errno.EACCES)
    found = scanned(folder)
    assert paths(found) == ["a", "open/c"]
    assert found.unreadable == [Unreadable(path="closed", errno_name="EACCES")]
    assert not found.vanished


def test_an_unreadable_run_folder_is_an_error_without_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_tree(tmp_path, "a")
    FailingOpens(monkeypatch).fail(folder, errno.EHOSTDOWN)
    assert scanned(folder).unreadable == [Unreadable(path="", errno_name="EHOSTDOWN")]


def test_a_stale_handle_is_walked_to_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_tree(tmp_path, "a/b/c", "a/d")
    FailingOpens(monkeypatch).fail(b"b", errno.ESTALE, times=1)
    found = scanned(folder)
    assert paths(found) == ["a/b/c", "a/d"]
    assert not found.unreadable


def test_a_handle_that_stays_stale_is_an_error_of_that_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_tree(tmp_path, "a/b/c", "a/d")
    FailingOpens(monkeypatch).fail(b"b", errno.ESTALE)
    found = scanned(folder)
    assert paths(found) == ["a/d"]
    assert found.unreadable == [Unreadable(path="a/b", errno_name="ESTALE")]


def test_a_file_that_vanishes_between_listing_and_look_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_tree(tmp_path, "a", "sub/gone", "sub/stays")
    after_listing(monkeypatch, {"gone": (tmp_path / "sub/gone").unlink})
    found = scanned(folder)
    assert paths(found) == ["a", "sub/stays"]
    assert found.vanished == ["sub/gone"]
    assert not found.unreadable


def test_a_run_folder_that_is_gone_is_a_listing_that_is_not_whole(tmp_path: Path) -> None:
    found = scanned(os.fsencode(tmp_path / "nowhere"))
    assert found.vanished == [""]
    assert not found.files


def test_a_scan_closes_what_it_opened(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, *(f"{n}/{n}/x{n}" for n in range(1500)))
    scanned(folder)
    assert open_below(folder) == 0
    halfway = scan(folder, RUN, load_profile("generic", {}), Layout())
    next(halfway)
    assert open_below(folder) > 0
    assert isinstance(halfway, Generator)
    halfway.close()
    assert open_below(folder) == 0


def test_a_tree_as_deep_as_a_key_is_long_is_scanned(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, "d/" * 300 + "file")
    assert paths(scanned(folder)) == ["d/" * 300 + "file"]

"""Is the share there, and which runs are on it?"""

import errno
import os
from pathlib import Path

import pytest

from labferry.errors import ShareUnavailable
from labferry.identity import RunKey
from labferry.profiles import load_profile
from labferry.source.share import Share, list_share, run_path
from tests.trees import make_tree


def listed(root: Path, *, had_runs: bool = False, **fields: object) -> Share:
    return list_share(root, "inst", load_profile("generic", fields), lambda: had_runs)


def names(share: Share) -> list[str]:
    return [folder.run.run for folder in share.runs]


def test_each_folder_directly_under_the_root_is_a_run(tmp_path: Path) -> None:
    make_tree(tmp_path, "b/x/y", "a/z", "loose.txt")
    share = listed(tmp_path)
    assert [folder.run for folder in share.runs] == [RunKey("inst", "a"), RunKey("inst", "b")]
    assert share.runs[0].path == os.fsencode(tmp_path / "a")
    assert share.others_count == 1


def test_a_run_name_is_encoded_and_its_path_is_not(tmp_path: Path) -> None:
    make_tree(tmp_path, b"r\xff1/a")
    (folder,) = listed(tmp_path).runs
    assert folder.run.run == "r%FF1"
    assert folder.path == os.fsencode(tmp_path) + b"/r\xff1"


def test_only_folders_that_the_profile_calls_runs_are_runs(tmp_path: Path) -> None:
    make_tree(tmp_path, "2026_a/x", "notes/y", "@eaDir/z")
    share = listed(tmp_path, runs=["2026*"])
    assert names(share) == ["2026_a"]
    assert share.others_count == 2


def test_a_folder_with_a_temporary_name_is_no_run_yet(tmp_path: Path) -> None:
    make_tree(tmp_path, "run1/x", "run2.part/x")
    share = listed(tmp_path)
    assert names(share) == ["run1"]
    assert share.temporary == ("run2.part",)


def test_runs_lie_as_deep_as_the_profile_says(tmp_path: Path) -> None:
    make_tree(tmp_path, "exp/s1/2024_a/x", "exp/s1/notes/x", "exp/2024_b/x", "2024_c/x", "exp/f")
    share = listed(tmp_path, runs=["*/*/2024_*", "*/2024_*"])
    assert names(share) == ["exp%2F2024_b", "exp%2Fs1%2F2024_a"]
    assert [folder.path for folder in share.runs] == [
        os.fsencode(tmp_path / "exp/2024_b"),
        os.fsencode(tmp_path / "exp/s1/2024_a"),
    ]
    assert share.runs[1].path == run_path(tmp_path, share.runs[1].run)


def test_a_folder_on_the_way_that_cannot_be_listed_hides_its_own_runs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path, "a/run1/x", "b/run2/x")
    listed_before = os.scandir

    def refuse(folder: bytes) -> object:
        if folder == os.fsencode(tmp_path / "a"):
            raise PermissionError(errno.EACCES, "refused")
        return listed_before(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    share = listed(tmp_path, runs=["*/*"])
    assert names(share) == ["b%2Frun2"]
    assert share.unreadable == ("a: EACCES",)


def test_neither_litter_nor_temporary_folders_nor_links_lead_to_runs(tmp_path: Path) -> None:
    make_tree(tmp_path, "a/run1/x", "@eaDir/run2/x", "b.part/run3/x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    share = listed(tmp_path, runs=["*/*"])
    assert names(share) == ["a%2Frun1"]
    assert share.temporary == ("b.part",)


def test_a_link_to_a_folder_is_no_run(tmp_path: Path) -> None:
    make_tree(tmp_path / "root", "run1/x")
    (tmp_path / "root/run2").symlink_to(tmp_path)
    assert names(listed(tmp_path / "root")) == ["run1"]


def test_a_run_name_that_no_key_can_hold_is_told(tmp_path: Path) -> None:
    make_tree(tmp_path, b"\xff" * 100 + b"/x", "run1/x")
    share = listed(tmp_path)
    assert names(share) == ["run1"]
    assert len(share.unusable) == 1


def test_an_absent_root_is_a_share_that_is_away(tmp_path: Path) -> None:
    with pytest.raises(ShareUnavailable) as raised:
        listed(tmp_path / "absent")
    assert raised.value.errno_name == "ENOENT"
    assert "Check the mount" in str(raised.value)


def test_a_root_that_is_a_file_is_a_share_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ShareUnavailable):
        listed(tmp_path / "file")


@pytest.mark.parametrize("left", [(), ("NOT_MOUNTED",), ("@eaDir/x",), ("run2.part/x",)])
def test_a_root_without_runs_where_there_were_some_is_a_share_that_is_away(
    tmp_path: Path, left: tuple[str, ...]
) -> None:
    make_tree(tmp_path, *left)
    with pytest.raises(ShareUnavailable):
        listed(tmp_path, had_runs=True)
    assert listed(tmp_path, had_runs=False).runs == ()


def test_a_root_that_is_as_it_was_passes_the_check(tmp_path: Path) -> None:
    make_tree(tmp_path, "a/x", "b/x")
    share = listed(tmp_path)
    (tmp_path / "a").rename(tmp_path / "c")
    share.check()


def test_a_root_replaced_by_another_fails_the_check(tmp_path: Path) -> None:
    make_tree(tmp_path / "root", "a/x")
    share = listed(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "away")
    with pytest.raises(ShareUnavailable):
        share.check()
    make_tree(tmp_path / "root", "a/x")
    with pytest.raises(ShareUnavailable):
        share.check()


def test_a_root_that_came_back_empty_fails_the_check(tmp_path: Path) -> None:
    make_tree(tmp_path, "a/x")
    share = listed(tmp_path)
    (tmp_path / "a").rename(tmp_path.parent / "away")
    with pytest.raises(ShareUnavailable):
        share.check()

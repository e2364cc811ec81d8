"""Is every list in a folder found, and is a folder listed no more often than it must be?"""

import os
from pathlib import Path

import pytest

from labferry.profiles.fields import Sidecars
from tests.manual_clock import ManualClock
from workers import list_finder
from workers.list_finder import GRAIN_S, Finder, FolderLists, ListRules

RULES = ListRules([Sidecars(file="*.md5"), Sidecars(file="sums/*SUMS"), Sidecars(file="*SUMS")])
ENOUGH_S = GRAIN_S + 1


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The folders that were listed."""
    seen: list[bytes] = []
    real = list_finder._list

    def counting(where: bytes, is_list: object) -> FolderLists:
        seen.append(where)
        return real(where, is_list)  # type: ignore[arg-type]

    monkeypatch.setattr(list_finder, "_list", counting)
    return seen


class World:
    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock()
        self.finder = Finder(self.clock.mono_s)

    def look(self, folder: str = "") -> FolderLists:
        return self.finder.lists(os.fsencode(self.folder), folder, RULES)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_list_stands_beside_its_file_or_names_its_own(world: World) -> None:
    for name in ("a.bam", "a.bam.md5", "A.BAM.MD5", "a.bam.md5.md5", "gone.md5", "MD5SUMS"):
        (world.folder / name).touch()
    found = world.look()
    assert sorted(found.of("a.bam")) == ["a.bam.md5"]
    assert sorted(found.of("a.bam.md5")) == ["a.bam.md5.md5"]
    assert list(found.of("b.bam")) == []
    assert found.naming == ["A.BAM.MD5", "MD5SUMS", "gone.md5"]
    assert len(found) == 5


def test_endings_of_any_capitals_are_kept(world: World) -> None:
    for name in ("a", "a.md5", "a.MD5", "a.Md5"):
        (world.folder / name).touch()
    assert sorted(world.look().of("a")) == ["a.MD5", "a.Md5", "a.md5"]


def test_a_folder_at_rest_is_listed_no_more(world: World, listed: list[bytes]) -> None:
    (world.folder / "MD5SUMS").touch()
    for _ in range(3):
        world.look()
    assert len(listed) == 3  # its stamp is not trusted yet
    world.clock.now_s += ENOUGH_S
    for _ in range(5):
        assert world.look().naming == ["MD5SUMS"]
        world.clock.now_s += 1
    assert len(listed) == 4


def test_a_list_that_comes_later_is_found(world: World, listed: list[bytes]) -> None:
    for _ in range(2):
        world.look()
        world.clock.now_s += ENOUGH_S
    (world.folder / "MD5SUMS").touch()
    assert world.look().naming == ["MD5SUMS"]


def test_a_list_that_comes_within_the_grain_of_the_folders_stamp_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = world.folder.stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: frozen)
    assert world.look().naming == []
    (world.folder / "MD5SUMS").touch()
    world.clock.now_s += 1
    assert world.look().naming == ["MD5SUMS"]
    world.clock.now_s += ENOUGH_S
    assert world.look().naming == ["MD5SUMS"]


def test_a_folder_that_is_gone_is_an_error(world: World) -> None:
    with pytest.raises(FileNotFoundError):
        world.look("nothing")


def test_a_rule_with_folders_is_of_such_a_path_alone(tmp_path: Path) -> None:
    rules = ListRules([Sidecars(file="Analysis/*/Manifest.tsv", form="illumina_manifest")])
    assert list(rules.of("Analysis/2/", "MANIFEST.TSV"))
    assert not list(rules.of("Other/2/", "Manifest.tsv"))
    assert not list(rules.of("", "Manifest.tsv"))


def test_what_is_remembered_is_bounded(tmp_path: Path, listed: list[bytes]) -> None:
    clock = ManualClock()
    finder = Finder(clock.mono_s, most_lists=250)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()

    def look(*names: str) -> None:
        for name in names:
            finder.lists(os.fsencode(tmp_path), name, RULES)

    look("a", "b", "c")
    clock.now_s += ENOUGH_S
    look("b", "c")
    before = len(listed)
    look("b", "c")
    assert len(listed) == before
    look("a")
    assert len(listed) == before + 1

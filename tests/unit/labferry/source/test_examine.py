"""What does a profile say of a folder, without ledger and store?"""

from pathlib import Path

import pytest

from labferry.profiles import load_profile
from labferry.source.done import Holds
from labferry.source.examine import PAUSE_S, Examination, detect, examine, run_folders
from tests.manual_clock import ManualClock
from tests.trees import make_tree


def examined(folder: Path, name: str = "generic", **fields: object) -> list[Examination]:
    return examine(folder, load_profile(name, fields), ManualClock())


def test_what_only_time_can_tell_is_assumed_and_said_to_be(tmp_path: Path) -> None:
    make_tree(tmp_path, "a")
    (one,) = examined(tmp_path, quiet_s=600)
    by_name = {part.name: part for part in one.parts}
    assert by_name["quiet"].holds is Holds.ASSUMED
    assert "the agent waits 600 s" in by_name["quiet"].looked_at
    assert one.done


class Growing(ManualClock):
    """Time in which a file grows."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def sleep_s(self, seconds: float) -> None:
        super().sleep_s(seconds)
        self._file.write_bytes(self._file.read_bytes() + b"x")


def test_a_file_that_grows_between_two_looks_is_seen(tmp_path: Path) -> None:
    make_tree(tmp_path, "a", "b")
    clock = Growing(tmp_path / "b")
    (one,) = examine(tmp_path, load_profile("generic", {}), clock)
    assert clock.waits == [PAUSE_S]
    assert {part.name for part in one.parts if part.holds is Holds.FAIL} == {"settled", "quiet"}
    assert not one.done


def test_what_is_left_out_held_back_and_last_is_listed(tmp_path: Path) -> None:
    make_tree(tmp_path, "a", "b.tmp", ".DS_Store", "@eaDir/x", "Done.txt")
    (one,) = examined(tmp_path, marker="done.txt")
    assert one.temporary.first == ["b.tmp"]
    assert {name.split(":")[0] for name in one.left_out.first} == {".DS_Store", "@eaDir"}
    assert one.last == ("Done.txt",)
    assert not one.done


def test_what_no_list_of_the_instrument_names_is_told_and_holds_nothing_back(
    tmp_path: Path,
) -> None:
    make_tree(tmp_path, "RunInfo.xml", "CopyComplete.txt", "Analysis/2/a", "Analysis/2/b", "c")
    (tmp_path / "Analysis/2/Manifest.tsv").write_text("a\t00000000\n")
    (one,) = examined(tmp_path, "illumina-novaseqx-nextseq2000", sidecars=[])
    assert one.unlisted.first == ["Analysis/2/b"]
    assert one.done


def test_a_folder_above_runs_stands_for_all_of_them(tmp_path: Path) -> None:
    make_tree(tmp_path, "inst/r1_2_3/1_A01/x", "inst/r1_2_3/1_B01/x", "inst/r1_2_3/notes/x")
    profile = load_profile("pacbio-revio-vega", {})
    cells = [tmp_path / "inst/r1_2_3" / name for name in ("1_A01", "1_B01")]
    assert run_folders(tmp_path / "inst/r1_2_3", profile) == cells
    assert run_folders(tmp_path / "inst", profile) == cells
    assert run_folders(cells[0], profile) == cells[:1]


def test_a_folder_that_no_pattern_calls_a_run_is_examined_and_that_is_said(tmp_path: Path) -> None:
    make_tree(tmp_path, "copy of a run/RunInfo.xml")
    (one,) = examined(tmp_path / "copy of a run", "illumina-novaseq")
    assert not one.is_named
    assert one.files == 1


def test_detection_looks_below_a_folder_that_has_no_clues_itself(tmp_path: Path) -> None:
    make_tree(tmp_path, "r1_2_3/1_A01/metadata/x")
    profiles = [load_profile(name, {}) for name in ("pacbio-revio-vega", "ms-thermo")]
    run, found = detect(tmp_path / "r1_2_3", profiles)
    assert (run.name, [fit.profile for fit in found]) == ("1_A01", ["pacbio-revio-vega"])


@pytest.mark.parametrize("name", ["generic", "ont-minknow"])
def test_an_empty_folder_is_not_done(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    assert not any(one.done for one in examined(tmp_path / "run", name))

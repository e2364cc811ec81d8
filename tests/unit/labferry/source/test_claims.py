"""Are the things there that a profile asks for, and those that the instrument's lists claim?"""

import errno
import os
from pathlib import Path

import pytest

from labferry.identity import Layout
from labferry.profiles import Profile, load_profile
from labferry.source.claims import claim_parts
from labferry.source.done import Holds, Part, is_done, listed_parts
from labferry.source.scan import scan
from labferry.source.tally import EXAMPLES, Tally
from tests.trees import RUN, FailingOpens

SUMMARY = "final_summary_PAE1_0a1b2c3d.txt"
TSV = "Analysis/2/Manifest.tsv"


def write(folder: Path, **contents: str | bytes) -> None:
    for path, content in contents.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def parts(folder: Path, profile: Profile) -> list[Part]:
    tally = Tally(profile)
    for batch in scan(os.fsencode(folder), RUN, profile, Layout()):
        tally.add(batch)
    listing = tally.listing(0)
    return [
        *listed_parts(profile, listing),
        *claim_parts(os.fsencode(folder), profile, listing),
    ]


def part(folder: Path, name: str, profile: Profile) -> Part:
    (found,) = [one for one in parts(folder, profile) if one.name == name]
    return found


# -- required members (cases 8, 22, 49)


@pytest.mark.parametrize(
    ("names", "holds"),
    [
        (("analysis.tdf", "analysis.tdf_bin"), Holds.PASS),
        (("ANALYSIS.TDF", "Analysis.tdf_bin"), Holds.PASS),
        (("analysis.baf",), Holds.PASS),
        (("analysis.tdf",), Holds.FAIL),
        (("analysis.tdf", "analysis.tsf_bin"), Holds.FAIL),
        (("sub/analysis.baf",), Holds.FAIL),
    ],
)
def test_a_folder_without_its_main_data_file_is_not_done(
    tmp_path: Path, names: tuple[str, ...], holds: Holds
) -> None:
    write(tmp_path, **dict.fromkeys(names, "x"))
    assert part(tmp_path, "required", load_profile("ms-bruker-tims", {})).holds is holds


def test_what_is_missing_of_the_fullest_set_is_named(tmp_path: Path) -> None:
    write(tmp_path, acqus="x")
    found = part(tmp_path, "required", load_profile("nmr-topspin", {}))
    assert "missing: fid" in found.looked_at


# -- companions, sizes, content


def test_a_file_without_its_companion_holds_the_run_back_and_is_named(tmp_path: Path) -> None:
    write(tmp_path, **{"EpuSession.dm": "", "a/1.jpg": "", "a/1.XML": "", "b/2.jpg": ""})
    found = part(tmp_path, "companions", load_profile("cryoem-epu", {}))
    assert found.holds is Holds.FAIL
    assert "1, such as b/2.xml" in found.looked_at


def test_companions_are_of_one_folder(tmp_path: Path) -> None:
    write(tmp_path, **{"a/1.jpg": "", "b/1.xml": ""})
    assert part(tmp_path, "companions", load_profile("cryoem-epu", {})).holds is Holds.FAIL


def test_many_files_without_companions_are_counted_and_some_named(tmp_path: Path) -> None:
    names = [f"{n % 3}/{n}.jpg" for n in range(40)]
    write(tmp_path, **dict.fromkeys(names, ""))
    found = part(tmp_path, "companions", load_profile("cryoem-epu", {}))
    assert found.looked_at.startswith("files without their companion: 40,")
    assert EXAMPLES < 40


@pytest.mark.parametrize(("scan_bytes", "holds"), [(44, Holds.FAIL), (45, Holds.PASS)])
def test_a_stub_of_the_data_file_is_not_the_data(
    tmp_path: Path, scan_bytes: int, holds: Holds
) -> None:
    write(tmp_path, **{"a.wiff": b"x", "a.wiff.scan": b"x" * scan_bytes})
    assert part(tmp_path, "least_size", load_profile("ms-sciex", {})).holds is holds
    assert part(tmp_path, "companions", load_profile("ms-sciex", {})).holds is Holds.PASS


def test_an_empty_raw_file_is_still_open(tmp_path: Path) -> None:
    write(tmp_path, **{"a.RAW": ""})
    assert part(tmp_path, "least_size", load_profile("ms-thermo", {})).holds is Holds.FAIL


def test_a_run_that_was_only_set_up_has_no_content(tmp_path: Path) -> None:
    write(tmp_path, **{"sample_sheet_x.csv": "x", "run_path.txt": "x"})
    assert part(tmp_path, "min_files", load_profile("ont-minknow", {})).holds is Holds.FAIL


def test_a_connection_test_is_no_content(tmp_path: Path) -> None:
    write(tmp_path, **{"Transfer_Test_1.txt": "x"})
    assert part(tmp_path, "min_files", load_profile("pacbio-revio-vega", {})).holds is Holds.FAIL


# -- counts (case 2)


def summary(**fields: object) -> str:
    lines = [f"{name}={value}" for name, value in fields.items()]
    return "\r\n".join(["instrument=x", *lines, "started="])


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"pod5_files_in_final_dest": 3, "pod5_files_in_fallback": 0}, Holds.PASS),
        ({"pod5_files_in_final_dest": 2}, Holds.PASS),
        ({"pod5_files_in_final_dest": 4}, Holds.FAIL),
        ({"pod5_files_in_final_dest": 3, "pod5_files_in_fallback": 1}, Holds.FAIL),
        ({"pod5_files_in_final_dest": 3, "fastq_files_in_final_dest": 1}, Holds.FAIL),
        ({"pod5_files_in_final_dest": 3, "bam_files_in_final_dest": 0}, Holds.PASS),
        ({}, Holds.NOT_POSSIBLE),
        ({"pod5_files_in_final_dest": ""}, Holds.NOT_POSSIBLE),
    ],
)
def test_the_counts_of_a_final_summary_must_be_there(
    tmp_path: Path, fields: dict[str, object], holds: Holds
) -> None:
    pods = {f"pod5_pass/{n}.POD5": "x" for n in range(3)}
    write(tmp_path, **pods, **{SUMMARY: summary(**fields)})
    found = part(tmp_path, "counts", load_profile("ont-minknow", {}))
    assert found.holds is holds
    assert found.looked_at


# -- manifests (cases 5, 15)


def novaseqx() -> Profile:
    return load_profile("illumina-novaseqx-nextseq2000", {})


def test_every_file_that_a_manifest_names_must_be_there(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{"Analysis/2/Data/a": "x", "Analysis/10/b": "x"},
        **{TSV: "Data/a\t00000000\n", "Analysis/10/MANIFEST.TSV": "b\t00000000\nc d\t00000000\n"},
    )
    found = [one for one in parts(tmp_path, novaseqx()) if one.name == "manifest"]
    assert [(one.looked_at.split(" ")[0], one.holds) for one in found] == [
        (TSV, Holds.PASS),
        ("Analysis/10/MANIFEST.TSV", Holds.FAIL),
    ]
    assert any("1 are missing, such as c d" in one.looked_at for one in found)


def test_a_run_without_a_manifest_can_be_done_and_it_is_said(tmp_path: Path) -> None:
    write(tmp_path, **{"CopyComplete.txt": "", "RunInfo.xml": "x", "Analysis/1/a": "x"})
    found = part(tmp_path, "manifest", novaseqx())
    assert (found.holds, found.needed) == (Holds.NOT_POSSIBLE, False)
    assert "no Analysis/*/Manifest.tsv" in found.looked_at
    assert is_done(parts(tmp_path, novaseqx()))


def test_a_profile_can_demand_the_manifest(tmp_path: Path) -> None:
    write(tmp_path, **{"metadata/m1.transferdone.txt": "", "a": "x"})
    found = part(tmp_path, "manifest", load_profile("pacbio-revio-vega", {}))
    assert (found.holds, found.needed) == (Holds.NOT_POSSIBLE, True)


@pytest.mark.parametrize("content", ["", "\r\n", "nothing to read\n"])
def test_a_list_from_which_nothing_could_be_read_never_passes(tmp_path: Path, content: str) -> None:
    write(tmp_path, **{TSV: content, "CopyComplete.txt": "", "RunInfo.xml": "x"})
    assert part(tmp_path, "manifest", novaseqx()).holds is Holds.FAIL
    assert not is_done(parts(tmp_path, novaseqx()))


def test_one_line_that_cannot_be_read_is_enough(tmp_path: Path) -> None:
    write(tmp_path, **{TSV: "a\t00000000\n../b\t00000000\n", "Analysis/2/a": "x"})
    found = part(tmp_path, "manifest", novaseqx())
    assert found.holds is Holds.FAIL
    assert "line 2: it leads out of its folder" in found.looked_at


def test_a_link_or_folder_does_not_stand_for_a_listed_file(tmp_path: Path) -> None:
    write(tmp_path, **{TSV: "a\t00000000\nb\t00000000\n", "real": "x", "Analysis/2/b/x": ""})
    (tmp_path / "Analysis/2/a").symlink_to(tmp_path / "real")
    assert "2 are missing" in part(tmp_path, "manifest", novaseqx()).looked_at


def test_a_manifest_that_cannot_be_read_holds_the_run_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, **{TSV: "a\t00000000\n", "Analysis/2/a": "x"})
    FailingOpens(monkeypatch).fail(b"Manifest.tsv", errno.EIO)
    found = part(tmp_path, "manifest", novaseqx())
    assert (found.holds, found.needed) == (Holds.NOT_POSSIBLE, True)
    assert "EIO" in found.looked_at


def transferdone(count: int, *paths: str) -> str:
    lines = [f"/data/icc/m1_s1/{path}" for path in paths]
    return "\n".join([f"Transfer Manifest nfiles: {count}", *lines, "scheme"]) + "\n"


@pytest.mark.parametrize(
    ("content", "holds"),
    [
        (transferdone(2, "hifi_reads/a.bam", "metadata/b.xml"), Holds.PASS),
        (transferdone(3, "hifi_reads/a.bam", "metadata/b.xml"), Holds.FAIL),
        (transferdone(2, "hifi_reads/a.bam", "metadata/c.xml"), Holds.FAIL),
        ("", Holds.FAIL),
    ],
)
def test_a_cell_is_whole_when_all_that_its_transfer_list_names_is_there(
    tmp_path: Path, content: str, holds: Holds
) -> None:
    write(
        tmp_path,
        **{"hifi_reads/a.bam": "", "metadata/b.xml": "", "metadata/m1_s1.transferdone": content},
    )
    assert part(tmp_path, "manifest", load_profile("pacbio-revio-vega", {})).holds is holds


def test_a_hash_list_of_minknow_names_files_below_the_run(tmp_path: Path) -> None:
    digest = "0" * 64
    content = f"file_hash,file_path\n{digest},pod5/a.pod5\n{digest},pod5/b.pod5\n"
    write(tmp_path, **{"pod5/a.pod5": "x", "output_hash_x.csv": content})
    found = part(tmp_path, "manifest", load_profile("ont-minknow", {}))
    assert found.holds is Holds.FAIL
    assert "such as pod5/b.pod5" in found.looked_at


def mdoc(*frames: str) -> str:
    return "".join(f"SubFramePath = D:\\camera\\{frame}\r\n" for frame in frames)


def test_the_frames_that_a_microscope_lists_are_looked_for_anywhere_in_the_session(
    tmp_path: Path,
) -> None:
    serialem = load_profile("cryoem-serialem", {})
    write(tmp_path, **{"a.mrc.mdoc": mdoc("a1.tif", "a2.tif"), "grid/b.MDOC": mdoc("b1.tif")})
    write(tmp_path, **{"frames/A1.TIF": "x", "frames/b/b1.tif": "x"})
    found = part(tmp_path, "manifest", serialem)
    assert found.holds is Holds.FAIL
    assert "2 lists such as a.mrc.mdoc name 3 files; 1 are missing, such as a2.tif" in (
        found.looked_at
    )
    write(tmp_path, **{"a2.tif": "x"})
    assert part(tmp_path, "manifest", serialem).holds is Holds.PASS


def test_a_list_of_a_single_picture_names_no_frames_and_holds_nothing_back(tmp_path: Path) -> None:
    write(tmp_path, **{"a.mrc": "x", "a.mrc.mdoc": "PixelSpacing = 1.1\n"})
    found = part(tmp_path, "manifest", load_profile("cryoem-serialem", {}))
    assert (found.holds, found.needed) == (Holds.NOT_POSSIBLE, False)


def test_a_list_of_frames_that_cannot_be_read_holds_the_session_back(tmp_path: Path) -> None:
    write(tmp_path, **{"a.tif": "x", "a.tif.mdoc": "SubFramePath = D:\\camera\\..\n"})
    found = part(tmp_path, "manifest", load_profile("cryoem-serialem", {}))
    assert found.holds is Holds.FAIL
    assert "a.tif.mdoc, line 1" in found.looked_at


# -- markers (cases 3, 4)


def test_the_marker_of_another_model_does_not_end_a_run_but_is_told(tmp_path: Path) -> None:
    write(tmp_path, **{"RTAComplete.txt": "", "RunInfo.xml": "x"})
    found = part(tmp_path, "marker", load_profile("illumina-novaseq", {}))
    assert found.holds is Holds.FAIL
    assert "there is RTAComplete.txt" in found.looked_at


@pytest.mark.parametrize("name", ["RTAComplete.txt", "RTAComplete.xml", "rtacomplete.TXT"])
def test_old_and_new_control_software_end_a_run_alike(tmp_path: Path, name: str) -> None:
    write(tmp_path, **{name: "", "RunInfo.xml": "x"})
    assert part(tmp_path, "marker", load_profile("illumina-nextseq500", {})).holds is Holds.PASS


def test_the_marks_of_single_reads_do_not_end_a_run(tmp_path: Path) -> None:
    write(tmp_path, **{"RTARead1Complete.txt": "", "RunInfo.xml": "x"})
    assert part(tmp_path, "marker", load_profile("illumina-nextseq500", {})).holds is Holds.FAIL

"""Is each genuine folder of ../shared/data what its README says, by its own profile?

The folders are used where they lie beside the project; a test of each rule on folders of its own is
in tests/unit/labferry/source.
"""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from labferry.completion import RunState
from labferry.errors import SidecarMismatch
from labferry.identity import RunKey
from labferry.profiles import load_profile, profile_names
from labferry.source.done import Holds
from labferry.source.examine import Examination, detect, examine
from tests.bench import Bench, lacking
from tests.manual_clock import ManualClock
from workers.digests import ChecksumLists, Digests

GENUINE = Path(__file__).parents[2].parent / "shared" / "data"
NEXTSEQ = "illumina-nextseq500/170609_NB551051_0017_AHLFFJBGX2"
NOVASEQX = "illumina-novaseqx/20240531_LH00130_0061_A22CC55LT4"
CBCL = "illumina-cbcl-ongoing/151T8B8B151T_cbcl"
ARCHIVE = "illumina-archive-md5/180709_A00538_0010_BH3FCMDRXX"
REVIO = "pacbio-revio/r84047_20230404_164149"
SEQUEL = "pacbio-sequel-movie/m54075_160703_015941"
ONT = "ont-promethion"
ONT_RUNS = [
    f"QABCD001AB_E12A345a01_PAE12345_{sample}/20200122_1217_1-A1-B1-PAE12345_1234567a"
    for sample in (
        "missing_entries", "missing_skip_folder", "nanopore_v4", "nanopore_valid_dorado_example"
    )
] + ["QABCD001AB_E12A345a01_PAE12345_pooled/20200605_1435_1-E3-H3_PAE42978_e57ee0a6"]  # fmt: skip
EPU_XML = "Images-Disc1/GridSquare_8999186/FoilHoles/FoilHole_9028325_20250109_063110.xml"
NMR = "nmr-bruker/UV1009_M1-1003-1002_6268712_73uEjPg4XR"

pytestmark = pytest.mark.skipif(not GENUINE.is_dir(), reason="no ../shared/data here")


def genuine_folder(name: str) -> Path:
    return GENUINE / name


def examined(name: str, profile: str, folder: Path | None = None) -> list[Examination]:
    where = folder or genuine_folder(name)
    return examine(where, load_profile(profile, {}), ManualClock())


def failing(one: Examination) -> set[str]:
    return {part.name for part in one.parts if part.holds is Holds.FAIL}


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        (NEXTSEQ, "illumina-nextseq500"),
        (NOVASEQX, "illumina-novaseqx-nextseq2000"),
        (CBCL, "illumina"),
        (ARCHIVE, "illumina-novaseq"),
        (REVIO, "pacbio-revio-vega"),
        (SEQUEL, "pacbio-sequel"),
        (ONT, "ont-minknow"),
        ("cryoem-epu/example", "cryoem-epu"),
        ("massspec-thermo", "ms-thermo"),
        ("massspec-bruker/diaPASEF.d", "ms-bruker-tims"),
        ("massspec-waters/indigo.raw", "ms-waters"),
        ("massspec-waters/white.raw", "ms-waters"),
        ("massspec-agilent/orange.D", "ms-agilent"),
        ("flow-cytometry/Plate01", "flow-fcs"),
        (NMR, "nmr-topspin"),
        ("microscopy-czi", "microscopy-czi"),
    ],
)
def test_the_profile_of_a_genuine_folder_is_detected(name: str, profile: str) -> None:
    profiles = [load_profile(one, {}) for one in profile_names()]
    _, found = detect(genuine_folder(name), profiles)
    assert found[0].profile == profile


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        (NEXTSEQ, "illumina-nextseq500"),
        ("massspec-thermo", "ms-thermo"),
        ("massspec-bruker/diaPASEF.d", "ms-bruker-tims"),
        ("massspec-waters/indigo.raw", "ms-waters"),
        ("massspec-waters/white.raw", "ms-waters"),
        ("massspec-agilent/orange.D", "ms-agilent"),
        ("flow-cytometry/Plate01", "flow-fcs"),
        ("microscopy-czi", "microscopy-czi"),
    ],
)
def test_a_folder_with_its_signal_is_done_once_it_is_at_rest(name: str, profile: str) -> None:
    (one,) = examined(name, profile)
    assert one.done, one.parts


@pytest.mark.parametrize(
    ("name", "profile", "because"),
    [
        (NOVASEQX, "illumina-novaseqx-nextseq2000", {"marker", "manifest", "sidecars"}),
        (CBCL, "illumina-novaseq", {"marker", "required"}),
        (ARCHIVE, "illumina-novaseq", {"marker"}),
        (SEQUEL, "pacbio-sequel", {"marker"}),
        ("cryoem-epu/example", "cryoem-epu", {"companions"}),
    ],
)
def test_a_folder_without_its_signal_is_not_done(
    name: str, profile: str, because: set[str]
) -> None:
    (one,) = examined(name, profile)
    assert not one.done
    assert failing(one) == because


@pytest.mark.parametrize(
    ("name", "profile", "marker", "done"),
    [
        (ARCHIVE, "illumina-novaseq", "CopyComplete.txt", True),
        (SEQUEL, "pacbio-sequel", "m54075_160703_015941.transferdone", True),
        # Its manifest names 337 files that are not there.
        (NOVASEQX, "illumina-novaseqx-nextseq2000", "CopyComplete.txt", False),
    ],
)
def test_the_signal_ends_what_is_whole(
    tmp_path: Path, name: str, profile: str, marker: str, done: bool
) -> None:
    run = tmp_path / name.rpartition("/")[2]
    shutil.copytree(genuine_folder(name), run)
    (run / marker).touch()
    (one,) = examined(name, profile, run)
    assert one.done is done, one.parts


def test_the_manifest_of_a_genuine_analysis_is_read_whole() -> None:
    (one,) = examined(NOVASEQX, "illumina-novaseqx-nextseq2000")
    (part,) = [part for part in one.parts if part.name == "manifest"]
    assert "lists 645 files; 337 are missing" in part.looked_at


def test_each_cell_of_a_genuine_revio_run_ends_on_its_own() -> None:
    cells = {one.path.rpartition("/")[2]: one for one in examined(REVIO, "pacbio-revio-vega")}
    assert {name: one.done for name, one in cells.items()} == {
        "1_A01": False,
        "1_B01": True,
        "1_C01": True,
    }
    assert sorted(cells["1_B01"].unlisted.first) == [
        "m84047_230404_172053_s2.primary_qc.tar.xz",
        "statistics/m84047_230404_172053_s2.reports.zip",
    ]
    (part,) = [part for part in cells["1_A01"].parts if part.name == "manifest"]
    assert "1 are missing, such as metadata/nvidia-smi.log" in part.looked_at


def test_no_genuine_nanopore_run_has_as_many_files_as_its_summary_states() -> None:
    runs = examined(ONT, "ont-minknow")
    assert len(runs) == 5
    assert all(failing(one) == {"counts"} for one in runs)
    assert not any(one.done for one in runs)


def test_an_experiment_that_was_never_acquired_is_not_done() -> None:
    runs = {one.path.rpartition("/")[2]: one.done for one in examined(NMR, "nmr-topspin")}
    assert runs == {"10": False, "98888": False, "20": True, "21": True, "99999": True}


@pytest.mark.parametrize(
    ("name", "profile", "agree", "differ"),
    [(ARCHIVE, "illumina-novaseq", 54, 0), (NOVASEQX, "illumina-novaseqx-nextseq2000", 4, 304)],
)
def test_genuine_lists_of_checksums_are_obeyed(
    name: str, profile: str, agree: int, differ: int
) -> None:
    run = genuine_folder(name)
    lists = ChecksumLists(os.fsencode(run), load_profile(profile, {}).sidecars)
    found: Counter[bool] = Counter()
    for file in run.rglob("*"):
        if file.is_file() and (expected := lists.expected(str(file.relative_to(run)))):
            digests = Digests(str(file), expected)
            digests.add(memoryview(file.read_bytes()), 0)
            try:
                digests.check()
            except SidecarMismatch:
                found[False] += 1
            else:
                found[True] += 1
    lists.close()
    assert (found[True], found[False]) == (agree, differ)


#: Each run of each folder, as its README has it: its profile, and what the run lacks.
RUNS = [
    (NEXTSEQ, "illumina-nextseq500", ""),
    (NOVASEQX, "illumina-novaseqx-nextseq2000", "marker"),
    (CBCL, "illumina", "marker required"),
    (ARCHIVE, "illumina-novaseq", "marker"),
    (f"{REVIO}/1_A01", "pacbio-revio-vega", "manifest"),
    (f"{REVIO}/1_B01", "pacbio-revio-vega", ""),
    (f"{REVIO}/1_C01", "pacbio-revio-vega", ""),
    (SEQUEL, "pacbio-sequel", "marker"),
    *((f"{ONT}/{run}", "ont-minknow", "counts") for run in ONT_RUNS),
    ("cryoem-epu/example", "cryoem-epu", "companions"),
    ("massspec-thermo", "ms-thermo", ""),
    ("massspec-bruker/diaPASEF.d", "ms-bruker-tims", ""),
    ("massspec-waters/indigo.raw", "ms-waters", ""),
    ("massspec-waters/white.raw", "ms-waters", ""),
    ("massspec-agilent/orange.D", "ms-agilent", ""),
    ("flow-cytometry/Plate01", "flow-fcs", ""),
    (f"{NMR}/10", "nmr-topspin", "required"),
    (f"{NMR}/20", "nmr-topspin", ""),
    (f"{NMR}/21", "nmr-topspin", ""),
    (f"{NMR}/98888", "nmr-topspin", "required"),
    (f"{NMR}/99999", "nmr-topspin", ""),
    ("microscopy-czi", "microscopy-czi", ""),
]
#: One read file, to be put into any folder: no run of its own.
NO_RUN = {"ont-fast5"}


def test_every_run_of_every_folder_is_played() -> None:
    played = {name for name, _, _ in RUNS}
    found = {
        str(file.relative_to(GENUINE))
        for folder in GENUINE.iterdir()
        if folder.is_dir() and folder.name not in {"LICENSES", *NO_RUN}
        for file in folder.rglob("*")
        if file.is_file()
    }
    left = {one for one in found if not any(one.startswith(f"{name}/") for name in played)}
    assert left == set()


def bench_of(tmp_path: Path, name: str, profile: str) -> Bench:
    """Return a bench whose root holds a genuine run as deep as the profile has it."""
    own = {"runs": ["*"]} if name == CBCL else {}  # a bare Data tree has no run's name
    is_run, names = load_profile(profile, own).run_folders.match, name.split("/")
    depth = next(depth for depth in (1, 2, 3) if is_run("/".join(names[-depth:])))
    bench = Bench(tmp_path / "root", profile, RunKey.below("inst", names[-depth:]), **own)
    bench.folder.rmdir()
    shutil.copytree(genuine_folder(name), bench.folder)
    return bench


@pytest.mark.parametrize(("name", "profile", "lacks"), RUNS)
def test_the_agent_ends_what_is_done_and_asks_about_what_never_will_be(
    tmp_path: Path, name: str, profile: str, lacks: str
) -> None:
    bench = bench_of(tmp_path, name, profile)
    bench.look()
    bench.wait(bench.profile.settle_s(2**22) + 1)
    bench.look()
    if bench.profile.quiet_s > bench.profile.settle_window_s:
        assert bench.look().state == RunState.OPEN
    bench.wait(bench.profile.quiet_s)
    report = bench.look()
    assert report.state == (RunState.OPEN if lacks else RunState.SEALED)
    assert set(lacking(report)) == set(lacks.split())
    if lacks:
        bench.wait(bench.profile.stale_s)
        assert bench.look().state == RunState.STALE
        assert len(bench.ledger.alerts()) == 1


@pytest.mark.parametrize(
    ("name", "profile", "lacking_file"),
    [
        (ARCHIVE, "illumina-novaseq", "CopyComplete.txt"),
        (SEQUEL, "pacbio-sequel", "m54075_160703_015941.transferdone"),
        (f"{REVIO}/1_A01", "pacbio-revio-vega", "metadata/nvidia-smi.log"),
        ("cryoem-epu/example", "cryoem-epu", EPU_XML),
        (f"{NMR}/10", "nmr-topspin", "fid"),
    ],
)
def test_a_run_that_was_waited_for_ends_once_what_it_lacks_has_come(
    tmp_path: Path, name: str, profile: str, lacking_file: str
) -> None:
    bench = bench_of(tmp_path, name, profile)
    bench.looks(120)
    bench.work()
    bench.write(lacking_file)
    bench.look()
    bench.wait(bench.profile.settle_window_s + 1)
    bench.look()
    bench.work()  # a list of checksums that came with the data is heard as they are read
    bench.wait(bench.profile.quiet_s)
    assert bench.look().state == RunState.SEALED, lacking(bench.look())

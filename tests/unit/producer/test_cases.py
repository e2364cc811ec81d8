"""Do the cases of the public reports end as they should? The numbers are those of the case log.

Each is played on a real folder, by the agent, with hours passing on the ledger's clock. What
concerns uploads is in tests/integration; what concerns a rule alone in tests/unit/labferry/source.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labferry.completion import RunState
from labferry.identity import RunKey, decode_path
from labferry.states import State
from producer.report import Condition
from tests.bench import Bench, lacking

ILLUMINA = RunKey("seq", "20240531_LH00130_0061_A22CC55LT4")
ONT = RunKey.below("ont", ["exp", "sample", "20240101_1200_1A_PAO12345_0a1b2c3d"])
CELL = RunKey.below("revio", ["r84047_20230404_164149", "1_A01"])
QUEUE = RunKey("ms", "queue")
SUMMARY = "final_summary_PAO12345_0a1b2c3d_00000000.txt"


@pytest.fixture
def novaseqx(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "seq", "illumina-novaseqx-nextseq2000", ILLUMINA)


@pytest.fixture
def minknow(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "ont", "ont-minknow", ONT)


@pytest.fixture
def thermo(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "ms", "ms-thermo", QUEUE)


def test_case_1_a_marker_that_overtakes_the_data_ends_nothing(novaseqx: Bench) -> None:
    novaseqx.write("CopyComplete.txt", "RunInfo.xml")
    for number in range(20):
        novaseqx.write(f"Data/{number}.cbcl")
        assert novaseqx.looks(60).state == RunState.OPEN
    novaseqx.write("Data/last.cbcl", content=b"x" * 100_000)
    waited_s = novaseqx.until_sealed()
    assert 600 <= waited_s < 700
    assert novaseqx.facts().counts[State.DISCOVERED] == 1  # the marker waits for all others
    novaseqx.complete()
    assert novaseqx.ledger.markers(ILLUMINA) == {1}


def test_case_2_a_summary_that_overtakes_the_reads_ends_nothing(minknow: Bench) -> None:
    minknow.write(SUMMARY, content=b"pod5_files_in_final_dest=60\npod5_files_in_fallback=0\n")
    for number in range(59):
        minknow.write(f"pod5/{number}.pod5")
        minknow.wait(20)
        assert minknow.look().state == RunState.OPEN
    report = minknow.looks(3600)  # all quiet, one missing
    assert set(lacking(report)) == {"counts"}
    assert "pod5_files_in_final_dest=60, there are 59" in lacking(report)["counts"]
    minknow.write("pod5/59.pod5")
    assert minknow.until_sealed() >= 900


def test_case_3_the_marker_of_another_model_ends_nothing(tmp_path: Path) -> None:
    novaseq = Bench(
        tmp_path / "seq", "illumina-novaseq", RunKey("seq", "240101_A01234_0001_AHXXXXDRXY")
    )
    novaseq.write("RunInfo.xml", "RTAComplete.txt", "Data/a.cbcl")
    report = novaseq.looks(2 * 3600)
    assert (report.state, set(lacking(report))) == (RunState.OPEN, {"marker"})


def test_case_4_that_sequencing_is_over_and_that_the_copy_is_are_two_facts(
    novaseqx: Bench,
) -> None:
    novaseqx.write("RunInfo.xml", "RTAComplete.txt", "Data/a.cbcl")
    novaseqx.looks(120)
    (told,) = novaseqx.ledger.passes()
    (waiting,) = told.waiting
    assert "no CopyComplete.txt" in waiting.lacks[0]
    assert "there is RTAComplete.txt" in waiting.lacks[0]


def test_case_5_a_run_that_may_do_without_its_manifest_says_so_and_ends(novaseqx: Bench) -> None:
    novaseqx.write("CopyComplete.txt", "RunInfo.xml", "Analysis/1/Data/a.fastq.gz")
    novaseqx.until_sealed()


def test_case_7_an_analysis_that_comes_later_is_the_next_generation(novaseqx: Bench) -> None:
    novaseqx.write("CopyComplete.txt", "RunInfo.xml", "Data/a.cbcl")
    novaseqx.until_sealed()
    novaseqx.complete()
    novaseqx.wait(3600)
    novaseqx.write("Analysis/1/Manifest.tsv", content=b"a\t00000000\nb\t00000000\n")
    novaseqx.write("Analysis/1/a")
    novaseqx.looks(120)
    novaseqx.work()
    report = novaseqx.looks(3600)
    assert set(lacking(report)) == {"manifest"}
    assert novaseqx.ledger.markers(ILLUMINA) == {1}
    novaseqx.write("Analysis/1/b")
    novaseqx.until_sealed()
    assert novaseqx.facts().generation == 2


def test_an_analysis_that_is_a_run_of_its_own_keeps_no_data_waiting(tmp_path: Path) -> None:
    data = Bench(tmp_path / "seq", "illumina-novaseqx-data", ILLUMINA)
    data.write("CopyComplete.txt", "RunInfo.xml", "Data/a.cbcl", "Analysis/1/Data/a")
    analysis = Bench(
        tmp_path / "seq",
        "illumina-analysis",
        RunKey.below("seq-analysis", [ILLUMINA.run, "Analysis", "2"]),
    )
    for number in range(40):
        analysis.write(f"Data/{number}.fastq.gz")
        report = data.looks(60)
        if report.state == RunState.SEALED:
            break
        assert analysis.looks(60).state == RunState.OPEN
    assert report.state == RunState.SEALED
    assert data.state("Analysis/1") is data.state("Analysis/2") is State.SKIPPED
    # The analysis ends by its own list.
    assert "manifest" not in lacking(analysis.looks(1200))
    assert set(lacking(analysis.look())) == {"required"}
    listed = b"".join(b"Data/%d.fastq.gz\t00000000\n" % n for n in range(number + 1))
    analysis.write("Manifest.tsv", content=listed)
    analysis.looks(120)
    analysis.work()
    assert analysis.until_sealed() >= 300


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"<RunStatus>RunCompleted</RunStatus>", 0),
        ("<CompletionStatus>CompletedAsPlanned</CompletionStatus>".encode("utf-16"), 0),
        (b"<RunStatus>RunErrored</RunStatus>", 1),
        (b"", 1),
        (None, 0),
    ],
)
def test_a_run_of_which_the_instrument_says_that_it_ended_badly_is_told_and_completed(
    novaseqx: Bench, said: bytes | None, told: int
) -> None:
    novaseqx.write("CopyComplete.txt", "RunInfo.xml", "Data/a.cbcl")
    if said is not None:
        novaseqx.write("RunCompletionStatus.xml", content=said)
    novaseqx.looks(300)
    assert not novaseqx.ledger.alerts()  # it may be written still
    novaseqx.until_sealed()
    novaseqx.complete()
    alerts = novaseqx.ledger.alerts()
    assert len(alerts) == told
    assert all("RunCompletionStatus.xml does not say" in one.text for one in alerts)


def test_what_becomes_a_run_of_its_own_is_waited_for_no_more(novaseqx: Bench) -> None:
    novaseqx.write("RunInfo.xml", "CopyComplete.txt", "Analysis/1/Data/a")
    novaseqx.look()
    assert novaseqx.state("Analysis/1/Data/a") is State.DISCOVERED
    novaseqx.change("illumina-novaseqx-data")
    novaseqx.until_sealed()
    assert novaseqx.state("Analysis/1/Data/a") is State.SKIPPED
    (note,) = novaseqx.ledger.history(ILLUMINA.file("Analysis/1/Data/a"))
    assert note.code == "apart"


def test_case_8_the_capitals_of_a_marker_do_not_matter_and_the_key_keeps_them(
    novaseqx: Bench,
) -> None:
    novaseqx.write("COPYCOMPLETE.TXT", "runinfo.XML")
    novaseqx.until_sealed()
    assert novaseqx.ledger.pending_last(ILLUMINA) == ["COPYCOMPLETE.TXT"]


def test_case_10_a_run_that_never_ends_is_stale_and_told_once(novaseqx: Bench) -> None:
    novaseqx.write("RunInfo.xml")
    novaseqx.looks(120)
    novaseqx.wait(3 * 86_400 + 60)
    for _ in range(3):
        report = novaseqx.look()
        assert report.state == RunState.STALE
        novaseqx.wait(15)
    (alert,) = novaseqx.ledger.alerts()
    assert "no CopyComplete.txt" in alert.text


def test_case_11_what_ends_a_run_goes_up_after_all_else_is_verified(novaseqx: Bench) -> None:
    novaseqx.write("CopyComplete.txt", "RTAComplete.txt", "RunInfo.xml", "Data/a.cbcl")
    novaseqx.until_sealed()
    last = {"CopyComplete.txt", "RTAComplete.txt"}
    assert {novaseqx.state(path) for path in last} == {State.DISCOVERED}
    assert set(novaseqx.ledger.pending_last(ILLUMINA)) == last
    novaseqx.work()
    assert novaseqx.state("Data/a.cbcl") is State.VERIFIED
    assert {novaseqx.state(path) for path in last} == {State.DISCOVERED}
    novaseqx.complete()


def test_case_12_a_file_that_is_cut_short_is_a_change_before_and_a_conflict_after_its_upload(
    novaseqx: Bench,
) -> None:
    novaseqx.write("CopyComplete.txt", "RunInfo.xml")
    novaseqx.write("Data/s_1.bcl", content=b"x" * 2000)
    novaseqx.looks(30)
    os.truncate(novaseqx.folder / "Data/s_1.bcl", 1600)
    assert novaseqx.look().changed == 1
    novaseqx.until_sealed()
    novaseqx.complete()
    os.truncate(novaseqx.folder / "Data/s_1.bcl", 100)
    assert novaseqx.look().conflicts == 1
    assert novaseqx.state("Data/s_1.bcl") is State.QUARANTINED
    (note,) = novaseqx.ledger.history(ILLUMINA.file("Data/s_1.bcl"))
    assert "1600 bytes" in note.message
    assert "100 bytes" in note.message


def test_case_13_a_run_that_was_only_set_up_is_no_run_yet(minknow: Bench) -> None:
    minknow.write("sample_sheet_PAO12345.csv")
    assert "min_files" in lacking(minknow.looks(7200))


def test_case_14_a_run_that_is_whole_between_two_looks_passes_through_all_states(
    minknow: Bench,
) -> None:
    minknow.look()
    minknow.write(*(f"pod5/{number}.pod5" for number in range(3)))
    minknow.write(SUMMARY, content=b"pod5_files_in_final_dest=3\n")
    assert minknow.until_sealed() >= 900
    minknow.complete()
    assert minknow.ledger.markers(ONT) == {1}
    assert minknow.facts().counts[State.VERIFIED] == 4


def test_case_15_a_cell_without_its_list_waits_and_nothing_failed(tmp_path: Path) -> None:
    cell = Bench(tmp_path / "revio", "pacbio-revio-vega", CELL)
    cell.write("Transfer_Test_1.txt", "hifi_reads/m1_s1.bam")
    report = cell.looks(7200)
    assert report.state == RunState.OPEN
    assert "marker" in lacking(report)
    content = b"Transfer Manifest nfiles: 1\n/data/m1_s1/hifi_reads/m1_s1.bam\n"
    cell.write("metadata/m1_s1.transferdone", content=content)
    assert cell.until_sealed() >= 1800


def test_case_16_a_run_whose_summary_never_comes_is_stale_with_its_reason(minknow: Bench) -> None:
    minknow.write("pod5/0.pod5", "pod5/1.pod5")
    minknow.looks(120)
    minknow.wait(minknow.profile.stale_s)
    assert minknow.look().state == RunState.STALE
    (alert,) = minknow.ledger.alerts()
    assert "no final_summary*.txt" in alert.text
    assert f"labferry close {ONT}" in alert.text


def test_case_19_a_file_is_not_at_rest_before_its_window_after_the_last_write(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "seq", "generic", ILLUMINA, settle_window_s=30, quiet_s=30)
    bench.write("a")
    for _ in range(90):
        bench.append("a")
        bench.wait(1)
        bench.look()
        assert bench.state("a") is State.DISCOVERED
    bench.wait(29)
    bench.look()
    assert bench.state("a") is State.DISCOVERED
    bench.wait(1)
    bench.look()
    assert bench.state("a") is State.ELIGIBLE


def test_case_20_a_raw_file_that_pauses_for_20_minutes_and_grows_again_is_kept_back(
    thermo: Bench,
) -> None:
    thermo.write("QC 01.raw")
    for _ in range(5):
        thermo.looks(20 * 60)
        assert thermo.state("QC 01.raw") is State.DISCOVERED
        thermo.append("QC 01.raw")
    thermo.looks(3600 + 30)
    assert thermo.state("QC 01.raw") is State.ELIGIBLE


@pytest.mark.parametrize(
    ("profile", "again"), [("generic", State.QUARANTINED), ("ms-thermo", State.DISCOVERED)]
)
def test_case_21_growth_after_the_upload_is_a_conflict_or_an_edition_and_never_overwrites(
    tmp_path: Path, profile: str, again: State
) -> None:
    bench = Bench(tmp_path / "ms", profile, QUEUE)
    bench.write("a.raw")
    bench.until_sealed()
    bench.complete()
    bench.append("a.raw")
    bench.look()
    assert bench.state("a.raw") is again
    assert bench.ledger.markers(QUEUE) == {1}


def test_a_raw_file_is_over_soon_once_the_next_injection_has_begun(thermo: Bench) -> None:
    thermo.write("01.raw")
    thermo.looks(1200)
    assert thermo.state("01.raw") is State.DISCOVERED
    thermo.write("02.raw")
    thermo.looks(60)
    assert thermo.state("01.raw") is State.ELIGIBLE
    assert thermo.state("02.raw") is State.DISCOVERED


def test_nothing_follows_from_raw_files_that_come_together_or_from_other_files(
    thermo: Bench,
) -> None:
    thermo.write("01.raw")
    thermo.looks(600)
    thermo.write("02.raw", "03.raw", "queue.sld")
    thermo.looks(1800)
    assert thermo.state("01.raw") is State.DISCOVERED


def test_a_raw_file_that_grows_though_the_next_has_begun_is_kept_back(thermo: Bench) -> None:
    thermo.write("01.raw")
    thermo.looks(600)
    thermo.write("02.raw")
    for _ in range(5):
        thermo.looks(240)
        thermo.append("01.raw")
        thermo.look()
        assert thermo.state("01.raw") is State.DISCOVERED


def test_a_raw_file_that_is_empty_is_never_at_rest(thermo: Bench) -> None:
    thermo.write("01.raw", content=b"")
    thermo.write("02.raw")
    report = thermo.looks(2 * 3600)
    assert thermo.state("01.raw") is State.DISCOVERED
    assert {"settled", "least_size"} <= set(lacking(report))
    thermo.append("01.raw")
    thermo.until_sealed()


def test_an_acquisition_that_the_instrument_calls_failed_goes_up_and_is_told_once(
    thermo: Bench,
) -> None:
    thermo.write("QC_corrupted.RAW", "ok.raw")
    thermo.until_sealed()
    assert thermo.state("QC_corrupted.RAW") is State.ELIGIBLE
    (alert,) = thermo.ledger.alerts()
    assert "QC_corrupted.RAW" in alert.text


def test_case_22_a_folder_without_its_main_data_file_is_not_done(tmp_path: Path) -> None:
    bruker = Bench(tmp_path / "ms", "ms-bruker-tims", RunKey("ms", "sample.d"))
    bruker.write("analysis.tdf", "1.m/method")
    report = bruker.looks(2 * 3600)
    assert set(lacking(report)) == {"required"}
    assert not bruker.ledger.alerts()
    assert bruker.looks(60).state == RunState.STALE
    (alert,) = bruker.ledger.alerts()
    assert "missing: analysis.tdf_bin" in alert.text


def test_a_database_that_is_still_open_holds_its_run_back(tmp_path: Path) -> None:
    bruker = Bench(tmp_path / "ms", "ms-bruker-tims", RunKey("ms", "sample.d"))
    bruker.write("analysis.tdf", "analysis.tdf_bin", "analysis.tdf-wal")
    assert set(lacking(bruker.looks(2 * 3600))) == {"no_temporary"}
    (bruker.folder / "analysis.tdf-wal").unlink()
    bruker.until_sealed()


def test_case_23_a_file_is_at_rest_whatever_its_content_says(tmp_path: Path) -> None:
    scope = Bench(tmp_path / "scope", "microscopy-czi", RunKey("scope", "day 1"))
    scope.write("cut short.czi", content=b"ZISRAWFI and nothing more")
    scope.until_sealed()
    assert scope.state("cut short.czi") is State.ELIGIBLE


def test_case_24_a_file_of_a_few_bytes_that_is_filled_later_costs_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seq", "generic", ILLUMINA)
    bench.write("a.tif", content=b"II*\0\x08\0\0\0")
    bench.looks(45)
    bench.write("a.tif", content=b"II*\0\x08\0\0\0" + b"x" * 9000)
    bench.until_sealed()
    bench.complete()
    record = bench.ledger.find_record(ILLUMINA.file("a.tif"))
    assert record is not None
    assert (record.attempt, record.rounds, record.fingerprint.size) == (0, 0, 9008)


def test_case_25_a_file_of_its_final_size_is_not_at_rest_while_its_time_moves(
    thermo: Bench,
) -> None:
    with (thermo.folder / "a.raw").open("wb") as file:
        file.truncate(1_000_000)
    for number in range(240):
        os.utime(thermo.folder / "a.raw", (number, number))
        thermo.wait(15)
        thermo.look()
        assert thermo.state("a.raw") is State.DISCOVERED


def test_case_29_two_agents_on_one_folder_discover_each_file_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seq", "generic", ILLUMINA)
    bench.write(*(f"d/{number}" for number in range(50)))
    assert bench.look().new == 50
    assert bench.new_agent().look().new == 0
    bench.until_sealed()
    bench.new_agent().complete()
    assert bench.facts().counts[State.VERIFIED] == 50


def test_case_30_a_pass_that_was_cut_short_leaves_what_it_saw_and_the_next_goes_on(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "seq", "generic", ILLUMINA)
    bench.write(*(f"d{number % 3}/{number}" for number in range(3500)))
    asked = iter([False, False, False, True])
    report = bench.agent().make_pass(lambda: next(asked))
    assert report.condition is Condition.STOPPED
    assert 0 < bench.facts().counts[State.DISCOVERED] < 3500
    assert bench.new_agent().look().state == RunState.OPEN
    assert bench.facts().counts[State.DISCOVERED] == 3500


def test_case_39_links_of_every_kind_are_listed_and_stop_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seq", "generic", ILLUMINA)
    bench.write("a")
    for name, target in (("broken", "nowhere"), ("up", ".."), ("loop", "loop"), ("file", "a")):
        (bench.folder / name).symlink_to(target)
    assert bench.looks(600).left_out == 4
    assert bench.state("a") is State.ELIGIBLE
    assert {bench.state(name) for name in ("broken", "up", "loop", "file")} == {State.SKIPPED}
    bench.until_sealed()


def test_case_43_names_of_any_bytes_are_the_same_by_every_scan_and_stop_nothing(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "seq", "generic", ILLUMINA)
    names = [b"bad-\x90\xf0.raw", b"new\nline.raw", b"good.raw", b"50%25.raw", b"back\\slash"]
    for name in names:
        (bench.folder / os.fsdecode(name)).write_bytes(b"x")
    assert bench.look().new == len(names)
    assert bench.looks(600).new == 0
    paths = [path for path, _ in bench.ledger.records(ILLUMINA)]
    assert sorted(map(decode_path, paths)) == sorted(names)
    bench.until_sealed()


def test_case_44_names_with_every_sign_are_kept_as_they_are(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seq", "generic", ILLUMINA)
    names = ["NeuN+-534 (1).bam", "a#b?c&d=e.txt", "[x] 100%.tif", " leading", "trailing "]
    bench.write(*names)
    bench.until_sealed()
    assert {path for path, _ in bench.ledger.records(ILLUMINA)} == set(names)


def test_case_45_macos_twins_are_left_out_and_listed(tmp_path: Path) -> None:
    epu = Bench(tmp_path / "em", "cryoem-epu", RunKey("em", "session"))
    epu.write("EpuSession.dm", "a.jpg", "a.xml", "._a.jpg", ".DS_Store")
    report = epu.looks(12 * 3600 + 60)
    assert report.state == RunState.SEALED
    assert epu.state("._a.jpg") is State.SKIPPED
    assert report.left_out == 2


def test_case_46_a_sidecar_without_its_file_holds_the_run_and_is_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seq", "generic-marker", ILLUMINA)
    bench.write("a.bam", "b.bam", "complete.txt")
    bench.write("a.bam.md5", "gone.bam.md5", content=b"9dd4e461268c8034f5c8564e155c67a6\n")
    bench.looks(120)
    bench.work()
    report = bench.looks(1200)
    assert set(lacking(report)) == {"sidecars"}
    assert "gone.bam (in gone.bam.md5)" in lacking(report)["sidecars"]
    bench.write("gone.bam")
    bench.until_sealed()


def test_case_49_names_that_case_alone_tells_apart_are_two_objects_and_told_once(
    tmp_path: Path,
) -> None:
    waters = Bench(tmp_path / "ms", "ms-waters", RunKey("ms", "sample.RAW"))
    waters.write("_func001.DAT", "_FUNC001.idx", "notes.txt", "Notes.TXT")
    waters.until_sealed()
    assert {waters.state(name) for name in ("notes.txt", "Notes.TXT")} == {State.ELIGIBLE}
    (alert,) = waters.ledger.alerts()
    assert "Notes.TXT and notes.txt" in alert.text


def test_case_50_a_set_stays_open_until_its_last_part_may_have_come(tmp_path: Path) -> None:
    scope = Bench(tmp_path / "scope", "microscopy-czi", RunKey("scope", "day 1"))
    scope.write("a.czi")
    assert scope.looks(20 * 60).state == RunState.OPEN
    scope.write("a(1).czi")
    assert scope.until_sealed() >= 1800


def test_case_52_the_same_name_acquired_again_is_a_new_edition(thermo: Bench) -> None:
    thermo.write("QC.raw")
    thermo.until_sealed()
    thermo.complete()
    thermo.wait(86_400)
    thermo.write("QC.raw", content=b"acquired again")
    assert thermo.look().superseded == 1
    thermo.until_sealed()
    thermo.complete()
    assert thermo.ledger.markers(QUEUE) == {1, 2}
    assert [note.code for note in thermo.ledger.history(QUEUE.file("QC.raw"))] == ["superseded"]


def test_an_acquisition_ends_sooner_once_the_next_one_has_begun(tmp_path: Path) -> None:
    bruker = Bench(tmp_path / "ms", "ms-bruker-tims", RunKey("ms", "1.d"))
    bruker.write("analysis.tdf", "analysis.tdf_bin")
    assert bruker.looks(1200).state == RunState.OPEN
    (tmp_path / "ms/2.d").mkdir()
    (tmp_path / "ms/2.d/analysis.tdf").touch()
    assert bruker.until_sealed() <= 30


# -- no interleaving of writes and looks


WRITES = ("write", "append", "temporary", "finish", "marker")
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(WRITES), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.integers(1, 200)),
        st.tuples(st.sampled_from(("look", "restart", "away")), st.just(0)),
    ),
    max_size=40,
)


class Instrument:
    """Writes as instruments and copies do, and remembers when it wrote last."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.written_ms = bench.ledger.clock_ms

    def do(self, deed: str, number: int) -> None:
        part = self.bench.folder / f"copy-{number}.part"
        match deed:
            case "write":
                self.bench.write(f"file-{number}", content=os.urandom(9))
            case "append":
                self.bench.append(f"file-{number}")
            case "temporary":
                part.write_bytes(os.urandom(9))
            case "finish" if part.exists():
                part.replace(part.with_suffix(""))
            case "marker":
                self.bench.write("done", content=os.urandom(9))
        self.written_ms = self.bench.ledger.clock_ms

    def look_without_the_share(self) -> None:
        """Look while the mount is away and its folder is empty."""
        away = self.bench.root.with_name("away")
        self.bench.root.rename(away)
        self.bench.root.mkdir()
        assert self.bench.look().state != RunState.SEALED
        self.bench.root.rmdir()
        away.rename(self.bench.root)

    def is_at_rest(self) -> bool:
        names = {path.name for path in self.bench.folder.iterdir()}
        return (
            self.bench.ledger.clock_ms - self.written_ms >= 100_000
            and "done" in names
            and len(names) > 1
            and not any(name.endswith(".part") for name in names)
        )


@settings(max_examples=100, deadline=None)
@given(DEEDS)
def test_no_interleaving_of_writes_and_looks_ends_a_run_that_is_not_at_rest(
    deeds: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        fields = {"marker": "done", "quiet_s": 100, "settle_window_s": 60}
        bench = Bench(Path(folder) / "inst", "generic", RunKey("inst", "run"), **fields)
        instrument = Instrument(bench)
        for deed, number in deeds:
            if deed == "wait":
                bench.wait(number)
            elif deed in WRITES:
                instrument.do(deed, number)
            elif deed == "restart":
                bench.new_agent()
            elif deed == "away":
                instrument.look_without_the_share()
            elif bench.look().state == RunState.SEALED:
                assert instrument.is_at_rest()
        # And what comes to rest is done at last.
        for number in range(4):
            instrument.do("finish", number)
        instrument.do("write", 0)
        instrument.do("marker", 0)
        bench.look()
        assert bench.until_sealed(200) >= 90
        assert instrument.is_at_rest()


QUEUE_DEEDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("begin", "append", "rewind")), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.sampled_from((1, 30, 59, 61, 200, 299, 301, 1800, 3599))),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(QUEUE_DEEDS)
def test_no_interleaving_of_injections_and_looks_settles_a_file_that_may_be_open(
    deeds: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        thermo = Bench(Path(folder) / "ms", "ms-thermo", QUEUE)
        written_ms, began_ms = dict[str, int](), dict[str, int]()
        for deed, number in deeds:
            name, now_ms = f"{number}.raw", thermo.ledger.clock_ms
            if deed == "wait":
                thermo.wait(number)
            elif deed == "look":
                thermo.look()
                for path, record in thermo.ledger.records(QUEUE):
                    if record.state is State.ELIGIBLE:
                        rested_s = (now_ms - written_ms[path]) / 1000
                        followed = any(at > began_ms[path] + 59_000 for at in began_ms.values())
                        assert rested_s >= (300 if followed else 3600)
            elif name not in began_ms:
                thermo.write(name)
                written_ms[name] = began_ms[name] = now_ms
            else:
                before = (thermo.folder / name).stat()
                thermo.append(name)
                if deed == "rewind":
                    os.utime(thermo.folder / name, ns=(before.st_atime_ns, before.st_mtime_ns))
                written_ms[name] = now_ms

"""Which profiles are there, do they say what they should, and which fits a folder?"""

from pathlib import Path

import pytest

from labferry.errors import SettingsError
from labferry.profiles import Profile, load_profile, profile_names
from labferry.profiles.detect import fits
from labferry.profiles.fields import GIB
from labferry.profiles.patterns import PathPatterns
from labferry.settings import load_settings

#: The rows of the table of instruments that labferry promises to know.
KNOWN = {
    "illumina-hiseq-miseq", "illumina-nextseq500", "illumina-novaseq",
    "illumina-novaseqx-nextseq2000", "ont-minknow", "pacbio-revio-vega", "pacbio-sequel",
    "cryoem-epu", "cryoem-serialem", "ms-thermo", "ms-bruker-tims", "ms-waters", "ms-agilent",
    "ms-sciex", "flow-fcs", "nmr-topspin", "microscopy-czi", "imaging-xenium", "element-aviti",
    "singular-g4", "generic-marker", "generic",
}  # fmt: skip


def shipped() -> list[Profile]:
    return [load_profile(name, {}) for name in profile_names()]


def test_every_instrument_of_the_table_has_a_profile() -> None:
    assert set(profile_names()) >= KNOWN


@pytest.mark.parametrize("name", profile_names())
def test_a_shipped_profile_loads_and_says_what_it_is_for(name: str) -> None:
    profile = load_profile(name, {})
    assert (profile.version, profile.name) == (1, name)
    assert profile.title


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_keeps_the_names_that_are_never_finished(name: str) -> None:
    profile = load_profile(name, {})
    for temporary in (".data.bam.Xy12zQ", "copy.part", "a.tmp", "x.raw.filepart", "~$a.xlsx"):
        assert profile.is_temporary(temporary), temporary


@pytest.mark.parametrize(
    "real", ["format.temp", "TEMPBASE", "TEMPDIR1", "a.bak", ".canary", "a_preview_b.tif"]
)
def test_no_profile_takes_real_data_for_something_temporary(real: str) -> None:
    for profile in shipped():
        assert not profile.is_temporary(real), profile.name
        assert not profile.is_litter(real), profile.name


def test_only_a_marker_a_content_rule_or_its_own_word_ends_a_run() -> None:
    """Quiet alone finishes a run only of the profiles of which that is known."""
    quiet_alone = {"generic", "cryoem-serialem", "ms-agilent"}
    for profile in shipped():
        assert profile.marker or profile.required or profile.name in quiet_alone, profile.name


# -- a facility's own


def own(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.toml").write_text(text, "utf-8")
    return folder


def test_a_profile_of_ones_own_extends_a_shipped_one(tmp_path: Path) -> None:
    folder = own(
        tmp_path, "our-novaseq", 'extends = "illumina-novaseq"\nmarker = "Synced.txt"\nquiet_s = 60'
    )
    profile = load_profile("our-novaseq", {}, folder)
    assert (profile.name, profile.marker, profile.quiet_s) == ("our-novaseq", "Synced.txt", 60)
    assert profile.required == load_profile("illumina-novaseq", {}).required
    assert "our-novaseq" in profile_names(folder)
    assert "our-novaseq" not in profile_names()


def test_a_profile_of_ones_own_hides_the_shipped_one_of_its_name_and_may_extend_it(
    tmp_path: Path,
) -> None:
    folder = own(tmp_path, "ms-thermo", 'extends = "ms-thermo"\nquiet_s = 7')
    profile = load_profile("ms-thermo", {}, folder)
    assert (profile.quiet_s, profile.required) == (7, (("*.raw",),))


def test_three_dots_in_a_list_stand_for_what_it_is_laid_over(tmp_path: Path) -> None:
    folder = own(tmp_path, "mine", 'extends = "generic"\ntemporary = ["...", "*.inprogress"]')
    generic = load_profile("generic", {}).temporary
    assert load_profile("mine", {}, folder).temporary == (*generic, "*.inprogress")
    assert load_profile("mine", {"temporary": ["x"]}, folder).temporary == ("x",)
    assert load_profile("mine", {"temporary": ["x", "..."]}, folder).temporary[:2] == (
        "x", generic[0],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "field", "why"),
    [
        ("quite_s = 3", "quite_s", "no such field"),
        ("quiet_s = -3", "quiet_s", "greater than or equal to 0"),
        ("version = 2", "version", "less than or equal to 1"),
        ('late = "never"', "late", "'quarantine' or 'generation'"),
        ('manifests = [{ file = "x" }]', "manifests.0.form", "Field required"),
        ('manifests = [{ file = "x", form = "y" }]', "manifests.0.form", "'checksums'"),
        ('counts = [{ file = "x", field = "y" }]', "counts.0", "either `of` or `equals`"),
        ('companions = [{ of = "x", needs = "y" }]', "companions.0", "{stem} or {name}"),
        ('extends = "nothing"', "extends", "there is no profile 'nothing'"),
        ('extends = "mine"', "extends", "extends itself"),
        ("runs = []", "runs", "at least 1 item"),
        ("quiet_s = ", "profile", "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_with_a_profile_is_named_by_its_field(
    tmp_path: Path, text: str, field: str, why: str
) -> None:
    folder = own(tmp_path, "mine", text)
    with pytest.raises(SettingsError) as raised:
        load_profile("mine", {}, folder)
    assert raised.value.field == field
    assert why in str(raised.value)


def test_settings_find_the_profiles_beside_their_file(tmp_path: Path) -> None:
    own(tmp_path / "profiles", "mine", 'extends = "generic"\nquiet_s = 5')
    config = tmp_path / "labferry.toml"
    config.write_text(
        f'[store]\nbucket = "bucket"\n[instruments.A]\nroot = "{tmp_path}"\nprofile = "mine"\n'
    )
    assert load_settings(config).instruments["A"].resolved().quiet_s == 5


# -- patterns and times


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("metadata/*.transferdone", "METADATA/m1.TransferDone", True),
        ("metadata/*.transferdone", "m1.transferdone", False),
        ("metadata/*.transferdone", "a/metadata/m1.transferdone", False),
        ("Analysis/*/Manifest.tsv", "Analysis/10/manifest.tsv", True),
        ("Analysis/*/Manifest.tsv", "Analysis/1/2/Manifest.tsv", False),
        ("acqus", "acqus", True),
        ("acqus", "pdata/acqus", False),
    ],
)
def test_a_path_is_matched_folder_by_folder_whatever_its_case(
    pattern: str, path: str, matches: bool
) -> None:
    assert PathPatterns((pattern,)).match(path) is matches


def test_a_large_file_must_rest_longer_where_a_profile_says_so() -> None:
    profile = load_profile("generic", {"settle_window_s": 10, "settle_s_per_gib": 5})
    assert profile.settle_s(0) == 10
    assert profile.settle_s(100 * GIB) == 510


# -- detection


@pytest.mark.parametrize(
    ("name", "paths", "expected"),
    [
        ("240101_A01234_0001_AHXXXXDRXY", ["RunInfo.xml"], "illumina-novaseq"),
        ("240101_a01234_0001_ahxxxxdrxy", ["runinfo.XML"], "illumina-novaseq"),
        ("20240531_LH00130_0061_A22CC55LT4", ["RunInfo.xml"], "illumina-novaseqx-nextseq2000"),
        ("240101_VH00123_5_AAAXXXM5", ["RunInfo.xml"], "illumina-novaseqx-nextseq2000"),
        ("170609_NB551051_0017_AHLFFJBGX2", ["RunInfo.xml"], "illumina-nextseq500"),
        ("150101_M00123_0001_000000000-ABCDE", ["RunInfo.xml"], "illumina-hiseq-miseq"),
        ("Data only", ["Data", "Data/Intensities"], "illumina"),
        ("20240101_1200_1A_PAO12345_0a1b2c3d", ["final_summary_x.txt"], "ont-minknow"),
        ("1_A01", ["metadata", "hifi_reads"], "pacbio-revio-vega"),
        ("sample 1.d", ["analysis.tdf"], "ms-bruker-tims"),
        ("sample 1.D", ["AcqData", "ACQ.M"], "ms-agilent"),
        ("x.raw", ["_HEADER.TXT"], "ms-waters"),
        ("queue", ["a.RAW"], "ms-thermo"),
        ("session", ["EpuSession.dm"], "cryoem-epu"),
    ],
)
def test_a_folder_is_known_by_its_name_and_by_what_lies_in_it(
    name: str, paths: list[str], expected: str
) -> None:
    assert fits(shipped(), name, paths)[0].profile == expected


def test_a_fit_names_its_clues() -> None:
    fit = fits(shipped(), "240101_A01234_0001_AHXXXXDRXY", ["RunInfo.xml"])[0]
    assert fit.clues == ("??????_a*_*_*", "RunInfo.xml")


def test_a_folder_without_clues_has_no_fit() -> None:
    assert fits(shipped(), "holiday", ["beach.jpg"]) == []
    assert fits(shipped(), "240101_A01234_0001_AHXXXXDRXY", []) == []

"""Which names would take one another's place where neither case nor accents count?"""

import os
import unicodedata
from array import array
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from labferry.identity import Layout
from labferry.profiles import load_profile
from labferry.source.alike import alike, fold, may_be_alike
from labferry.source.scan import BATCH_ENTRIES, scan
from tests.trees import RUN, make_tree

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "größe.csv") for form in ("NFC", "NFD"))


def found(folder: Path) -> list[str]:
    profile = load_profile("generic", {})
    batches = scan(os.fsencode(folder), RUN, profile, Layout())
    return [names for batch in batches for names in batch.alike]


def test_names_that_case_or_the_writing_of_accents_alone_tells_apart_are_alike() -> None:
    names = ["a", "B", "A", "b", "c", "GRÖSSE.CSV", COMPOSED, DECOMPOSED, "d"]
    assert alike(names) == [("A", "a"), ("B", "b"), tuple(sorted(["GRÖSSE.CSV", *names[6:8]]))]


def test_a_scan_tells_of_files_and_folders_that_are_alike_with_their_folder(
    tmp_path: Path,
) -> None:
    make_tree(tmp_path, "sub/Data/x", "sub/data/y", f"{COMPOSED}", f"{DECOMPOSED}", "other/DATA/z")
    assert set(found(tmp_path)) == {
        "sub/Data and data",
        " and ".join(sorted([COMPOSED, DECOMPOSED])),
    }


def test_the_same_name_in_another_folder_is_no_news(tmp_path: Path) -> None:
    make_tree(tmp_path, "a/s_1_1101.bcl", "b/S_1_1101.bcl", "c/s_1_1101.bcl")
    assert found(tmp_path) == []


def test_names_alike_are_found_however_far_apart_they_are_listed(tmp_path: Path) -> None:
    numbers = range(2 * BATCH_ENTRIES + 10)
    make_tree(tmp_path, *(f"file{number}" for number in numbers), "FILE7")
    assert found(tmp_path) == ["FILE7 and file7"]


@given(st.lists(st.text(st.sampled_from("aAbBäÄ\u0308ß"), max_size=3), unique=True))
def test_the_short_look_finds_what_the_long_one_does(names: list[str]) -> None:
    folded = [fold(name) for name in names]
    short = may_be_alike(array("q", map(hash, folded)))
    assert short == bool(alike(names)) == (len(set(folded)) < len(names))

"""Two lists of objects agree only when every identity, size and ETag does."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry import inventory
from labferry.inventory import compare, fact_line, missing_names, sorted_lines


def lines(*names: str) -> list[bytes]:
    return [fact_line(name, 1, "e") for name in names]


def test_equal_lists_are_whole() -> None:
    report = compare(iter(lines("a", "b")), iter(lines("a", "b")))
    assert report.whole
    assert report.compared == 2


def test_missing_different_and_unexpected_are_told_apart() -> None:
    found = [fact_line("b", 2, "e"), fact_line("d", 1, "e"), fact_line("x", 1, "e")]
    report = compare(iter(lines("a", "b", "c", "d")), iter(found))
    assert not report.whole
    assert (report.missing, report.different, report.unexpected) == (["a", "c"], ["b"], ["x"])


@given(st.sets(st.sampled_from("abcdefgh")), st.sets(st.sampled_from("abcdefgh")))
def test_names_that_only_one_list_has_are_missing(expected: set[str], found: set[str]) -> None:
    missing = missing_names(iter(lines(*sorted(expected))), iter(lines(*sorted(found))))
    assert list(missing) == sorted(expected - found)


def test_equal_counts_of_other_names_are_not_whole() -> None:
    assert not compare(iter(lines("a", "b")), iter(lines("a", "c"))).whole


def test_an_etag_that_differs_is_a_difference() -> None:
    assert compare(iter([fact_line("a", 1, "e")]), iter([fact_line("a", 1, "f")])).different == [
        "a"
    ]


def test_names_are_kept_up_to_a_bound_and_counted_beyond() -> None:
    many = sorted(lines(*[f"{n:06}" for n in range(500)]))
    report = compare(iter(many), iter([]))
    assert report.missing_count == 500
    assert len(report.missing) == inventory.KEPT_NAMES


def test_a_name_that_begins_another_sorts_before_it() -> None:
    names = ["a", "a b", "a/b", "a-b", "a.b", "aä"]
    assert compare(iter(sorted(lines(*names))), iter(sorted(lines(*reversed(names))))).whole


@given(st.lists(st.text(alphabet="abc/ ", min_size=1), max_size=40), st.randoms())
def test_lines_come_sorted_and_once_however_small_the_chunk(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], dice: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("sorted")
    given_lines = lines(*names)
    dice.shuffle(given_lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inventory, "CHUNK_LINES", 3)
        result = list(sorted_lines(given_lines, folder, "x"))
    assert result == sorted(set(lines(*names)))


def test_a_list_that_fits_is_not_written_to_disk(tmp_path: Path) -> None:
    assert list(sorted_lines(lines("b", "a"), tmp_path, "x")) == lines("a", "b")
    assert list(tmp_path.iterdir()) == []

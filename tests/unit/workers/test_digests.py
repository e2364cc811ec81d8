"""Is a list of checksums obeyed, however long it is and whatever it says?"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labferry.errors import SidecarMismatch, SourceError
from labferry.profiles.fields import Sidecars
from labferry.sidecars import MOST_LINE_BYTES, Form
from workers.digests import ChecksumLists, Digests, ListMemory
from workers.list_index import Indexes, ListIndex

RULES = (Sidecars(file="MD5SUMS"), Sidecars(file="*.md5"))
EMPTY, OTHER = "d41d8cd98f00b204e9800998ecf8427e", "0" * 32


@contextmanager
def lists_of(folder: Path, most_entries: int = 100_000) -> Iterator[ChecksumLists]:
    lists = ChecksumLists(os.fsencode(folder), RULES, ListMemory(indexes=Indexes(most_entries)))
    yield lists
    lists.close()


@pytest.mark.parametrize("name", ["MD5SUMS", "a.md5"])
def test_a_list_that_names_a_file_again_and_again_is_held_to_all_it_says(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "a").touch()
    lines = [f"{EMPTY}  a\n", *(f"{number:032x}  a\n" for number in range(20_000))]
    (tmp_path / name).write_text("".join(lines))
    with lists_of(tmp_path) as lists:
        expected = lists.expected("a")
    assert len(expected) < 10
    with pytest.raises(SidecarMismatch):
        Digests("a", expected).check()


def test_the_same_digest_twice_is_no_contradiction(tmp_path: Path) -> None:
    (tmp_path / "MD5SUMS").write_text(f"{EMPTY}  a\n{EMPTY} *./a\n{OTHER}  b\n")
    with lists_of(tmp_path) as lists:
        (expected,) = lists.expected("a")
    Digests("a", [expected]).check()


def test_a_list_of_more_entries_than_are_remembered_lets_no_file_pass_unchecked(
    tmp_path: Path,
) -> None:
    (tmp_path / "MD5SUMS").write_text("".join(f"{n:032x}  f{n}\n" for n in range(101)))
    with lists_of(tmp_path, 101) as lists:
        assert lists.expected("f7")
    with lists_of(tmp_path, 100) as lists:
        for path in ("f7", "not on the list"):
            with pytest.raises(SourceError) as raised:
                lists.expected(path)
            assert raised.value.errno_name == errno.errorcode[errno.EFBIG]


def test_what_stands_behind_a_line_without_end_is_found(tmp_path: Path) -> None:
    long = b"x" * (3 * MOST_LINE_BYTES)
    content = b"\n".join([long, f"{EMPTY}  a".encode(), long, f"{OTHER}  b".encode()])
    (tmp_path / "MD5SUMS").write_bytes(content)
    with (tmp_path / "MD5SUMS").open("rb") as file:
        index = ListIndex(file, Form.CHECKSUMS, "MD5SUMS")
        assert [one.digest for one in index.find(file, "a")] == [EMPTY]
        assert [one.digest for one in index.find(file, "b")] == [OTHER]

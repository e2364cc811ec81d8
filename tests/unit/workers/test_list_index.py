"""Is every entry of a list found again, and is a list read no more often than it must be?"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.identity import encode_path
from labferry.profiles.fields import Sidecars
from labferry.sidecars import Form, Listed, read_list
from tests.trees import open_below
from workers import digests
from workers.digests import ChecksumLists, ListMemory
from workers.list_index import Indexes, ListIndex

MD5 = hashlib.md5(b"").hexdigest()
HASHES = (
    b"\xef\xbb\xbffile_path,file_hash\r\n\r\n"
    b'"pod5/a,b.pod5",' + b"0" * 64 + b"\r\npod5/c.pod5," + b"1" * 64 + b"\r\n"
)


def index(path: Path, content: bytes, form: Form = Form.CHECKSUMS) -> ListIndex:
    path.write_bytes(content)
    with path.open("rb") as file:
        return ListIndex(file, form, path.name)


def found(path: Path, of: ListIndex, name: str) -> list[Listed]:
    with path.open("rb") as file:
        return list(of.find(file, name))


NAMES = st.lists(
    st.binary(min_size=1, max_size=9).filter(
        lambda raw: not set(raw) & set(b"/\\\0\r\n") and raw.strip() == raw
        and raw not in (b".", b"..") and raw[1:2] != b":"
    ),
    max_size=20,
)  # fmt: skip


@given(NAMES)
def test_what_is_found_of_a_name_is_what_the_list_says_of_it(names: list[bytes]) -> None:
    content = (
        b"\xef\xbb\xbf"
        + b"".join(
            hashlib.md5(b"%d" % number).hexdigest().encode() + b"  " + name + b"\n"
            for number, name in enumerate(names)
        )
        + b"\r\n# made by hand\n"
    )
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"labferry-{os.getpid()}-SUMS"
    try:
        made = index(path, content)
        all_of_it = [
            one
            for one in read_list(content.split(b"\n"), Form.CHECKSUMS, path.name)
            if isinstance(one, Listed)
        ]
        assert len(made) == len(all_of_it)
        for name in {encode_path(raw) for raw in [*names, b"not there"]}:
            assert found(path, made, name) == [one for one in all_of_it if one.path == name]
    finally:
        path.unlink()


def test_a_list_with_a_head_is_found_by_it(tmp_path: Path) -> None:
    path = tmp_path / "output_hash_x.csv"
    made = index(path, HASHES, Form.MINKNOW)
    assert [one.digest for one in found(path, made, "pod5/a,b.pod5")] == ["0" * 64]
    assert [one.digest for one in found(path, made, "pod5/c.pod5")] == ["1" * 64]
    assert found(path, made, "file_path") == []


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lists that were read whole."""
    read: list[str] = []
    real = ListIndex.__init__

    def counting(self: ListIndex, file: object, form: Form, name: str, most: int) -> None:
        read.append(name)
        real(self, file, form, name, most)  # type: ignore[arg-type]

    monkeypatch.setattr(ListIndex, "__init__", counting)
    return read


@contextmanager
def lists(run: Path, indexes: Indexes) -> Iterator[ChecksumLists]:
    opened = ChecksumLists(os.fsencode(run), [Sidecars(file="*SUMS")], ListMemory(indexes=indexes))
    try:
        yield opened
    finally:
        opened.close()


def test_a_list_is_read_once_for_all_bundles_and_again_when_it_changed(
    tmp_path: Path, reads: list[str]
) -> None:
    indexes = Indexes()
    for number in range(3):
        (tmp_path / f"{number}").touch()
    (tmp_path / "MD5SUMS").write_text(f"{MD5}  0\n{MD5}  1\n")
    for name in ("0", "1", "0"):
        with lists(tmp_path, indexes) as opened:
            assert [one.digest for one in opened.expected(name)] == [MD5]
            assert opened.expected("2") == ()
    assert reads == ["MD5SUMS"]
    (tmp_path / "MD5SUMS").write_text(f"{MD5}  2\n")
    with lists(tmp_path, indexes) as opened:
        assert [one.list for one in opened.expected("2")] == ["MD5SUMS"]
        assert opened.expected("0") == ()
    assert reads == ["MD5SUMS"] * 2


def test_what_a_process_remembers_of_lists_is_bounded(tmp_path: Path, reads: list[str]) -> None:
    indexes = Indexes(most_entries=3)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}SUMS").write_text(f"{MD5}  1\n{MD5}  2\n")
    for name in ("a/1", "a/2", "b/1", "b/2", "a/1"):
        with lists(tmp_path, indexes) as opened:
            assert len(opened.expected(name)) == 1
    assert reads == ["aSUMS", "bSUMS", "aSUMS"]


def test_no_more_lists_stay_open_than_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_LISTS_KEPT", 2)
    for number in range(5):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/SUMS").write_text(f"{MD5}  a\n")
    with lists(tmp_path, Indexes()) as opened:
        for _ in range(2):
            for number in range(5):
                assert len(opened.expected(f"{number}/a")) == 1
        assert open_below(tmp_path) <= 2 + 2  # and a run's folders
    assert open_below(tmp_path) == 0


def test_a_long_list_costs_eight_bytes_an_entry(tmp_path: Path) -> None:
    content = b"".join(
        b"%s  Data/L001/C%d.1/s_1_%d.bcl\n" % (MD5.encode(), n, n) for n in range(9999)
    )
    made = index(tmp_path / "MD5SUMS", content)
    places = made._places
    assert (len(made), places.itemsize) == (9999, 8)
    assert len(found(tmp_path / "MD5SUMS", made, "Data/L001/C77.1/s_1_77.bcl")) == 1

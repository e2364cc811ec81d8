"""Which entries stand in a list of checksums, whoever wrote it?"""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.identity import encode_path
from labferry.sidecars import Algorithm, Form, Listed, Unread, file_of, read_list

MD5 = "d41d8cd98f00b204e9800998ecf8427e"
SHA1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def entries(
    content: bytes, form: Form = Form.CHECKSUMS, name: str = "list.md5"
) -> list[Listed | Unread]:
    return list(read_list(content.splitlines(keepends=True), form, name))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (f"{MD5}  a b.bam\n", "a b.bam"),
        (f"{MD5} *a.bam\n", "a.bam"),
        (f"{MD5}  ./sub/a.bam\n", "sub/a.bam"),
        (f"{MD5.upper()} *.\\sub\\a.bam\r\n", "sub/a.bam"),
        (f"{MD5}\ta.bam", "a.bam"),
        (f"MD5 (sub/a (1).bam) = {MD5}\n", "sub/a (1).bam"),
        (f"MD5(a.bam)= {MD5}\n", "a.bam"),
        (f"\ufeff{MD5}  größe.csv\r\n", "größe.csv"),
        (f"\\{MD5}  new\\nline\\\\back\n", "new%0Aline%5Cback"),
        (f"{MD5}  100%41.txt\n", "100%2541.txt"),
    ],
)
def test_every_form_of_an_md5_line_is_read(line: str, path: str) -> None:
    assert entries(line.encode()) == [Listed(path, Algorithm.MD5, MD5)]


@pytest.mark.parametrize(
    ("digest", "algorithm"),
    [
        ("AABBCCDD", Algorithm.CRC32),
        (MD5, Algorithm.MD5),
        (SHA1, Algorithm.SHA1),
        (SHA256, Algorithm.SHA256),
    ],
)
def test_the_length_of_a_digest_tells_what_made_it(digest: str, algorithm: Algorithm) -> None:
    assert entries(f"{digest}  a\n".encode()) == [Listed("a", algorithm, digest.lower())]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("x.bam.md5", "x.bam"),
        ("x.bam.MD5SUM", "x.bam"),
        ("x.md5.txt", "x"),
        ("x.sha256", "x"),
        (".md5", ""),
        ("x.bam", ""),
    ],
)
def test_a_sidecar_is_named_after_its_file(name: str, file: str) -> None:
    assert file_of(name) == file


@pytest.mark.parametrize("content", [f"{MD5}\n", f"{MD5.upper()}\r\n", f"  {MD5}  "])
def test_a_bare_digest_is_of_the_file_that_the_list_is_named_after(content: str) -> None:
    assert entries(content.encode(), name="26291#12.cram.md5") == [
        Listed("26291#12.cram", Algorithm.MD5, MD5)
    ]


def test_where_a_file_lay_when_its_sidecar_was_made_does_not_matter() -> None:
    for path in ("/data/run/x.bam", "C:\\data\\x.bam"):
        assert entries(f"{MD5}  {path}\n".encode(), name="x.bam.md5") == [
            Listed("x.bam", Algorithm.MD5, MD5)
        ]


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "..\\x", "/etc/passwd", "C:\\x", "\\\\server\\x", "..", "./"]
)
def test_an_entry_that_climbs_out_is_refused(path: str) -> None:
    (found,) = entries(f"{MD5}  {path}\n".encode())
    assert isinstance(found, Unread)
    assert "leads out" in found.why


@pytest.mark.parametrize(
    "line", ["hello", MD5, "zz  a", f"{MD5[:-1]}  a", f"SHA256 (a) = {MD5}", f"{MD5}  a\0b"]
)
def test_a_line_that_is_no_entry_is_told_with_its_number(line: str) -> None:
    found = entries(f"{MD5}  ok\n{line}\n".encode(), name="MD5SUMS")
    assert isinstance(found[1], Unread)
    assert found[1].number == 2


def test_comments_and_empty_lines_are_no_entries() -> None:
    assert entries(b"# made by x\r\n; and y\r\n\r\n") == []


def test_an_sfv_list_has_the_name_before_the_checksum() -> None:
    found = entries(b"; by WIN-SFV32\r\nfile one.txt AABBCCDD\r\n", name="a.sfv")
    assert found == [Listed("file one.txt", Algorithm.CRC32, "aabbccdd")]


def test_an_illumina_manifest_is_path_tab_crc32() -> None:
    found = entries(b"Data/a b.css\t57e0323c\r\nno tab\nb\t123\n", Form.ILLUMINA)
    assert found[0] == Listed("Data/a b.css", Algorithm.CRC32, "57e0323c")
    assert [type(one) for one in found[1:]] == [Unread, Unread]


def test_a_minknow_list_is_read_by_its_head_whatever_the_order() -> None:
    content = f'barcode,file_path,file_hash\n,"pod5/a,b.pod5",{SHA256}\nx\n'
    found = entries(content.encode(), Form.MINKNOW)
    assert found[0] == Listed("pod5/a,b.pod5", Algorithm.SHA256, SHA256)
    assert isinstance(found[1], Unread)


def test_a_minknow_list_without_its_columns_has_no_entries() -> None:
    (found,) = entries(b"a,b\nc,d\n", Form.MINKNOW)
    assert isinstance(found, Unread)
    assert "file_hash" in found.why


def test_a_transfer_list_names_paths_in_the_cell_whatever_the_root() -> None:
    content = (
        b"Transfer Manifest nfiles: 2\nAcqId x\n/data/icc/m1_s1/hifi/a.bam\n/other/m1_s1/b.json\n"
        b"/data/else/c\nscheme\n"
    )
    found = entries(content, Form.PACBIO, "m1_s1.transferdone")
    assert found[:2] == [Listed("hifi/a.bam"), Listed("b.json")]
    assert isinstance(found[2], Unread)
    assert len(found) == 3


def test_an_mdoc_names_frames_by_where_they_lay_at_the_camera() -> None:
    content = (
        b"PixelSpacing = 1.1\r\n[ZValue = 0]\r\nSubFramePath = X:\\day 1\\frames\\a_001.tif\r\n"
        b"  SubFramePath=/mnt/k3/b_002.tif \nNumSubFrames = 40\nSubFramePath =\n"
    )
    assert entries(content, Form.SERIALEM) == [Listed("a_001.tif"), Listed("b_002.tif")]


@given(
    st.lists(
        st.binary(min_size=1, max_size=20).filter(
            lambda raw: not set(raw) & set(b"/\\\0\r\n") and raw.strip() == raw
        ).filter(lambda raw: raw not in (b".", b"..") and raw[1:2] != b":"),
        min_size=1,
    )
)  # fmt: skip
def test_what_md5sum_writes_comes_back_byte_for_byte(names: list[bytes]) -> None:
    digest = hashlib.md5(b"").hexdigest().encode()
    content = b"".join(digest + b"  " + name + b"\n" for name in names)
    found = list(read_list(content.split(b"\n"), Form.CHECKSUMS, "MD5SUMS"))
    assert found == [Listed(encode_path(name), Algorithm.MD5, MD5) for name in names]

"""Are names mapped to keys and back, whatever bytes a share holds?"""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labferry.errors import BadName
from labferry.identity import (
    MAX_KEY_BYTES,
    MAX_SEGMENT_BYTES,
    FileKey,
    Layout,
    RunKey,
    check_instrument,
    check_path,
    decode_path,
    encode_path,
)

RUN = RunKey("NovaSeq1", "run 1")
#: What S3 servers or XML mangle.
MANGLED = re.compile("[\x00-\x1f\x7f\\\\\ufffe\uffff]")

raw_names = st.binary(max_size=40) | st.text(max_size=20).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)
#: Full of what an encoding trips over.
tricky = st.lists(
    st.sampled_from([b"%", b"%2", b"41", b"\\", b"\x01", b"\xff", b"a", "ü".encode(), b"\xed\xa0"]),
    max_size=8,
).map(b"".join)


@settings(deadline=None, max_examples=500)
@given(raw_names | tricky)
@example(b"%2525")
@example(b"%\x01")
@example(b"\xef\xbf\xbe")
@example(bytes(range(256)))
def test_any_bytes_come_back_from_their_clean_text(raw: bytes) -> None:
    text = encode_path(raw)
    assert decode_path(text) == raw
    assert not MANGLED.search(text)
    text.encode()
    assert text.count("/") == raw.count(b"/")


@settings(deadline=None, max_examples=500)
@given(tricky, tricky)
def test_two_names_never_become_one(one: bytes, other: bytes) -> None:
    assert (encode_path(one) == encode_path(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".uploads", "%2Euploads"),
        ("a.versions", "a%2Eversions"),
        (".uploads/x/a.versions/y", "%2Euploads/x/a%2Eversions/y"),
        ("%2Euploads", "%252Euploads"),
        (".uploads2", ".uploads2"),
        ("uploads", "uploads"),
    ],
)
def test_folders_that_a_server_keeps_to_itself_get_another_name(name: str, text: str) -> None:
    assert encode_path(name.encode()) == text
    assert decode_path(text) == name.encode()


@pytest.mark.parametrize(
    "name", ["a b", "50%", "50% off", "%zz", "Übersicht µ.tif", "日本", "a+b#c?d&e", "~", "%"]
)
def test_what_every_server_takes_stays_readable(name: str) -> None:
    assert encode_path(name.encode()) == name


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\nb", "a%0Ab"),
        (b"a\\b", "a%5Cb"),
        (b"50%25", "50%2525"),
        (b"\xff.raw", "%FF.raw"),
        (b"\x7f", "%7F"),
        ("\uffff".encode(), "%EF%BF%BF"),
    ],
)
def test_what_a_server_mangles_is_percent_encoded(raw: bytes, text: str) -> None:
    assert encode_path(raw) == text


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "a/.",
        "./a",
        "x" * 256,
        "ü" * 128,
        "\udcff",
    ],
)
def test_a_path_that_leaves_its_run_or_that_no_key_can_hold_is_refused(path: str) -> None:
    with pytest.raises(BadName):
        check_path(path)


@pytest.mark.parametrize("path", ["a", "...", ".a", "a..", "a/b/c", "x" * 255, "ü" * 127, " "])
def test_a_path_below_its_run_is_taken(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "ü", "a/b", "a" * 64, "a\n"])
def test_an_instrument_with_an_unfit_name_is_refused(name: str) -> None:
    with pytest.raises(BadName, match="instrument name"):
        check_instrument(name)


def test_keys_are_read_as_they_are_written() -> None:
    file = RUN.file("a/b c.txt")
    assert str(file) == "NovaSeq1/run 1/a/b c.txt"
    assert FileKey.parse(str(file)) == file
    assert RunKey.parse(str(RUN)) == RUN


@settings(deadline=None)
@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True), st.data())
def test_any_key_of_clean_names_is_read_as_it_is_written(
    instrument: str, data: st.DataObject
) -> None:
    names = st.binary(min_size=1, max_size=20).filter(
        lambda raw: b"/" not in raw and raw not in (b".", b"..")
    )
    run = RunKey(instrument, encode_path(data.draw(names)))
    path = encode_path(b"/".join(data.draw(st.lists(names, min_size=1, max_size=4))))
    assert RunKey.parse(str(run)) == run
    assert FileKey.parse(str(run.file(path))) == run.file(path)


def test_a_run_that_lies_deeper_is_one_segment_of_its_keys() -> None:
    run = RunKey.below("ont", ["exp 1", "sample#2", "20240101_1200_1A_PAO1_0a1b2c3d"])
    assert str(run) == "ont/exp 1%2Fsample#2%2F20240101_1200_1A_PAO1_0a1b2c3d"
    assert RunKey.parse(str(run)) == run
    assert FileKey.parse(f"{run}/pod5/a") == run.file("pod5/a")
    assert decode_path(run.run) == b"exp 1/sample#2/20240101_1200_1A_PAO1_0a1b2c3d"


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=12),
            st.sampled_from([b"a%2Fb", b"%2f", b"%", b"2F", b"%252F"]),
        ).filter(lambda raw: b"/" not in raw and raw not in (b".", b"..")),
        min_size=1,
        max_size=3,
    )
)
def test_the_folders_of_a_run_come_back_byte_for_byte(raw: list[bytes]) -> None:
    folders = [encode_path(name) for name in raw]
    run = RunKey.below("inst", folders)
    assert RunKey.parse(str(run)).folders == tuple(folders)
    assert decode_path(run.run) == b"/".join(raw)


@pytest.mark.parametrize(
    "run", ["..%2Fb", "a%2F..", "a%2F", "%2Fa", "a%2F%2Fb", "a%2F.%2Fb", "a%2fb", "%2E%2E%2Fetc"]
)
def test_a_run_that_leads_out_of_its_root_is_refused(run: str) -> None:
    with pytest.raises(BadName):
        RunKey.parse(f"inst/{run}")


@pytest.mark.parametrize("text", ["", "a", "a/", "/b", "a/b/c", "a/..", "a b/c", "a/\ud800"])
def test_a_text_that_names_no_run_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        RunKey.parse(text)


@pytest.mark.parametrize("text", ["", "a", "a/b", "a/b/", "a//c", "/b/c", "a/b/../c"])
def test_a_text_that_names_no_file_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        FileKey.parse(text)


def test_keys_sort_by_instrument_run_and_path() -> None:
    files = [RunKey("b", "a").file("a"), RunKey("a", "b").file("b"), RunKey("a", "b").file("a")]
    assert [str(file) for file in sorted(files)] == ["a/b/a", "a/b/b", "b/a/a"]


@pytest.mark.parametrize(("prefix", "start"), [("", ""), ("lab/x", "lab/x/")])
def test_the_bucket_s_layout(prefix: str, start: str) -> None:
    layout, file = Layout(prefix), RUN.file("a/b")
    assert layout.raw(file) == f"{start}raw/NovaSeq1/run 1/a/b"
    assert layout.raw(file).startswith(layout.raw_prefix(RUN))
    assert layout.manifest(RUN, 2) == f"{start}runs/NovaSeq1/run 1/2/manifest.jsonl"
    assert layout.marker(RUN, 2) == f"{start}runs/NovaSeq1/run 1/2/complete.json"
    assert layout.marker(RUN, 2).startswith(layout.runs_prefix(RUN))
    assert layout.reason(file) == f"{start}quarantine/NovaSeq1/run 1/a/b.reason.json"
    assert layout.probe("x") == f"{start}probe/x"


def test_the_prefix_of_a_run_is_not_that_of_another() -> None:
    assert (
        not Layout()
        .raw(RunKey("seq", "run 10").file("a"))
        .startswith(Layout().raw_prefix(RunKey("seq", "run 1")))
    )


def test_an_object_key_that_is_too_long_is_refused() -> None:
    fits = MAX_KEY_BYTES - len(Layout("p").raw(RUN.file("")).encode())
    assert len(Layout("p").raw(RUN.file("x" * fits)).encode()) == MAX_KEY_BYTES
    with pytest.raises(BadName, match="1024"):
        Layout("p").raw(RUN.file("x" * (fits + 1)))
    with pytest.raises(BadName):
        Layout("p").raw(RUN.file("x" * (fits - 1) + "ü"))


LONG_NAMES = [
    "x" * 255,
    "x" * 300,
    "ü" * 130,
    "d" * 256 + "/a",
    "/".join(["deep"] * 250),
    "/".join(["d" * 250] * 5),
]


@pytest.mark.parametrize("path", LONG_NAMES, ids=len)
@pytest.mark.parametrize("run", ["r1", "r" * 255, "r" * 300])
def test_the_key_of_a_reason_fits_every_name_and_stays_its_own(run: str, path: str) -> None:
    layout = Layout("a/prefix")
    file, other = FileKey(RunKey("seq", run), path), FileKey(RunKey("seq", run), path[:-1] + "y")
    key = layout.reason(file)
    assert len(key.encode()) <= MAX_KEY_BYTES
    assert all(len(name.encode()) <= MAX_SEGMENT_BYTES for name in key.split("/"))
    assert key.startswith("a/prefix/quarantine/seq/r")
    assert key.endswith(".reason.json")
    assert key == layout.reason(file) != layout.reason(other)


@pytest.mark.parametrize("prefix", ["", "site/a"])
@pytest.mark.parametrize("edition", [1, 2, 17])
@pytest.mark.parametrize("path", ["a", "d/e f/ü%25.x", "2/a"])
def test_an_object_key_tells_its_file_and_edition(prefix: str, edition: int, path: str) -> None:
    layout, file = Layout(prefix), RunKey("scope", "a%2Fb").file(path)
    assert layout.find_file(layout.edition(file, edition)) == (file, edition)


@pytest.mark.parametrize(
    "key",
    [
        "", "raw", "raw/", "raw/scope", "raw/scope/run", "raw/scope/run/", "raw/scope/run/../x",
        "raw//run/x", "raw/sc ope/run/x", "editions/scope/run/x", "editions/scope/run/one/x",
        "editions/scope/run/02/x", "editions/scope/run/1/x", "editions/scope/run/0/x",
        "runs/scope/run/1/complete.json", "probe/x", "other/scope/run/x", "raw/scope/run//x",
    ],
)  # fmt: skip
def test_other_keys_are_no_files(key: str) -> None:
    assert Layout().find_file(key) is None
    assert Layout("site").find_file(f"site/{key}") is None
    assert Layout("site").find_file("raw/scope/run/x") is None

"""Is a file found by whichever of its names a person has?"""

import os
from pathlib import Path

import pytest

from labferry.errors import NotFound, SettingsError
from labferry.identity import FileKey, Layout, RunKey, encode_path
from labferry.source.scan import stand_in
from ops.naming import first_found

ROOTS = {"scope": Path("/mnt/scope"), "ont": Path("/mnt/scope/ont")}
LAYOUT = Layout("lab")
RUN = RunKey("scope", "run 1")
DEEP = RunKey.below("ont", ["exp", "sample#1", "20240101"])


def found(text: str, *files: FileKey) -> FileKey:
    """Return the one on record that a text names."""

    def look(file: FileKey) -> FileKey:
        if file not in files:
            raise NotFound(what=str(file), step="")
        return file

    return first_found(text, LAYOUT, ROOTS, look)


NAMES = [b"a/b.raw", b"a/new\nline", b"latin-\xe9", b"50%25.raw", b"back\\slash", "größe".encode()]


@pytest.mark.parametrize("raw", NAMES)
def test_every_name_of_a_file_leads_to_it(raw: bytes) -> None:
    file = RUN.file(encode_path(raw))
    texts = [
        str(file),
        LAYOUT.raw(file),
        LAYOUT.edition(file, 3),
        os.fsdecode(b"scope/run 1/" + raw),
        os.fsdecode(b"/mnt/scope/run 1/" + raw),
    ]
    assert {found(text, file) for text in texts} == {file}


def test_a_file_of_a_run_that_lies_deeper_is_found_by_its_path() -> None:
    file = DEEP.file("pod5/a.pod5")
    for text in (
        str(file),
        "ont/exp/sample#1/20240101/pod5/a.pod5",
        "/mnt/scope/ont/exp/sample#1/20240101/pod5/a.pod5",
        LAYOUT.raw(file),
    ):
        assert found(text, file) == file


def test_a_name_that_no_key_can_hold_is_found_under_its_stand_in() -> None:
    name = "n" * 300
    file = RUN.file(stand_in(name))
    assert found(f"scope/run 1/{name}", file) == file
    assert found(str(file), file) == file


def test_what_is_on_record_decides_between_two_readings() -> None:
    typed, encoded = RUN.file("50%25.raw"), RUN.file("50%2525.raw")
    assert found("scope/run 1/50%25.raw", typed, encoded) == typed
    assert found("scope/run 1/50%25.raw", encoded) == encoded


def test_a_file_that_is_not_on_record_is_not_found_under_the_name_given() -> None:
    with pytest.raises(NotFound) as caught:
        found("scope/run 1/nothing")
    assert "scope/run 1/nothing" in str(caught.value)


@pytest.mark.parametrize("text", ["", "scope", "scope/run 1", "/elsewhere/run 1/a", "../a/b"])
def test_what_names_no_file_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(SettingsError):
        found(text)

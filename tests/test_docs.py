"""Do the documents say what the code does?"""

import dataclasses
import hashlib
import inspect
import re
import runpy
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from labferry import errors, states
from labferry.dead_letter import DeadLetter
from labferry.identity import Layout, RunKey
from labferry.manifest import Marker, entry_line, header, marker_bytes
from labferry.profiles import Profile, load_profile, profile_names
from labferry.records import Evidence, Fingerprint, Level, Note
from labferry.s3.checksum import crc64nvme
from labferry.selector import Selector
from labferry.settings import InstrumentSettings
from labferry.states import Event, State
from ops.cli import app
from tests.unit.labferry.records_by_hand import record as record_by_hand

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
COMMANDS = typer.main.get_group(app).commands
README = (ROOT / "README.md").read_text("utf-8")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def test_no_part_that_comes_from_the_code_is_stale() -> None:
    rewritten = runpy.run_path(str(DOCS / "generate.py"))["rewritten"]
    stale = [page.name for page in DOCS.rglob("*.md") if rewritten(text(page)) != text(page)]
    assert stale == [], "make docs"


def test_the_states_are_shown_as_the_diagram_of_the_table() -> None:
    assert f"```mermaid\n{states.mermaid()}\n```" in text(DOCS / "states.md")


def test_every_command_is_documented() -> None:
    documented = set(re.findall(r"^### `labferry ([a-z-]+)", text(DOCS / "commands.md"), re.M))
    assert documented == set(COMMANDS)


def test_the_tree_of_errors_in_their_docstring_is_the_tree_of_classes() -> None:
    assert dict(drawn_errors(errors.__doc__ or "")) == dict(derived_errors(errors.LabferryError))


def drawn_errors(drawing: str) -> Iterator[tuple[str, str]]:
    """Yield each error of the drawing with what it is drawn below; the depth is the indent."""
    above: list[str] = []
    for line in drawing.splitlines():
        drawn = re.match(r"([│├└─ ]*)([A-Z][A-Za-z]+)(?:$| {2,})", line)
        if drawn and (above or drawn[2] == "LabferryError"):
            depth = len(drawn[1]) // 4
            above[depth:] = [drawn[2]]
            if depth:
                yield drawn[2], above[depth - 1]


def derived_errors(parent: type[Exception]) -> Iterator[tuple[str, str]]:
    for child in parent.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child.__name__, parent.__name__
            yield from derived_errors(child)


@each_page
def test_a_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text(page))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@each_page
def test_a_command_in_a_document_exists(page: Path) -> None:
    called = set(re.findall(r"`(?:\.venv/bin/)?labferry ([a-z][a-z-]*)", text(page)))
    called |= set(re.findall(r"^ {4}(?:\.venv/bin/)?labferry ([a-z][a-z-]*)", text(page), re.M))
    assert called <= set(COMMANDS)


@each_page
def test_a_make_target_in_a_document_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):.*##", text(ROOT / "Makefile"), re.M))
    assert set(re.findall(r"`make ([a-z]+)", text(page))) <= targets


def test_a_document_that_the_code_names_exists() -> None:
    packages = ("labferry", "producer", "workers", "ops")
    sources = [one for package in packages for one in (ROOT / package).rglob("*.py")]
    named = {name for one in sources for name in re.findall(r"docs/[\w/-]+\.md", text(one))}
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_bucket_is_shown_with_lines_as_they_are_written() -> None:
    body, run = b"123456789", RunKey("scope", "2026-11-29")
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
    record = replace(
        record_by_hand(State.VERIFIED),
        fingerprint=Fingerprint(len(body), 1795984525943000000, 1, 1),
        evidence=Evidence(level=Level.A, crc64=crc64nvme(body), etag=digest),
    )
    layout = Layout()
    lines = [
        header(run, 1),
        entry_line("stack.czi", layout.raw(run.file("stack.czi")), record),
        marker_bytes(
            Marker(
                run=run,
                generation=1,
                manifest=layout.manifest(run, 1),
                sha256="...",
                files=1,
                size=len(body),
                total_files=1,
                evidence={"A": 1},
            )
        ),
    ]
    for line in lines:
        assert f"    {line.decode()}" in text(DOCS / "bucket.md")


def test_every_document_is_listed() -> None:
    listed = set(re.findall(r"\]\(([^)]+)\)", text(DOCS / "index.md")))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert pages - {"index.md"} <= listed


def test_the_readme_opens_with_the_two_commands() -> None:
    assert re.search(r"^    make demo .*\n    make test ", README, re.MULTILINE)


def test_the_public_docstrings_of_errors_say_what_they_are() -> None:
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        assert inspect.getdoc(kind), name


def text(page: Path) -> str:
    return page.read_text("utf-8")


def test_every_field_of_a_dead_letter_is_documented() -> None:
    note = Note(event=Event.QUARANTINE, kind="permanent", code="c", message="m")
    act = Note(event=Event.REPLAY, kind="operator", code="c", message="m")
    letter: dict[str, Any] = DeadLetter(
        file=RunKey("seq", "r1").file("a"),
        at_ms=1,
        record=record_by_hand(State.QUARANTINED),
        notes=(note, act),
    ).to_json()
    page = text(DOCS / "dead-letters.md")
    table = page.partition("| field |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(letter)
    for field in ("attempts", "acts"):
        [told] = re.findall(rf"^\| `{field}` \|.*?: (`.*`) \|$", table, re.M)
        assert re.findall(r"`(\w+)`", told) == list(letter[field][0])


def test_every_option_of_the_selector_is_documented() -> None:
    fields = {one.name for one in dataclasses.fields(Selector)}
    names = {re.sub("_(s|bytes)$", "", name).replace("_", "-") for name in fields}
    assert set(re.findall(r"^\| `--([a-z-]+)", text(DOCS / "dead-letters.md"), re.M)) == names


def test_every_section_of_settings_that_a_facility_copies_is_accepted() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", text(DOCS / "instruments.md"), re.M | re.S)
    assert blocks
    for block in blocks:
        for name, fields in tomllib.loads(block)["instruments"].items():
            assert InstrumentSettings.model_validate(fields).resolved(), name


def test_the_profile_that_is_shown_as_ones_own_is_accepted(tmp_path: Path) -> None:
    [shown] = re.findall(r"(?:^ {7}.*\n)+", text(DOCS / "instruments.md"), re.M)
    (tmp_path / "our-scope.toml").write_text(re.sub(r"(?m)^ {7}", "", shown), "utf-8")
    assert load_profile("our-scope", {}, tmp_path).marker == "acquisition-done.json"


def test_every_profile_and_every_field_that_a_facility_is_told_of_exists() -> None:
    page = text(DOCS / "instruments.md")
    table = page.partition("| profile |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.M)
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == set(profile_names()) - {"illumina"}
    fields = page.partition("| question |")[2]
    assert set(re.findall(r"`(\w+)`", fields)) <= set(Profile.model_fields)


def test_every_case_is_held_by_tests_that_exist() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (`test_.*`) \|$", text(DOCS / "cases.md"), re.M)
    assert [int(number) for number, _ in rows] == list(range(1, 53))
    tests = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", text(file), re.M)
    }
    assert {name for _, held in rows for name in re.findall(r"\w+", held)} - tests == set()

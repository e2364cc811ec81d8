"""Can the commands that docs/consumers.md shows be run as they stand?"""

import re
import shlex
from pathlib import Path

import pytest

from labferry.events import read_event, run_event
from labferry.identity import RunKey
from labferry.manifest import Marker
from ops.command_template import FIELDS, CommandTemplate

PAGE = (Path(__file__).parents[3] / "docs" / "consumers.md").read_text("utf-8")
LINES = re.findall(r"^ {4,}(labferry consume .*--exec .*)$", PAGE, re.M)
MARKER = Marker(
    run=RunKey("seq", "run 1"),
    generation=2,
    manifest="runs/seq/run 1/2/manifest.jsonl",
    sha256="ab" * 32,
    files=1,
    size=2,
    total_files=1,
    evidence={"A": 1},
)


def test_there_are_commands_in_the_document() -> None:
    assert len(LINES) >= 4


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_document_is_filled_in(line: str) -> None:
    words = shlex.split(line, comments=True)
    command = CommandTemplate(words[words.index("--exec") + 1])
    event = read_event(run_event(MARKER, "runs/seq/run 1/2/complete.json", "lab"))
    filled = command.filled(event)
    assert MARKER.manifest in " ".join(filled)
    assert not re.search(r"\{[a-z]+\}", " ".join(filled))


def test_every_field_is_documented() -> None:
    for name in FIELDS:
        assert f"`{{{name}}}`" in PAGE

"""Do list, show and export say what stopped, by cause and file by file?"""

import json
from pathlib import Path
from typing import Any

import pytest

from labferry.errors import NotFound, SettingsError
from labferry.records import Note, Step
from labferry.selector import Selector, read_selector
from labferry.states import Event
from ops.dead_letters import export_letters, list_letters, show_letter
from tests.ledger_world import ACT
from tests.memory_ledger import MemoryLedger
from tests.unit.ops.letters import RUN, ledger_of_letters

FILE = f"{RUN}/d/007.txt"


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> MemoryLedger:
    monkeypatch.setenv("COLUMNS", "80")
    return ledger_of_letters()


def listed(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str], *, files: bool = False, **named: Any
) -> str:
    list_letters(ledger, read_selector(**named), files=files, as_json=False)
    return capsys.readouterr().out


def facts(ledger: MemoryLedger, capsys: pytest.CaptureFixture[str], **named: Any) -> dict[str, Any]:
    list_letters(ledger, read_selector(**named), files=False, as_json=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_letters_are_grouped_by_cause_the_largest_first(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    out = listed(ledger, capsys)
    assert out.splitlines()[0] == "314 files, 2 causes"
    assert "AccessDenied (permanent): 312 files, 312.0 kB, in 2 runs" in out
    assert "EntityTooLarge (permanent): 2 files, 2.0 TB, in 1 run" in out
    assert out.index("AccessDenied") < out.index("EntityTooLarge")
    assert "Allow the workers s3:PutObject" in out
    assert "1 message could not be decoded" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_a_group_tells_when_it_began_and_last_grew(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "2027-01-15 08:00:00 UTC to 2027-01-15 09:00:00 UTC" in listed(ledger, capsys)


def test_files_are_listed_one_a_line(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = listed(ledger, capsys, files=True).splitlines()
    assert len(lines) == 314
    assert sum("AccessDenied  seq/r1/d/007.txt" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("named", "count"),
    [
        ({"run": str(RUN)}, 300),
        ({"instrument": "scope"}, 14),
        ({"code": "EntityTooLarge"}, 2),
        ({"file": FILE}, 1),
        ({"older_than": "90m"}, 300),
        ({"larger_than": "1GB"}, 2),
        ({"instrument": "scope", "code": "AccessDenied"}, 12),
        ({"all": True}, 314),
        ({}, 314),
        ({"code": "x"}, 0),
    ],
)
def test_a_selector_chooses(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str], named: dict[str, Any], count: int
) -> None:
    found = facts(ledger, capsys, **named)
    assert len(found["letters"]) == count
    lines = listed(ledger, capsys, files=True, **named).splitlines()
    assert len(lines) == count


def test_the_json_has_the_fixed_form(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    found = facts(ledger, capsys, file=FILE)
    [letter] = found["letters"]
    assert letter["file"] == FILE
    assert {"kind", "code", "fingerprint", "at", "attempts"} <= letter.keys()
    [attempt] = letter["attempts"]
    assert {"at", "worker", "token", "kind", "code", "message"} <= attempt.keys()
    assert found["messages"] == [{"why": "the payload is not an object"}]


def test_a_fingerprint_from_the_list_chooses_its_group(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    [one] = {letter["fingerprint"] for letter in facts(ledger, capsys, run=str(RUN))["letters"]}
    assert len(facts(ledger, capsys, fingerprint=one)["letters"]) == 312
    assert len(facts(ledger, capsys, fingerprint=one[:5])["letters"]) == 312


def test_no_dead_letter_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(MemoryLedger(), capsys) == "There is no dead letter.\n"
    assert "with --code x." in listed(MemoryLedger(), capsys, code="x")
    assert facts(MemoryLedger(), capsys) == {"letters": [], "messages": [], "deliveries": []}


@pytest.mark.parametrize("named", [{"run": "seq/r9"}, {"file": "seq/r1/none"}])
def test_a_run_or_file_that_is_not_on_record_is_not_found(
    ledger: MemoryLedger, named: dict[str, Any]
) -> None:
    with pytest.raises(NotFound):
        list_letters(ledger, read_selector(**named), files=False, as_json=True)


def test_what_was_sent_in_again_or_discarded_is_listed_no_more_and_still_shown(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    for event, path in ((Event.REPLAY, "d/001.txt"), (Event.DISCARD, "d/002.txt")):
        note = Note(event=event, kind="operator", code=event, message="LIMS-7", worker="ada@lab")
        ledger.act(RUN, event, [Step(path=path, note=note)], ACT)
    assert len(facts(ledger, capsys, run=str(RUN))["letters"]) == 298
    show_letter(ledger, f"{RUN}/d/001.txt", as_json=False)
    out = capsys.readouterr().out
    assert "replayed" in out
    assert "replay replay by ada@lab: LIMS-7" in out
    show_letter(ledger, f"{RUN}/d/002.txt", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["status"], told["code"]) == ("discarded", "AccessDenied")
    assert told["acts"][0]["actor"] == "ada@lab"


def test_show_tells_everything_of_one(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    show_letter(ledger, FILE, as_json=False)
    out = capsys.readouterr().out
    for part in ("dead", "AccessDenied (permanent)", "to do", "by host:1", "(repeating"):
        assert part in out


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (f"{RUN}/none", NotFound),
        (f"{RUN}/alive", NotFound),
        ("seq/r1", SettingsError),
        ("", SettingsError),
    ],
)
def test_what_is_no_dead_letter_is_not_shown(
    ledger: MemoryLedger, key: str, error: type[Exception]
) -> None:
    ledger.discover(RUN, [("alive", ledger.data[RUN].files["d/001.txt"].fingerprint)])
    with pytest.raises(error):
        show_letter(ledger, key, as_json=True)


def test_an_export_is_a_letter_a_line_and_what_was_buried(
    ledger: MemoryLedger, tmp_path: Path
) -> None:
    output = tmp_path / "letters.jsonl"
    output.write_text("an older one")
    export_letters(ledger, Selector(), output)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(lines) == 315
    assert lines[-1] == {"buried": {"why": "the payload is not an object"}}
    assert {line["code"] for line in lines[:-1]} == {"AccessDenied", "EntityTooLarge"}
    assert list(tmp_path.iterdir()) == [output]


def test_an_export_that_fails_leaves_the_older_one(ledger: MemoryLedger, tmp_path: Path) -> None:
    output = tmp_path / "letters.jsonl"
    output.write_text("an older one")
    ledger.dead_messages = lambda: 1 / 0  # type: ignore[assignment,return-value]
    with pytest.raises(ZeroDivisionError):
        export_letters(ledger, Selector(), output)
    assert output.read_text() == "an older one"
    assert list(tmp_path.iterdir()) == [output]


def test_a_buried_text_that_is_no_json_is_shown_as_it_is(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.bury("{ not json")
    assert facts(ledger, capsys)["messages"][-1] == {"text": "{ not json"}
    assert "{ not json" in listed(ledger, capsys)


@pytest.mark.parametrize(
    "named", [{"run": "seq/none"}, {"file": "seq/r1/none"}, {"instrument": "sec"}]
)
def test_json_is_whole_or_not_there_at_all(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str], named: dict[str, Any]
) -> None:
    with pytest.raises(NotFound):
        facts(ledger, capsys, **named)
    assert capsys.readouterr().out == ""

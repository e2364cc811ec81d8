"""Is what operators did shown in order, and a touched line found?"""

import json
from dataclasses import replace

import pytest

from labferry.errors import NotFound, SettingsError
from labferry.records import Step
from labferry.states import Event
from ops.audit import read_words, show_audit, verify_audit
from ops.exits import Exit
from tests.ledger_world import ACT
from tests.memory_ledger import MemoryLedger
from tests.unit.ops.letters import OTHER, RUN, bury


@pytest.fixture
def ledger() -> MemoryLedger:
    ledger = MemoryLedger()
    for number, run in enumerate((RUN, OTHER, RUN, None, OTHER)):
        ledger.pass_ms(1000)
        act = replace(ACT, reason=f"reason {number}", selector="--all")
        if run is None:
            ledger.record_act(None, act)
        else:
            bury(ledger, run, f"f{number}")
            ledger.act(run, Event.DISCARD, [Step(path=f"f{number}")], act)
    return ledger


def test_acts_of_all_runs_are_shown_oldest_first(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    show_audit(ledger, None, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["0", "1", "2", "3", "4"]
    assert f"ada@lab  test in {RUN}, 1 file (--all): reason 0" in lines[0]
    assert "ada@lab  test (--all): reason 3" in lines[3]


def test_acts_of_one_run_are_shown(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    show_audit(ledger, str(OTHER), as_json=True)
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [entry["reason"] for entry in entries] == ["reason 1", "reason 4"]
    assert entries[0]["files"][0]["path"] == "f1"
    assert (entries[0]["actor"], entries[0]["run"]) == ("ada@lab", str(OTHER))


def test_an_untouched_audit_is_whole(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify_audit(ledger, None, as_json=True) is Exit.DONE
    audits = json.loads(capsys.readouterr().out)["audits"]
    assert [(one["run"], one["lines"], one["whole"]) for one in audits] == [
        ("", 1, True),
        (str(OTHER), 2, True),
        (str(RUN), 2, True),
    ]


def test_a_changed_line_is_found_and_named(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.audits[RUN][1] = ledger.audits[RUN][1].replace("reason 2", "reason two")
    assert verify_audit(ledger, None, as_json=False) is Exit.FAILED
    out = capsys.readouterr().out
    assert f"{RUN}: BROKEN at line 2: it was changed" in out
    assert f"{OTHER}: whole, 2 lines" in out
    assert verify_audit(ledger, str(OTHER), as_json=False) is Exit.DONE


def test_an_audit_that_was_emptied_is_found(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.audits[None].clear()
    assert verify_audit(ledger, None, as_json=True) is Exit.FAILED
    audits = json.loads(capsys.readouterr().out)["audits"]
    assert audits[0]["fault"] == {"line": 1, "why": "the lines from here on are missing"}


def test_a_line_added_while_it_is_read_is_no_fault(ledger: MemoryLedger) -> None:
    before = ledger.audit_head(RUN)
    heads = iter([before])
    ledger.record_act(RUN, ACT)
    last = ledger.audit_head
    ledger.audit_head = lambda run: next(heads, None) or last(run)  # type: ignore[method-assign]
    assert verify_audit(ledger, str(RUN), as_json=True) is Exit.DONE


def test_nothing_on_record_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_audit(MemoryLedger(), None, as_json=False)
    assert verify_audit(MemoryLedger(), None, as_json=False) is Exit.DONE
    assert capsys.readouterr().out.count("Nothing is on record") == 2
    show_audit(MemoryLedger(), None, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"entries": []}


def test_a_run_that_is_not_known_is_not_found(ledger: MemoryLedger) -> None:
    with pytest.raises(NotFound):
        show_audit(ledger, "seq/none", as_json=True)
    with pytest.raises(SettingsError):
        verify_audit(ledger, "seq", as_json=True)


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ([], (None, False)),
        (["verify"], (None, True)),
        (["seq/r1"], ("seq/r1", False)),
        (["seq/r1", "verify"], ("seq/r1", True)),
        (["verify", "seq/r1"], ("seq/r1", True)),
    ],
)
def test_a_run_and_verify_stand_in_any_order(
    words: list[str], read: tuple[str | None, bool]
) -> None:
    assert read_words(words) == read


@pytest.mark.parametrize("words", [["a/b", "c/d"], ["verify", "verify"]])
def test_more_is_too_much(words: list[str]) -> None:
    with pytest.raises(SettingsError):
        read_words(words)

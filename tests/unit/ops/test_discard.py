"""Are files given up only as asked, with who and why on record?"""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from labferry.audit import Act, read_line
from labferry.errors import NotFound, Refused, SettingsError
from labferry.identity import RunKey
from labferry.records import Outcome, Step
from labferry.selector import read_selector
from labferry.states import Event, State
from ops.discard import discard_letters
from ops.exits import Exit
from tests.ledger_world import ACT
from tests.memory_ledger import MemoryLedger
from tests.unit.ops.letters import OTHER, RUN, bury, ledger_of_letters

#: The last that is looked at.
LAST = RunKey("zeiss", "r1")


@pytest.fixture
def ledger() -> MemoryLedger:
    return ledger_of_letters()


def discard(ledger: MemoryLedger, *, yes: bool = True, dry_run: bool = False, **named: Any) -> Exit:
    return discard_letters(
        ledger, read_selector(**named), ACT, dry_run=dry_run, yes=yes, as_json=True
    )


def dead(ledger: MemoryLedger) -> int:
    return sum(len(data.dead) for data in ledger.data.values())


def test_what_is_chosen_is_discarded_and_the_rest_is_not(ledger: MemoryLedger) -> None:
    assert discard(ledger, code="EntityTooLarge") is Exit.DONE
    assert dead(ledger) == 312
    assert ledger.data[OTHER].files["big 1.raw"].state is State.DISCARDED
    [line] = ledger.audit(OTHER)
    assert read_line(line).act == ACT
    assert list(ledger.audit(RUN)) == []
    note = ledger.history(OTHER.file("big 1.raw"))[-1]
    assert (note.event, note.worker, note.message) == (Event.DISCARD, ACT.actor, ACT.reason)


def test_a_thousand_files_are_a_few_acts_of_each_run(ledger: MemoryLedger) -> None:
    bury(ledger, RUN, *(f"more/{number}" for number in range(900)))
    assert discard(ledger, all=True) is Exit.DONE
    assert dead(ledger) == 0
    counts = [len(read_line(line).files) for line in ledger.audit(RUN)]
    assert (sum(counts), max(counts)) == (1200, 500)


def test_nothing_chosen_is_refused(ledger: MemoryLedger) -> None:
    with pytest.raises(SettingsError, match="nothing is chosen"):
        discard(ledger)
    assert dead(ledger) == 314


def test_a_dry_run_changes_nothing(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert discard(ledger, dry_run=True, all=True) is Exit.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["dry_run"], told["discarded"]) == (True, 0)
    assert [group["count"] for group in told["groups"]] == [312, 2]
    assert dead(ledger) == 314


def test_without_anybody_to_ask_it_needs_a_yes(ledger: MemoryLedger) -> None:
    with pytest.raises(Refused, match="--yes"):
        discard(ledger, yes=False, all=True)
    assert dead(ledger) == 314
    assert list(ledger.audit(RUN)) == []


@pytest.mark.parametrize(("answer", "left"), [("y", 0), (" YES ", 0), ("n", 314), ("", 314)])
def test_on_a_terminal_it_asks(
    ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    asked: list[str] = []

    def ask(text: str) -> str:
        asked.append(text)
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", ask)
    try:
        discard(ledger, yes=False, all=True)
    except Refused:
        assert left
    assert dead(ledger) == left
    assert asked == ["Discard 314 files, 2 causes? [y/N] "]


def test_where_none_is_meant_nobody_is_asked(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert discard(ledger, yes=False, code="x") is Exit.DONE
    assert json.loads(capsys.readouterr().out)["groups"] == []


def test_a_file_that_is_no_dead_letter_is_not_found(ledger: MemoryLedger) -> None:
    discard(ledger, file=f"{RUN}/d/001.txt")
    with pytest.raises(NotFound):
        discard(ledger, file=f"{RUN}/d/001.txt")


class Meddled(MemoryLedger):
    """Something happens between the look and the act."""

    def act(self, run: RunKey, event: Event, steps: Sequence[Step], act: Act) -> list[Outcome]:
        if event is Event.DISCARD and act.actor != "other":
            other = Act(actor="other", reason="r", what="replay")
            super().act(run, Event.REPLAY, [Step(path="a")], other)
            self.pass_ms(1)
            bury(self, LAST, "late")
        return super().act(run, event, steps, act)


def test_what_another_sent_in_again_meanwhile_is_left_and_said_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ledger = Meddled()
    bury(ledger, RUN, "a", "b")
    assert discard(ledger, all=True) is Exit.PARTIAL
    told = json.loads(capsys.readouterr().out)
    assert (told["discarded"], told["left"]) == (1, 1)
    assert ledger.data[RUN].files["a"].state is State.ELIGIBLE


def test_what_dies_after_it_was_shown_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Meddled()
    for run in (OTHER, RUN, LAST):
        bury(ledger, run, "0")
    discard(ledger, all=True)
    assert [list(ledger.data[run].dead) for run in (OTHER, RUN, LAST)] == [[], [], ["late"]]


def test_people_are_shown_what_is_meant_and_what_was_done(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    discard_letters(ledger, read_selector(all=True), ACT, dry_run=False, yes=True, as_json=False)
    out = capsys.readouterr().out
    assert out.startswith("314 files, 2 causes\n")
    assert out.endswith("Discarded: 314.\n")

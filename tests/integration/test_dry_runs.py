"""Does a command that changes something say with --dry-run what, and change nothing?"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from labferry.identity import RunKey
from labferry.inbox import Stage, open_inbox
from labferry.ledger import RedisLedger, open_ledger
from labferry.settings import LedgerSettings
from ops.cli import run_command
from tests.contract.test_inbox import event
from tests.ledger_world import PRINT

RUN = RunKey("seq", "r1")
WHY = ["--reason", "LIMS-7"]


class Desk:
    """A ledger with one run, an inbox with one failed event, and the command line."""

    def __init__(self, folder: Path, ledger_url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.config, self.inbox = folder / "labferry.toml", str(folder / "inbox.sqlite3")
        self.config.write_text(
            f'[store]\nbucket = "bucket"\n[ledger]\nurl = "{ledger_url}"\n'
            f'[instruments.seq]\nroot = "{folder}"\n'
        )
        self.capsys = capsys
        self.ledger: RedisLedger = open_ledger(LedgerSettings(url=ledger_url))
        self.ledger.discover(RUN, [("a.txt", PRINT)])
        inbox = open_inbox(self.inbox)
        inbox.receive(event())
        taken = inbox.take()
        assert taken
        inbox.fail(taken, "exit 1", wait_s=None)

    def run(self, *words: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = run_command([*words, "--config", str(self.config)])
        return code, self.capsys.readouterr().out

    def facts(self, *words: str) -> dict[str, Any]:
        code, out = self.run(*words, "--json")
        assert code == 0
        facts: dict[str, Any] = json.loads(out)
        return facts

    def state(self) -> object:
        (entry,) = open_inbox(self.inbox).entries()
        return (
            self.ledger.holds(),
            self.ledger.limits(),
            self.ledger.out_of_custody(),
            list(self.ledger.audit(RUN)),
            list(self.ledger.audit(None)),
            entry,
        )


@pytest.fixture
def desk(tmp_path: Path, ledger_url: str, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, ledger_url, capsys)


ACTS = [
    ("hold", "seq"),
    ("limit", "seq", "5MB", "--until", "2h"),
    ("limit", "all", "default"),
    ("custody", "seq/r1", "--release"),
    ("custody", "seq/r1", "--resume"),
    ("consume", "--done", "seq/r 1/1"),
    ("consume", "--again", "seq/r 1/1"),
]


@pytest.mark.parametrize("words", ACTS, ids=" ".join)
def test_a_dry_run_changes_nothing_and_the_command_itself_does(
    desk: Desk, words: Sequence[str]
) -> None:
    words = [*words, *(["--inbox", desk.inbox] if words[0] == "consume" else [])]
    before = desk.state()
    assert desk.run(*words)[0] == 2, "a reason is demanded"
    code, out = desk.run(*words, *WHY, "--dry-run")
    assert (code, out.startswith("Nothing was changed.")) == (0, True)
    assert desk.facts(*words, *WHY, "--dry-run")["dry_run"] is True
    assert desk.state() == before
    assert desk.facts(*words, *WHY).get("dry_run", False) is False
    assert desk.state() != before


def test_a_release_that_is_tried_leaves_the_hold(desk: Desk) -> None:
    assert desk.facts("hold", "seq", *WHY) == {"name": "seq", "held": True, "dry_run": False}
    assert desk.run("release", "seq", *WHY, "--dry-run")[0] == 0
    assert "seq" in desk.ledger.holds()
    assert desk.facts("release", "seq", *WHY) == {"name": "seq", "held": False, "dry_run": False}
    assert not desk.ledger.holds()


def test_what_would_be_refused_is_refused_by_a_dry_run_too(desk: Desk) -> None:
    assert desk.run("release", "seq", *WHY, "--dry-run")[0] == 4
    assert desk.run("hold", "nobody", *WHY, "--dry-run")[0] == 5
    assert desk.run("limit", "nobody", "1MB", *WHY, "--dry-run")[0] == 5
    other = ["consume", "--done", "seq/r 9/1", "--inbox", desk.inbox]
    assert desk.run(*other, *WHY, "--dry-run")[0] == 5


def test_a_decision_on_an_event_is_listed_with_who_and_why(desk: Desk) -> None:
    shown = desk.facts("consume", "--again", "seq/r 1/1", "--inbox", desk.inbox, *WHY)
    assert shown["stage"] == Stage.WAITING
    _, out = desk.run("consume", "--list", "--inbox", desk.inbox)
    assert "failed, again by " in out
    assert "LIMS-7" in out
    (entry,) = desk.facts("consume", "--list", "--inbox", desk.inbox)["entries"]
    assert [one["reason"] for one in entry["decisions"]] == ["LIMS-7"]


def test_a_dry_run_of_what_changes_nothing_is_wrong_usage(desk: Desk) -> None:
    assert desk.run("custody", "--dry-run")[0] == 2
    assert desk.run("consume", "--dry-run", "--exec", "true", "--inbox", desk.inbox)[0] == 2

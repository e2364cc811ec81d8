"""The commands of dead letters and the audit as an operator meets them: codes and sentences."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from labferry.identity import RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.keys import RunKeys
from labferry.records import Fingerprint, Note, Step
from labferry.settings import LedgerSettings
from labferry.states import Event
from tests.acceptance.command import Command

RUN = RunKey("scope", "run 1")
WHY = ("--reason", "LIMS-7")


@pytest.fixture
def labferry(tmp_path: Path, ledger_url: str) -> Iterator[Command]:
    """The command with a ledger; no bucket and no share are asked for."""
    (tmp_path / "labferry.toml").write_text(
        f'[store]\nbucket = "bucket"\n[ledger]\nurl = "{ledger_url}"\n'
        f'[instruments.scope]\nroot = "{tmp_path}"\n'
    )
    command = Command(tmp_path, {})
    yield command
    command.close()


@pytest.fixture
def ledger(ledger_url: str) -> RedisLedger:
    """Three dead letters of two causes."""
    ledger = open_ledger(LedgerSettings(url=ledger_url))
    for path, code in (("a", "EACCES"), ("b", "EACCES"), ("c", "bad_name")):
        ledger.discover(RUN, [(path, Fingerprint(10, 1, 2, 3))])
        message = f"{path}: it says \udcff and [bold]µ[/bold]"
        note = Note(event=Event.REFUSE, kind="permanent", code=code, message=message)
        ledger.move(RUN, Event.REFUSE, [Step(path=path, note=note)])
    return ledger


def test_what_stopped_is_listed_whatever_its_error_says(
    labferry: Command, ledger: RedisLedger
) -> None:
    for option in ([], ["--files"], ["--json"]):
        ended = labferry.run("dead-letters", "list", *option, PYTHONIOENCODING="ascii:strict")
        assert (ended.code, ended.err) == (0, "")
        assert "EACCES" in ended.out
    page = labferry.run("dead-letters", "list").out
    assert page.startswith("3 files, 2 causes")
    assert "[bold]" in page


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["list", "--run", "scope/none"], 5, "the run scope/none is not known"),
        (["list", "--older-than", "soon"], 2, "--older-than"),
        (["show", "scope/run 1/none"], 5, "is not known"),
        (["show", "scope"], 2, "INSTRUMENT/RUN/PATH"),
        (["discard", "--all"], 2, "--reason"),
        (["discard", *WHY], 2, "nothing is chosen"),
        (["discard", "--all", *WHY], 4, "--yes"),
        (["discard", "--file", "scope/run 1/d", *WHY, "--yes"], 5, "not known"),
        (["export", "--output", "/none/such/file"], 2, "/none/such/file: it cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_ends_with_its_code_and_changes_nothing(
    labferry: Command, ledger: RedisLedger, arguments: list[str], code: int, said: str
) -> None:
    ended = labferry.run("dead-letters", *arguments)
    assert ended.code == code
    assert said in ended.err
    assert len(list(ledger.dead_files(RUN))) == 3
    assert list(ledger.audit(RUN)) == []


def test_a_discard_is_done_once_and_on_record(labferry: Command, ledger: RedisLedger) -> None:
    asked = ("dead-letters", "discard", "--code", "EACCES", *WHY)
    dry = labferry.run(*asked, "--dry-run", "--json")
    assert (dry.code, json.loads(dry.out)["discarded"]) == (0, 0)
    done = labferry.run(*asked, "--yes", "--json")
    assert (done.code, json.loads(done.out)["discarded"]) == (0, 2)
    again = labferry.run(*asked, "--yes")
    assert (again.code, again.out) == (0, "No dead letter is meant.\n")
    audit = labferry.run("audit", "--json")
    [entry] = json.loads(audit.out)["entries"]
    assert entry["selector"] == "--code EACCES"
    assert [one["path"] for one in entry["files"]] == ["a", "b"]
    assert "LIMS-7" in labferry.run("audit", str(RUN)).out


def test_a_touched_audit_is_a_failure(
    labferry: Command, ledger: RedisLedger, ledger_url: str
) -> None:
    labferry.run("dead-letters", "discard", "--all", *WHY, "--yes")
    assert labferry.run("audit", "verify").code == 0
    with redis.Redis.from_url(ledger_url) as client:
        key = RunKeys(RUN).audit
        [line] = client.lrange(key, 0, -1)
        client.lset(key, 0, line.replace(b"LIMS-7", b"LIMS-8"))
    ended = labferry.run("audit", str(RUN), "verify")
    assert ended.code == 1
    assert "BROKEN at line 1" in ended.out
    assert labferry.run("audit", "verify", "scope/none").code == 5


def test_an_export_is_there_whole(labferry: Command, ledger: RedisLedger, tmp_path: Path) -> None:
    assert labferry.run("dead-letters", "export", "--output", "letters.jsonl").code == 0
    lines = (tmp_path / "letters.jsonl").read_text("utf-8").splitlines()
    assert sorted(json.loads(line)["file"] for line in lines) == [
        "scope/run 1/a",
        "scope/run 1/b",
        "scope/run 1/c",
    ]
    assert labferry.run("dead-letters", "export", "--code", "bad_name").out.count("\n") == 1

"""Is a run safe to delete only when every file is proven, and unchanged to this moment?"""

import ast
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from labferry.audit import Act
from labferry.compaction import Records
from labferry.completion import RunState, run_state
from labferry.errors import SettingsError
from labferry.ledger import RedisLedger
from labferry.profiles import load_profile
from labferry.records import Note, Step
from labferry.states import Event
from ops import check_statement
from ops.check_statement import main as check
from ops.safe_to_delete import Examiner, Judgement
from ops.statement import check_key, statement_lines
from ops.verify import Verification
from tests.dock import RUN, Dock
from tests.manual_clock import ManualClock
from tests.memory_store import MemoryStore
from workers.complete import Completer

KEY = "0123456789abcdef-key"
ACT = Act(actor="ada@lab", reason="LIMS-7", what="hold")
NAMES = ("a.txt", "d/b c.txt", "ü")


@pytest.fixture
def dock(tmp_path: Path, ledger_url: str) -> Dock:
    """A run of three files that is complete."""
    found = Dock(tmp_path, ledger_url, MemoryStore())
    for name in NAMES:
        found.write(name, name.encode())
    found.ferried(*NAMES)
    assert found.ledger.seal(RUN, [], len(NAMES))
    complete(found)
    return found


def complete(dock: Dock) -> None:
    completer = Completer(ledger=dock.ledger, store=dock.store, layout=dock.layout)
    assert completer.complete(RUN)


def judged(dock: Dock, out: Path | None = None, **profile: object) -> Judgement:
    """Ask as the command does."""
    facts = dock.ledger.find_facts(RUN)
    assert facts
    report = Verification(
        store=dock.store, layout=dock.layout, run=RUN, clock=ManualClock(), budget_s=60
    ).report()
    examiner = Examiner(ledger=dock.ledger, store=dock.store, layout=dock.layout)
    judgement = examiner.examine(facts, report)
    if not judgement.is_safe:
        return judgement
    folder = dock.root.parent / "work"
    folder.mkdir(exist_ok=True)
    with (out or folder / "files").open("w") as file:
        return examiner.compare(facts, dock.root, load_profile("generic", profile), folder, file)


def why(dock: Dock) -> str:
    judgement = judged(dock)
    assert not judgement.is_safe
    return json.dumps(judgement.to_json(), ensure_ascii=False)


def test_a_complete_run_is_safe_with_a_proof_for_each_file(dock: Dock, tmp_path: Path) -> None:
    judgement = judged(dock, tmp_path / "files")
    assert judgement.is_safe
    assert (judgement.files, judgement.size) == (3, sum(len(name.encode()) for name in NAMES))
    files = [json.loads(line) for line in (tmp_path / "files").read_text().splitlines()]
    assert sorted(one["path"] for one in files) == sorted(NAMES)
    for one in files:
        assert one["evidence"] == "A"
        assert one["source"] == "unchanged"
        assert len(one["crc64nvme"]) == 16
        assert one["verified_at"] >= one["unchanged_since"] > "2024"
        assert one["key"] == dock.key(one["path"])


def change(dock: Dock) -> None:
    dock.write("a.txt", b"b.txt")


def touch(dock: Dock) -> None:
    os.utime(dock.source("a.txt"), ns=(5, 5))


def edit_in_secret(dock: Dock) -> None:
    """Change one byte, and put size and time back."""
    path = dock.source("a.txt")
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"A")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def another(dock: Dock) -> None:
    dock.write("late.txt")


def replace(dock: Dock) -> None:
    path = dock.source("a.txt")
    times = path.stat()
    path.unlink()
    path.write_bytes(b"a.txt")
    path.with_name("holds-the-inode").touch()
    path.with_name("holds-the-inode").unlink()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1))


def lose_object(dock: Dock) -> None:
    dock.store.delete(dock.key("a.txt"))


def lose_marker(dock: Dock) -> None:
    dock.store.delete(dock.layout.marker(RUN, 1))


def hold(dock: Dock) -> None:
    dock.ledger.hold(RUN, ACT)


def release(dock: Dock) -> None:
    dock.ledger.end_custody(RUN, ACT)


def link(dock: Dock) -> None:
    dock.source("link").symlink_to("/etc/passwd")


def late(dock: Dock) -> None:
    dock.write("late.txt")
    dock.settle("late.txt")


def quarantine(dock: Dock) -> None:
    note = Note(event=Event.LOSE, kind="permanent", code="object_missing", message="gone")
    dock.ledger.move(RUN, Event.LOSE, [Step(path="a.txt", note=note)])


REFUSED: list[tuple[Callable[[Dock], None], str]] = [
    (change, "changed since it was verified"),
    (touch, "changed since it was verified"),
    (replace, "changed since it was verified"),
    (edit_in_secret, "changed since it was verified"),
    (another, "is not in the bucket"),
    (lose_object, "1 file missing"),
    (lose_marker, "no completion marker"),
    (hold, "held by ada@lab"),
    (release, "its objects may go, says ada@lab"),
    (late, "not complete"),
    (quarantine, "quarantined"),
]


@pytest.mark.parametrize(
    ("meddle", "reason"), REFUSED, ids=lambda one: getattr(one, "__name__", "")
)
def test_whatever_is_not_so_any_more_is_a_reason(
    dock: Dock, meddle: Callable[[Dock], None], reason: str
) -> None:
    assert judged(dock).is_safe
    meddle(dock)
    assert reason in why(dock)


def test_a_folder_that_holds_another_run_is_not_safe_by_this_one(dock: Dock) -> None:
    dock.write("Analysis/2/reads.fastq.gz")
    judgement = judged(dock, apart=["Analysis/*"])
    assert judgement.reasons == {"a folder in it is a run of its own": ["Analysis/2"]}


def test_a_chmod_or_another_link_costs_a_read_and_is_no_reason(dock: Dock) -> None:
    dock.source("a.txt").chmod(0o600)
    (dock.root / "elsewhere").hardlink_to(dock.source("ü"))
    assert judged(dock).is_safe


def test_what_a_rule_leaves_out_is_named_and_no_reason(dock: Dock, tmp_path: Path) -> None:
    dock.write(".DS_Store")
    judgement = judged(dock, tmp_path / "files")
    assert (judgement.is_safe, judgement.left_out) == (True, 1)
    assert '"left_out"' in (tmp_path / "files").read_text()


def test_what_is_gone_at_the_source_already_is_said_so(dock: Dock) -> None:
    dock.source("a.txt").unlink()
    judgement = judged(dock)
    assert (judgement.is_safe, judgement.gone) == (True, 1)


def test_a_run_whose_records_were_put_away_is_judged_by_its_archive(
    dock: Dock, tmp_path: Path
) -> None:
    ledger: RedisLedger = dock.ledger
    records = Records(ledger=ledger, store=dock.store, layout=dock.layout)
    facts = ledger.find_facts(RUN)
    assert facts
    assert run_state(facts) is RunState.COMPLETE
    if not records.put_away(RUN, keep_ms=0):
        pytest.fail("its records were not put away")
    before = tmp_path / "before"
    assert judged(dock, before).is_safe
    files = [json.loads(line) for line in before.read_text().splitlines()]
    assert {one["key"] for one in files} == {dock.key(name) for name in NAMES}
    touch(dock)
    assert "changed since it was verified" in why(dock)


# -- the statement, and the script that checks it


@pytest.fixture
def statement(dock: Dock, tmp_path: Path) -> Path:
    judged(dock, tmp_path / "files")
    files = [json.loads(line) for line in (tmp_path / "files").read_text().splitlines()]
    header: dict[str, object] = {
        "run": str(RUN),
        "verdict": "safe",
        "at": datetime.now(UTC).isoformat(),
    }
    path = tmp_path / "statement"
    path.write_text("".join(statement_lines(header, files, KEY)))
    return path


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    return path


def checked(statement: Path, folder: Path, key_file: Path, *more: str, **options: Any) -> int:
    return check([str(statement), str(folder), "--key-file", str(key_file), *more], **options)


def test_the_script_passes_a_folder_that_is_as_it_was(
    dock: Dock, statement: Path, key_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(statement, dock.run, key_file) == 0
    assert "3 files, all in the bucket and unchanged" in capsys.readouterr().out


@pytest.mark.parametrize("meddle", [change, touch, another, link], ids=lambda one: one.__name__)
def test_the_script_refuses_a_folder_that_changed_since(
    dock: Dock, statement: Path, key_file: Path, meddle: Callable[[Dock], None]
) -> None:
    meddle(dock)
    assert checked(statement, dock.run, key_file) == 4


def test_the_script_refuses_a_statement_that_was_touched_cut_off_or_is_too_old(
    dock: Dock, statement: Path, key_file: Path, tmp_path: Path
) -> None:
    whole = statement.read_text()
    later = datetime.now(UTC) + timedelta(hours=25)
    assert checked(statement, dock.run, key_file, now=later) == 4
    assert checked(statement, dock.run, key_file, "--max-age-h", "48", now=later) == 0
    for wrong in (whole.replace("a.txt", "b.txt"), whole[: len(whole) // 2], "", "[]\n"):
        statement.write_text(wrong)
        assert checked(statement, dock.run, key_file) == 4
    unsigned = "".join(
        statement_lines(
            json.loads(whole.splitlines()[0]), map(json.loads, whole.splitlines()[1:-1]), ""
        )
    )
    statement.write_text(unsigned)
    assert checked(statement, dock.run, key_file) == 4
    assert check([str(statement), str(dock.run), "--unsigned"]) == 0


def test_the_script_refuses_another_key_and_an_empty_folder(
    dock: Dock, statement: Path, key_file: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert checked(statement, empty, key_file) == 4
    assert checked(statement, tmp_path / "none", key_file) == 4
    key_file.write_text("another-key-of-some-length")
    assert checked(statement, dock.run, key_file) == 4


def test_the_script_is_plain_enough_for_an_older_python() -> None:
    text = Path(check_statement.__file__ or "").read_text("utf-8")
    ast.parse(text, feature_version=(3, 7))
    for newer in ("datetime.UTC", "import UTC", "removeprefix", "match "):
        assert newer not in text
    assert "from __future__ import annotations" in text


def test_a_key_that_could_be_guessed_is_refused() -> None:
    check_key("")
    check_key(KEY)
    with pytest.raises(SettingsError, match="openssl rand"):
        check_key("short")

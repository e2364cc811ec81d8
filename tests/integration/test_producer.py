"""Does the producer record, settle and seal what instruments write, on a real ledger?"""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.broker import CeleryWakeups, make_app
from labferry.clock import SystemClock
from labferry.completion import RunState, run_state
from labferry.errors import LedgerUnavailable
from labferry.identity import RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.records import Completion, Evidence, FileRecord, Lane, Level, RunFacts, Step
from labferry.settings import (
    BrokerSettings,
    InstrumentSettings,
    LedgerSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from labferry.states import Event, State
from labferry.wakeup_port import Wakeups
from producer.agent import Agent
from producer.dry_run import dry
from producer.report import Condition, InstrumentReport, RunReport
from tests.recorded_wakeups import RecordedWakeups
from tests.waiting import PATIENCE_S, eventually

RUN = RunKey("inst", "run1")


class Lab:
    """One instrument's root, and agents on it."""

    def __init__(self, root: Path, ledger_url: str) -> None:
        self.root = root
        self.ledger_settings = LedgerSettings(url=ledger_url)
        self.ledger: RedisLedger = open_ledger(self.ledger_settings)
        self.wakeups = RecordedWakeups()

    def settings(self, **fields: object) -> Settings:
        quick = {"settle_window_s": 0.001, "quiet_s": 0, **fields}
        return Settings.model_construct(
            store=StoreSettings(bucket="bucket", single_put_max_bytes=1000),
            ledger=self.ledger_settings,
            broker=BrokerSettings(window_messages=1000, bundle_max_files=1),
            worker=WorkerSettings(),
            instruments={"inst": InstrumentSettings.model_validate({"root": self.root, **quick})},
        )

    def agent(self, wakeups: Wakeups | None = None, **fields: object) -> Agent:
        return Agent(
            "inst", self.settings(**fields), self.ledger, wakeups or self.wakeups, SystemClock()
        )

    def write(self, path: str, content: bytes = b"x", run: RunKey = RUN) -> Path:
        file = self.root / run.run / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def record(self, path: str, run: RunKey = RUN) -> FileRecord:
        found = self.ledger.find_record(run.file(path))
        assert found is not None, f"{path} is not on record"
        return found

    def state(self, path: str, run: RunKey = RUN) -> State:
        return self.record(path, run).state

    def facts(self, run: RunKey = RUN) -> RunFacts:
        found = self.ledger.find_facts(run)
        assert found is not None
        return found

    def counts(self, run: RunKey = RUN) -> dict[State, int]:
        return {state: count for state, count in self.facts(run).counts.items() if count}

    def codes(self, path: str, run: RunKey = RUN) -> list[str]:
        return [note.code for note in self.ledger.history(run.file(path))]

    def verify(self, *paths: str, run: RunKey = RUN) -> None:
        """Do what workers do with files that are eligible."""
        evidence = Evidence(level=Level.A, crc64=1, etag="0" * 32)
        for bundle in self.wakeups.bundles:
            if set(bundle.paths) <= set(paths):
                for claim in self.ledger.claim(run, bundle.number, bundle.paths, 1):
                    step = Step(path=claim.path, token=claim.token, evidence=evidence)
                    self.ledger.move(run, Event.VERIFY, [step])
        assert {self.state(path, run) for path in paths} <= {State.VERIFIED}

    def complete(self, run: RunKey = RUN) -> None:
        """Do what the completer does."""
        facts = self.facts(run)
        assert run_state(facts) is RunState.SEALED
        generation = facts.generation
        self.ledger.complete(
            run,
            Completion(
                generation=generation,
                file_count=facts.counts[State.VERIFIED],
                manifest_key="m",
                manifest_digest="d",
                marker_key="k",
                event="{}",
            ),
        )


@pytest.fixture
def lab(tmp_path: Path, ledger_url: str) -> Lab:
    root = tmp_path / "root"
    root.mkdir()
    return Lab(root, ledger_url)


def once(agent: Agent) -> InstrumentReport:
    """Make a pass, at least the shortest settle window after the one before."""
    began_s = time.monotonic()
    eventually(lambda: time.monotonic() - began_s > 0.002)
    report = agent.make_pass(lambda: False)
    assert report.condition not in {Condition.FAILED, Condition.STOPPED}, report.why
    assert not report.failed
    return report


def run_report(report: InstrumentReport, run: RunKey = RUN) -> RunReport:
    (found,) = [one for one in report.runs if one.run == str(run)]
    return found


# -- discover, settle, publish


def test_a_file_is_discovered_settled_by_the_next_look_and_published(lab: Lab) -> None:
    lab.write("small", b"x" * 1000)
    lab.write("sub/large", b"x" * 1001)
    agent = lab.agent()
    assert run_report(once(agent)).new == 2
    assert lab.counts() == {State.DISCOVERED: 2}
    report = once(agent)
    assert run_report(report).settled == 2
    assert report.published == 2
    assert {bundle.paths: bundle.lane for bundle in lab.wakeups.bundles} == {
        ("small",): Lane.SMALL,
        ("sub/large",): Lane.LARGE,
    }
    assert once(agent).published == 0


def test_without_a_window_a_file_that_appears_is_settled_by_the_same_look(lab: Lab) -> None:
    """Files are renamed in when they are whole: a run can be sealed by the pass that finds it."""
    lab.write("a")
    lab.write("sub/b")
    lab.write("done")
    agent = lab.agent(settle_window_s=0, quiet_s=0, marker="done")
    report = run_report(once(agent))
    assert (report.new, report.settled, report.state) == (3, 2, RunState.SEALED)
    assert lab.counts() == {State.ELIGIBLE: 2, State.DISCOVERED: 1}
    lab.verify("a", "sub/b")
    assert lab.ledger.pending_last(RUN) == ["done"]


def test_without_a_window_a_changed_file_is_settled_as_it_is_now(lab: Lab) -> None:
    file = lab.write("a", b"one")
    agent = lab.agent(settle_window_s=0, quiet_s=3600)
    once(agent)
    file.write_bytes(b"three")
    assert run_report(once(agent)).settled == 1
    assert lab.record("a").fingerprint.size == 5
    assert lab.state("a") is State.ELIGIBLE


def test_a_large_file_rests_longer_where_the_profile_says_so(lab: Lab) -> None:
    lab.write("small", b"x")
    with lab.write("large").open("wb") as large:
        large.truncate(1024**3)
    agent = lab.agent(settle_s_per_gib=3600)
    once(agent)
    eventually(lambda: lab.ledger.now_ms() > lab.record("small").changed_ms + 5)
    once(agent)
    assert lab.state("small") is State.ELIGIBLE
    assert lab.state("large") is State.DISCOVERED


def test_a_file_younger_than_its_window_waits(lab: Lab) -> None:
    lab.write("a")
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    assert run_report(once(agent)).waiting == 1
    assert lab.counts() == {State.DISCOVERED: 1}


def test_a_growing_file_settles_only_after_it_rested_for_the_window(lab: Lab) -> None:
    window_s, agent = 2, lab.agent(settle_window_s=2)
    file = lab.write("grows", b"")
    began_s = time.monotonic()
    with file.open("ab", buffering=0) as out:
        for number in range(20):
            out.write(b"x")
            last_write_s = time.monotonic()
            assert run_report(once(agent)).settled == 0
            eventually(lambda n=number: time.monotonic() > began_s + n * 0.15)  # type: ignore[misc]
    eventually(lambda: run_report(once(agent)).settled)
    assert time.monotonic() - last_write_s >= window_s
    assert lab.record("grows").fingerprint.size == 20
    assert lab.codes("grows") == []


def test_an_mtime_in_the_future_settles_like_any_other(lab: Lab) -> None:
    file = lab.write("a")
    os.utime(file, (4e9, 4e9))
    agent = lab.agent()
    once(agent)
    once(agent)
    assert lab.state("a") is State.ELIGIBLE


def test_a_change_with_its_mtime_put_back_is_a_change(lab: Lab) -> None:
    file = lab.write("a", b"one")
    before = file.stat()
    agent = lab.agent()
    once(agent)
    once(agent)
    file.write_bytes(b"three")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run_report(once(agent)).changed == 1
    assert lab.record("a").state is State.DISCOVERED
    assert lab.record("a").fingerprint.size == 5


def test_a_chmod_delays_a_file_once_and_does_not_keep_it_from_settling(lab: Lab) -> None:
    file = lab.write("a")
    agent = lab.agent()
    once(agent)
    file.chmod(0o600)
    assert run_report(once(agent)).changed == 1
    assert run_report(once(agent)).settled == 1
    assert lab.record("a").fingerprint.ctime_ns == file.stat().st_ctime_ns


def test_a_file_renamed_when_it_is_finished_is_seen_under_its_last_name_only(lab: Lab) -> None:
    lab.write("data")
    temporary = lab.write(".raw.Xy12Ab")
    agent = lab.agent()
    once(agent)
    report = run_report(once(agent))
    assert (report.held_back, report.temporary) == (1, (".raw.Xy12Ab",))
    assert lab.state("data") is State.ELIGIBLE
    assert report.state == RunState.OPEN
    temporary.rename(temporary.with_name("raw"))
    once(agent)
    assert run_report(once(agent)).state == RunState.SEALED
    assert lab.counts() == {State.ELIGIBLE: 2}


def test_a_second_pass_over_a_known_tree_tells_the_ledger_nothing(lab: Lab) -> None:
    for number in range(50):
        lab.write(f"{number % 5}/{number}")
    agent = lab.agent()
    once(agent)
    once(agent)
    before = lab.facts()
    report = once(agent)
    after = lab.facts()
    assert report.published == 0
    assert (before.counts, before.changed_ms, before.sealed_ms) == (
        after.counts,
        after.changed_ms,
        after.sealed_ms,
    )


def test_names_of_every_kind_are_recorded_and_found_again(lab: Lab) -> None:
    lab.write("a b/#1+2%41.txt")
    with open(os.fsencode(lab.root / RUN.run) + b"/\xff\n", "wb"):  # noqa: PTH123
        pass
    agent = lab.agent()
    once(agent)
    assert run_report(once(agent)).settled == 2
    assert lab.counts() == {State.ELIGIBLE: 2}


# -- what is left out


def test_what_is_left_out_is_on_record_once_with_its_reason(lab: Lab) -> None:
    lab.write("a")
    lab.write("@eaDir/thumb")
    lab.write("Thumbs.db", b"xyz")
    (lab.root / "run1/link").symlink_to("/etc/hostname")
    os.mkfifo(lab.root / "run1/pipe")
    agent = lab.agent()
    report = run_report(once(agent))
    assert (report.left_out, report.skipped) == (4, 4)
    left_out = {"@eaDir": "litter", "Thumbs.db": "litter", "link": "symlink", "pipe": "not_regular"}
    for path, code in left_out.items():
        assert lab.state(path) is State.SKIPPED
        assert lab.codes(path) == [code]
    again = run_report(once(agent))
    assert (again.left_out, again.skipped) == (4, 0)
    for path in left_out:
        assert len(lab.codes(path)) == 1
    assert run_report(once(agent)).state == RunState.SEALED


def test_litter_that_appears_after_the_seal_does_not_undo_it(lab: Lab) -> None:
    lab.write("a")
    agent = lab.agent()
    once(agent)
    once(agent)
    sealed_ms = lab.facts().sealed_ms
    assert sealed_ms
    lab.write(".DS_Store")
    report = run_report(once(agent))
    assert (report.state, report.left_out) == (RunState.SEALED, 1)
    assert lab.facts().sealed_ms == sealed_ms
    lab.verify("a")
    lab.complete()
    assert run_report(once(agent)).state == RunState.COMPLETE
    assert lab.state(".DS_Store") is State.SKIPPED
    assert lab.facts().generation == 1


def test_a_file_with_a_name_that_no_key_can_hold_is_a_dead_letter_and_no_run_is_complete_without_it(
    lab: Lab,
) -> None:
    lab.write("a")
    with open(os.fsencode(lab.root / RUN.run) + b"/" + b"\xff" * 100, "wb"):  # noqa: PTH123
        pass
    agent = lab.agent()
    assert run_report(once(agent)).refused == 1
    report = run_report(once(agent))
    assert (report.refused, report.files) == (0, 2)
    assert lab.counts() == {State.ELIGIBLE: 1, State.QUARANTINED: 1}
    (path,) = [p for p, record in lab.ledger.records(RUN) if record.state is State.QUARANTINED]
    (note,) = lab.ledger.history(RUN.file(path))
    assert (note.event, note.kind, note.code) == (Event.REFUSE, "permanent", "bad_name")
    assert "%FF%FF" in note.message
    lab.verify("a")
    assert run_state(lab.facts()) is RunState.INCOMPLETE


# -- gone and back


def test_a_file_gone_before_it_was_at_rest_is_skipped_and_reappears(lab: Lab) -> None:
    gone, stays = lab.write("sub/gone"), lab.write("stays")
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    gone.unlink()
    assert run_report(once(agent)).vanished == 1
    assert (lab.state("sub/gone"), lab.state("stays")) == (State.SKIPPED, State.DISCOVERED)
    assert lab.codes("sub/gone") == ["vanished"]
    assert run_report(once(agent)).vanished == 0
    gone.write_bytes(b"again")
    assert run_report(once(agent)).reappeared == 1
    assert lab.record("sub/gone").fingerprint.size == 5
    assert lab.codes("sub/gone") == ["vanished", "reappeared"]
    assert stays.exists()


def test_a_file_replaced_by_a_link_before_it_was_at_rest_is_skipped(lab: Lab) -> None:
    file = lab.write("a")
    lab.write("b/c")
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    file.unlink()
    file.symlink_to("b/c")
    once(agent)
    assert lab.state("a") is State.SKIPPED
    assert lab.codes("a") == ["symlink"]


def test_files_below_a_folder_replaced_by_a_link_are_gone(lab: Lab) -> None:
    lab.write("a")
    lab.write("sub/b")
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    (lab.root / "run1/sub").rename(lab.root.parent / "elsewhere")
    (lab.root / "run1/sub").symlink_to(lab.root.parent / "elsewhere")
    once(agent)
    assert lab.state("sub/b") is State.SKIPPED


def test_nothing_is_gone_while_any_path_of_the_run_cannot_be_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = lab.write("gone")
    lab.write("closed/b")
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    gone.unlink()
    open_descriptor = os.open

    def closed(name: bytes, *arguments: int, **options: int) -> int:
        if name == b"closed":
            raise PermissionError(13, "closed on purpose")
        return open_descriptor(name, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", closed)
        report = run_report(once(agent))
    assert (report.errors, report.vanished) == (1, 0)
    assert report.unreadable == ("closed: EACCES",)
    assert {part.holds for part in report.done} >= {"not possible"}
    assert lab.counts() == {State.DISCOVERED: 2}
    assert run_report(once(agent)).vanished == 1


def test_a_file_that_can_be_neither_seen_nor_missed_is_not_gone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = lab.write("gone")
    lab.write("sub/stays")
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    gone.unlink()
    opened, open_descriptor = [], os.open

    def breaking(name: bytes, *arguments: int, **options: int) -> int:
        opened.append(name)
        if opened.count(b"sub") > 1:  # once by the scan, then by the search for what is gone
            raise OSError(5, "broken on purpose")
        return open_descriptor(name, *arguments, **options)

    monkeypatch.setattr(os, "open", breaking)
    assert run_report(once(agent)).vanished == 1
    assert opened.count(b"sub") == 2
    assert lab.state("sub/stays") is State.DISCOVERED


def test_a_run_that_could_not_be_read_whole_is_not_sealed_until_it_was(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write("a")
    lab.write("closed/b")
    agent = lab.agent()
    once(agent)
    once(agent)
    lab.write("c")
    once(agent)
    open_descriptor = os.open

    def closed(name: bytes, *arguments: int, **options: int) -> int:
        if name == b"closed":
            raise OSError(5, "broken on purpose")
        return open_descriptor(name, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", closed)
        assert run_report(once(agent)).state == RunState.OPEN
        assert lab.counts() == {State.ELIGIBLE: 3}
    assert run_report(once(agent)).state == RunState.SEALED


@pytest.mark.parametrize("away", ["absent", "empty", "left with a note"])
def test_a_share_that_is_away_leads_to_no_conclusion(lab: Lab, away: str) -> None:
    lab.write("a")
    agent, fresh_agent = lab.agent(settle_window_s=3600), lab.agent(settle_window_s=3600)
    once(agent)
    before = lab.facts()
    mounted = lab.root.rename(lab.root.parent / "mounted")
    if away != "absent":
        lab.root.mkdir()
    if away == "left with a note":
        (lab.root / "NOT_MOUNTED").touch()
    for one in (agent, fresh_agent):
        report = once(one)
        assert report.condition is Condition.SHARE_UNAVAILABLE
        assert report.partial
        assert "concludes nothing" in report.why
        assert lab.facts().counts == before.counts
    if away != "absent":
        for left in lab.root.iterdir():
            left.unlink()
        lab.root.rmdir()
    mounted.rename(lab.root)
    assert once(agent).condition is Condition.SCANNED
    assert lab.state("a") is State.DISCOVERED


def test_a_share_that_comes_back_empty_in_mid_scan_leads_to_no_conclusion(lab: Lab) -> None:
    for number in range(1500):
        lab.write(f"{number}")
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    asked: list[int] = []

    def unmounts() -> bool:
        asked.append(1)
        if len(asked) == 3:  # before the run, before its first batch, before its second
            lab.root.rename(lab.root.parent / "mounted")
            lab.root.mkdir()
        return False

    # The batch in hand is whole, what follows is missing, and the ledger counts more than was seen.
    with pytest.MonkeyPatch.context() as patch:
        listed = os.scandir
        patch.setattr(os, "scandir", lambda folder: _Half(listed(folder)))
        report = agent.make_pass(unmounts)
    assert report.condition is Condition.SHARE_UNAVAILABLE
    assert lab.counts() == {State.DISCOVERED: 1500}


class _Half:
    """A listing that ends early, as one over a share that is going away."""

    def __init__(self, entries: "os.ScandirIterator[str]") -> None:  # type: ignore[name-defined]
        self._entries = entries

    def __enter__(self) -> "_Half":
        return self

    def __exit__(self, *_: object) -> None:
        self._entries.close()

    def __iter__(self) -> Iterator["os.DirEntry[str]"]:
        for number, entry in enumerate(self._entries):
            if number == 1200:
                return
            yield entry


def test_a_root_that_never_had_a_run_has_nothing_yet(lab: Lab) -> None:
    report = once(lab.agent())
    assert (report.condition, report.partial) == (Condition.NOTHING_YET, False)
    (lab.root / RUN.run).mkdir()
    assert run_report(once(lab.agent())).files == 0
    assert lab.ledger.find_facts(RUN) is None


def test_a_run_folder_that_was_renamed_takes_its_files_to_the_new_name(lab: Lab) -> None:
    lab.write("a")
    lab.write("b", run=RunKey("inst", "other"))
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    (lab.root / "run1").rename(lab.root / "run2")
    once(agent)
    assert lab.state("a") is State.SKIPPED
    assert lab.state("a", RunKey("inst", "run2")) is State.DISCOVERED


def test_an_open_run_whose_folder_is_gone_says_so_and_is_stale_in_time(lab: Lab) -> None:
    lab.write("a")
    lab.write("b", run=RunKey("inst", "other"))
    agent = lab.agent(marker="done", stale_s=0.05)
    once(agent)
    once(agent)
    lab.verify("a")
    (lab.root / "run1").rename(lab.root.parent / "away")
    once(agent)
    (told,) = lab.ledger.passes()
    (waiting,) = [one for one in told.waiting if one.run == str(RUN)]
    assert waiting.lacks == ("listing: its folder is not at the source any more",)
    eventually(lambda: lab.ledger.now_ms() - lab.facts().changed_ms > 50)
    assert run_report(once(agent)).state == RunState.STALE
    (alert,) = [one for one in lab.ledger.alerts() if one.key == f"stale:{RUN}"]
    assert "its folder is not at the source any more" in alert.text


def test_a_complete_run_whose_folder_is_gone_is_no_news(lab: Lab) -> None:
    lab.write("a")
    lab.write("b", run=RunKey("inst", "other"))
    agent = lab.agent()
    once(agent)
    once(agent)
    lab.verify("a")
    lab.complete()
    (lab.root / "run1").rename(lab.root.parent / "away")
    assert [one.run for one in once(agent).runs] == ["inst/other"]


def test_no_run_folder_is_gone_where_no_run_is_known(lab: Lab) -> None:
    lab.write("a")
    agent = lab.agent(settle_window_s=3600)
    once(agent)
    (lab.root / "run1").rename(lab.root.parent / "away")
    lab.write("b", run=RunKey("inst", "left behind"))
    once(agent)
    assert lab.state("a") is State.DISCOVERED


def test_a_verified_file_that_is_gone_from_the_source_is_no_news(lab: Lab) -> None:
    file = lab.write("a")
    lab.write("b")
    agent = lab.agent(quiet_s=3600)
    once(agent)
    once(agent)
    lab.verify("a", "b")
    file.unlink()
    assert run_report(once(agent)).vanished == 0
    assert lab.counts() == {State.VERIFIED: 2}
    assert run_report(once(lab.agent())).state == RunState.SEALED


# -- changed after verified


def test_a_source_changed_after_it_was_verified_is_quarantined_with_both_facts(lab: Lab) -> None:
    file = lab.write("a", b"one")
    agent = lab.agent()
    once(agent)
    once(agent)
    lab.verify("a")
    file.write_bytes(b"three")
    assert run_report(once(agent)).conflicts == 1
    assert lab.state("a") is State.QUARANTINED
    (note,) = lab.ledger.history(RUN.file("a"))
    assert note.code == "changed_after_verified"
    assert "3 bytes" in note.message
    assert "5 now" in note.message or "5 bytes" in note.message


def test_a_chmod_or_another_link_to_a_verified_file_is_no_change(lab: Lab) -> None:
    file = lab.write("a")
    agent = lab.agent()
    once(agent)
    once(agent)
    lab.verify("a")
    file.chmod(0o600)
    (lab.root.parent / "second").hardlink_to(file)
    assert run_report(once(agent)).conflicts == 0
    assert lab.state("a") is State.VERIFIED


# -- done and sealed


def test_a_run_is_sealed_when_everything_is_settled_and_quiet(lab: Lab) -> None:
    lab.write("a")
    agent = lab.agent(quiet_s=0.5)
    once(agent)
    assert run_report(once(agent)).state == RunState.OPEN
    eventually(lambda: run_report(once(agent)).state == RunState.SEALED)
    facts = lab.facts()
    assert facts.sealed_ms - facts.changed_ms >= 500


def test_a_run_is_not_sealed_before_its_marker_is_there_and_the_marker_goes_up_last(
    lab: Lab,
) -> None:
    lab.write("a")
    agent = lab.agent(marker="*Complete.txt")
    for _ in range(3):
        assert run_report(once(agent)).state == RunState.OPEN
    lab.write("copycomplete.TXT")
    lab.write("sub/CopyComplete.txt")
    once(agent)
    report = run_report(once(agent))
    assert report.state == RunState.SEALED
    assert lab.state("copycomplete.TXT") is State.DISCOVERED
    assert lab.counts() == {State.ELIGIBLE: 2, State.DISCOVERED: 1}
    assert lab.ledger.pending_last(RUN) == ["copycomplete.TXT"]
    again = run_report(once(agent))
    assert (again.waiting, again.vanished) == (1, 0)
    assert not any("copycomplete" in path for b in lab.wakeups.bundles for path in b.paths)


def test_a_marker_that_overtakes_the_data_does_not_end_the_run(lab: Lab) -> None:
    agent = lab.agent(marker="done", quiet_s=3)
    lab.write("done")
    for number in range(4):
        lab.write(f"late{number}")
        for _ in range(3):  # it settles, and the run is not yet quiet
            assert run_report(once(agent)).state == RunState.OPEN
    eventually(lambda: run_report(once(agent)).state == RunState.SEALED)
    assert lab.counts() == {State.ELIGIBLE: 4, State.DISCOVERED: 1}


def test_a_folder_with_nothing_but_a_marker_is_not_done(lab: Lab) -> None:
    lab.write("done")
    agent = lab.agent(marker="done")
    for _ in range(3):
        assert run_report(once(agent)).state == RunState.OPEN


def test_a_run_that_never_ends_is_stale_told_once_and_goes_on_when_it_ends_after_all(
    lab: Lab,
) -> None:
    lab.write("RunInfo.xml")
    agent = lab.agent(marker="done", stale_s=0.05)
    once(agent)
    once(agent)
    eventually(lambda: lab.ledger.now_ms() - lab.facts().changed_ms > 50)
    for _ in range(2):
        assert run_report(once(agent)).state == RunState.STALE
    (alert,) = lab.ledger.alerts()
    assert alert.key == "stale:inst/run1"
    assert "no done" in alert.text
    assert lab.facts().sent == 1  # what is at rest goes up all the same
    lab.write("done")
    once(agent)
    eventually(lambda: run_report(once(agent)).state == RunState.SEALED)


def test_a_file_that_may_change_is_a_new_edition_and_others_are_not(lab: Lab) -> None:
    design, data = lab.write("EpuSession.dm", b"1"), lab.write("a", b"1")
    agent = lab.agent(changing=["*.dm"])
    once(agent)
    once(agent)
    lab.verify("a", "EpuSession.dm")
    lab.complete()
    design.write_bytes(b"22")
    data.write_bytes(b"22")
    report = run_report(once(agent))
    assert (report.superseded, report.conflicts) == (1, 1)
    assert lab.state("EpuSession.dm") is State.DISCOVERED
    assert lab.codes("EpuSession.dm") == ["superseded"]
    assert lab.state("a") is State.QUARANTINED
    assert lab.facts().completed == 1
    once(agent)
    assert lab.facts().generation == 2


@pytest.mark.parametrize("identity", ["inode", "size_mtime"])
def test_new_inodes_after_a_remount_are_no_change_where_the_profile_says_so(
    lab: Lab, identity: str
) -> None:
    file = lab.write("a", b"1")
    agent = lab.agent(identity="inode")
    once(agent)
    once(agent)
    lab.verify("a")
    before, other = file.stat(), file.with_name("b")
    other.write_bytes(b"1")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert file.stat().st_ino != before.st_ino
    report = run_report(once(lab.agent(identity=identity)))
    assert report.conflicts == (1 if identity == "inode" else 0)
    assert lab.state("a") is (State.QUARANTINED if identity == "inode" else State.VERIFIED)


def test_a_file_after_the_seal_reopens_the_run(lab: Lab) -> None:
    lab.write("a")
    agent = lab.agent(quiet_s=0)
    once(agent)
    assert run_report(once(agent)).state == RunState.SEALED
    lab.write("late")
    assert run_report(once(agent)).state == RunState.OPEN
    assert run_report(once(agent)).state == RunState.SEALED
    assert lab.counts() == {State.ELIGIBLE: 2}


def test_a_file_after_completion_opens_the_next_generation(lab: Lab) -> None:
    lab.write("a")
    agent = lab.agent()
    once(agent)
    once(agent)
    lab.verify("a")
    lab.complete()
    assert run_report(once(agent)).state == RunState.COMPLETE
    lab.write("late")
    once(agent)
    assert run_report(once(agent)).state == RunState.SEALED
    assert lab.facts().generation == 2


def test_a_marker_that_comes_after_completion_is_a_late_file_like_any_other(lab: Lab) -> None:
    lab.write("a")
    lab.write("summary_1.txt")
    agent = lab.agent(marker="summary_*.txt")
    once(agent)
    once(agent)
    lab.verify("a")
    seen = lab.ledger.look(RUN, ["summary_1.txt"])[1][0]
    assert seen is not None
    step = Step(path="summary_1.txt", fingerprint=seen.fingerprint, lane=Lane.SMALL)
    lab.ledger.move(RUN, Event.SETTLE, [step])
    once(agent)
    lab.verify("summary_1.txt")
    lab.complete()
    lab.write("summary_2.txt")
    once(agent)
    once(agent)
    assert lab.state("summary_2.txt") is State.ELIGIBLE


# -- errors and neighbours


def test_an_error_of_one_run_stops_neither_the_others_nor_the_agent(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("run0", "run1", "run2"):
        lab.write("a", run=RunKey("inst", name))
    agent = lab.agent()
    find_facts = lab.ledger.find_facts

    def broken(run: RunKey) -> RunFacts | None:
        if run == RUN:
            raise ZeroDivisionError("on purpose")
        return find_facts(run)

    with monkeypatch.context() as patch:
        patch.setattr(lab.ledger, "find_facts", broken)
        report = agent.make_pass(lambda: False)
    assert report.failed
    assert run_report(report).failure == "ZeroDivisionError: on purpose"
    for name in ("run0", "run2"):
        assert lab.state("a", RunKey("inst", name)) is State.DISCOVERED
    once(agent)
    assert lab.state("a") is State.DISCOVERED


def test_a_ledger_lost_in_mid_pass_ends_the_pass(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.write("a")
    lab.write("a", run=RunKey("inst", "run2"))
    looked: list[RunKey] = []

    def lost(run: RunKey, paths: object) -> None:
        looked.append(run)
        raise LedgerUnavailable(url="redis://x", why="lost on purpose")

    monkeypatch.setattr(lab.ledger, "look", lost)
    assert lab.agent().make_pass(lambda: False).condition is Condition.LEDGER_UNAVAILABLE
    assert looked == [RUN]


def test_a_broker_that_is_down_is_told_and_nothing_is_lost(lab: Lab) -> None:
    lab.write("a")
    agent = lab.agent()
    once(agent)
    lab.wakeups.down = True
    report = agent.make_pass(lambda: False)
    assert "sweep" in report.broker
    assert lab.state("a") is State.ELIGIBLE
    assert lab.facts().sent == 1  # the sweep sends it again


def test_a_ledger_that_does_not_answer_is_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "redis://127.0.0.1:1/0")
    lab.write("a")
    report = lab.agent().make_pass(lambda: False)
    assert report.condition is Condition.LEDGER_UNAVAILABLE
    assert "127.0.0.1:1" in report.why


def test_messages_are_published_to_a_real_broker(lab: Lab, broker_url: str) -> None:
    lab.write("a")
    settings = lab.settings().model_copy(update={"broker": BrokerSettings(url=broker_url)})
    app = make_app(settings)
    agent = lab.agent(CeleryWakeups(app))
    once(agent)
    assert once(agent).published == 1
    with app.connection_for_read() as connection:
        message = connection.SimpleQueue("upload.inst.small").get(timeout=PATIENCE_S)
        message.ack()
    assert message.payload[0][0]["paths"] == ["a"]
    app.close()


# -- two agents


def test_two_agents_on_one_root_do_no_harm(lab: Lab) -> None:
    stop = threading.Event()
    agents = [lab.agent(), lab.agent()]
    reports: list[InstrumentReport] = []

    def look_after(agent: Agent) -> None:
        while not stop.is_set():
            reports.append(agent.make_pass(lambda: False))

    def is_sealed() -> bool:
        facts = lab.ledger.find_facts(RUN)  # None until the first look
        return facts is not None and run_state(facts) is RunState.SEALED

    threads = [threading.Thread(target=look_after, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        (lab.root / "run1").mkdir()
        for number in range(400):
            whole = lab.root.parent / "whole"
            whole.write_bytes(b"x" * number)
            whole.rename(lab.root / f"run1/{number}")
        eventually(is_sealed)
        eventually(lambda: len(lab.wakeups.bundles) >= 400)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not any(report.failed for report in reports)
    assert lab.counts() == {State.ELIGIBLE: 400}
    assert sum(run_report(report).new for report in reports if report.runs) >= 400
    published = [path for bundle in lab.wakeups.bundles for path in bundle.paths]
    assert sorted(published) == sorted(str(number) for number in range(400))


def test_a_pass_tells_of_the_room_on_the_share_and_when_something_came_last(lab: Lab) -> None:
    agent = lab.agent()
    lab.write("a")
    once(agent)
    [told] = lab.ledger.passes()
    assert told.space is not None
    assert told.space.free_bytes > 0
    assert told.arrived_ms > 0
    once(agent)
    [again] = lab.ledger.passes()
    assert again.arrived_ms == told.arrived_ms, "nothing came since"
    assert again.at_ms > told.at_ms
    lab.write("a", b"grown")
    once(agent)
    assert lab.ledger.passes()[0].arrived_ms > told.arrived_ms
    lab.root.rename(lab.root.with_name("away"))
    once(agent)
    away = lab.ledger.passes()[0]
    assert away.away
    assert away.space is not None, "what was seen last is not forgotten"


def test_a_dry_run_reports_what_a_pass_would_do_and_records_nothing(lab: Lab) -> None:
    def dry_pass() -> RunReport:
        agent = Agent("inst", lab.settings(), dry(lab.ledger), lab.wakeups, SystemClock())
        report = agent.make_pass(lambda: False)
        assert report.condition is Condition.SCANNED, report.why
        (run,) = report.runs
        return run

    lab.write("a.txt")
    assert (dry_pass().new, lab.ledger.runs()) == (1, [])
    lab.agent().make_pass(lambda: False)
    lab.write("b.txt")
    eventually(lambda: dry_pass().settled == 1)
    assert (dry_pass().new, dry_pass().state) == (1, RunState.OPEN)
    lab.agent().make_pass(lambda: False)
    assert lab.counts() == {State.DISCOVERED: 1, State.ELIGIBLE: 1}
    before, told = lab.facts(), lab.ledger.passes()
    eventually(lambda: dry_pass().state == RunState.SEALED)
    after = lab.facts()
    assert (after.counts, after.moves, after.sealed_ms) == (before.counts, before.moves, 0)
    assert (lab.ledger.passes(), lab.ledger.alerts()) == (told, [])
    eventually(lambda: lab.agent().make_pass(lambda: False).runs[0].state == RunState.SEALED)


def test_a_dry_run_finds_what_vanished_and_leaves_it_on_record(lab: Lab) -> None:
    lab.write("stays.txt")
    gone = lab.write("gone.txt")
    lab.agent(settle_window_s=3600).make_pass(lambda: False)
    gone.unlink()
    agent = Agent("inst", lab.settings(), dry(lab.ledger), lab.wakeups, SystemClock())
    assert agent.make_pass(lambda: False).runs[0].vanished == 1
    assert lab.counts() == {State.DISCOVERED: 2}

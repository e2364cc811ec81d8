"""Do the records of a run that is over leave the ledger, and come back when something changed?

On a real ledger and a real folder, with the agent, the transfer and the completer in this process.
"""

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from labferry.chosen import get_letter
from labferry.clock import SystemClock
from labferry.compaction import Records
from labferry.completion import RunState, run_state
from labferry.errors import (
    LedgerUnavailable,
    MalformedMessage,
    NotFound,
    Refused,
    StoreError,
)
from labferry.ledger.keys import RunKeys
from labferry.manifest import read_entry
from labferry.ports import Ledger, ObjectStore
from labferry.records import FileRecord, Note, Outcome, RunFacts, Step
from labferry.s3.checksum import crc64nvme
from labferry.selector import read_selector
from labferry.settings import InstrumentSettings, LedgerSettings
from labferry.states import Event, State
from ops import replay as replays
from ops.close import Closing
from ops.drift import Comparison, Kind
from ops.exits import Exit
from ops.explain import explain
from ops.losses import Losses
from ops.overview import read_overview
from ops.preview import Chosen
from ops.replay import Wish, _chosen
from ops.verify import Verification
from ops.verify_report import Verdict
from producer.agent import Agent
from producer.report import RunReport
from tests.dock import RUN, Dock
from tests.ledger_world import ACT
from tests.memory_store import Breaking, Died, MemoryStore
from tests.recorded_wakeups import RecordedWakeups
from workers.complete import Completer
from workers.reasons import Reasons

FILES = {"a.txt": b"a", "d/b.txt": b"bb", "d/e/zero": b"", "ü c.dat": b"ccc"}


class Yard:
    """A dock with the programs around it."""

    def __init__(self, folder: Path, url: str) -> None:
        fields: dict[str, Any] = {"root": folder / "root", "settle_window_s": 0, "quiet_s": 0}
        instruments = {RUN.instrument: InstrumentSettings.model_validate(fields)}
        self.store = MemoryStore()
        self.dock = Dock(folder, url, self.store, instruments=instruments)
        self.ledger, self.layout = self.dock.ledger, self.dock.layout
        self.wakeups = RecordedWakeups()
        self.client = redis.Redis.from_url(url)
        self.agent = self.new_agent()

    def new_agent(self) -> Agent:
        settings, clock = self.dock.settings, SystemClock()
        return Agent(RUN.instrument, settings, self.ledger, self.wakeups, clock)

    def scan(self) -> RunReport:
        [report] = self.agent.make_pass(lambda: False).runs
        return report

    def finish(self) -> None:
        """Do what agent and workers do until the run is complete."""
        self.scan()
        self.dock.finish()
        self.scan()
        completer = Completer(ledger=self.ledger, store=self.store, layout=self.layout)
        assert completer.complete(RUN)

    def records(self, ledger: Ledger | None = None, store: ObjectStore | None = None) -> Records:
        return Records(ledger=ledger or self.ledger, store=store or self.store, layout=self.layout)

    def chosen(self, wish: Wish) -> list[Chosen]:
        """Return what a replay would mean."""
        records = self.records()
        losses = Losses(ledger=self.ledger, store=self.store, layout=self.layout, records=records)
        return list(_chosen(self.ledger, records, losses, wish))

    def put_away(self, **ports: Any) -> bool:
        return self.records(**ports).put_away(RUN, keep_ms=0)

    def facts(self) -> RunFacts:
        found = self.ledger.find_facts(RUN)
        assert found is not None
        return found

    def on_record(self) -> dict[str, tuple[FileRecord, list[Note]]]:
        history = self.ledger.history
        return {p: (one, history(RUN.file(p))) for p, one in self.ledger.records(RUN)}

    def keys(self) -> set[str]:
        """Which of the run's keys hold something of its files."""
        start = RunKeys(RUN).files.removesuffix("files")
        names = {key.decode().removeprefix(start) for key in self.client.scan_iter(f"{start}*")}
        return names - {"meta", "markers", "outbox", "audit", "audit-head"}


@pytest.fixture
def yard(tmp_path: Path, ledger_url: str) -> Iterator[Yard]:
    yard = Yard(tmp_path, ledger_url)
    for path, body in FILES.items():
        yard.dock.write(path, body)
    (yard.dock.run / "Thumbs.db").write_bytes(b"litter")
    yard.finish()
    yield yard


def test_a_finished_run_leaves_nothing_of_its_files_in_the_ledger(yard: Yard) -> None:
    before = yard.facts()
    assert yard.put_away()
    assert yard.keys() == set()
    after = yard.facts()
    assert (after.counts, run_state(after)) == (before.counts, RunState.COMPLETE)


def test_records_come_back_with_every_date_and_line_of_history(yard: Yard) -> None:
    before = yard.on_record()
    assert before["Thumbs.db"][1], "a skipped file has its reason on record"
    assert yard.put_away()
    assert yard.on_record() == {}
    assert yard.records().take_back(RUN)
    assert yard.on_record() == before


def test_a_rescan_of_a_run_that_was_put_away_asks_for_no_file(yard: Yard) -> None:
    assert yard.scan().new == 0
    assert yard.put_away()
    yard.agent._ledger = NoFiles(yard.ledger)
    report = yard.scan()
    assert (report.state, report.files, report.wants_records) == ("complete", len(FILES), False)
    assert yard.wakeups.taken_back == []
    assert yard.new_agent().make_pass(lambda: False).runs[0].wants_records is False


class NoFiles:
    """A ledger that must not be asked about files."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        assert name not in {"look", "records", "find_record", "find_records", "discover", "move"}
        return getattr(self._ledger, name)


def test_a_late_file_of_a_run_that_was_put_away_opens_generation_two(yard: Yard) -> None:
    yard.dock.tune("ledger", resend_s=600)
    yard.agent = yard.new_agent()
    yard.scan()
    assert yard.put_away()
    yard.dock.write("d/late.txt", b"late")
    assert yard.scan().wants_records
    assert yard.scan().wants_records
    assert yard.wakeups.taken_back == [RUN], "asked for once a resend time"
    assert yard.facts().counts[State.DISCOVERED] == 0

    assert yard.records().take_back(RUN)
    yard.finish()
    assert yard.facts().generation == 2
    lines = yard.store.objects[yard.layout.manifest(RUN, 2)].body.splitlines()[1:]
    assert [read_entry(line).path for line in lines] == ["d/late.txt"]
    yard.scan()
    assert yard.put_away()
    assert yard.keys() == set()
    assert not yard.scan().wants_records


def test_a_changed_file_of_a_run_that_was_put_away_is_a_dead_letter(yard: Yard) -> None:
    yard.scan()
    assert yard.put_away()
    yard.dock.write("a.txt", b"other bytes")
    assert yard.scan().wants_records
    assert yard.records().take_back(RUN)
    assert yard.scan().conflicts == 1
    assert yard.dock.state("a.txt") is State.QUARANTINED
    assert yard.dock.stored("a.txt") == b"a"
    assert not yard.put_away(), "a dead letter waits for a person"


def test_sources_that_are_cleaned_up_bring_records_back_once(yard: Yard) -> None:
    yard.scan()
    assert yard.put_away()
    yard.dock.source("a.txt").unlink()
    assert yard.scan().wants_records
    assert yard.records().take_back(RUN)
    assert yard.scan().state == "complete"
    assert yard.dock.state("a.txt") is State.VERIFIED
    assert yard.put_away()
    assert not yard.scan().wants_records


def test_a_litter_file_that_comes_late_brings_nothing_back(yard: Yard) -> None:
    yard.scan()
    assert yard.put_away()
    (yard.dock.run / "d" / ".DS_Store").write_bytes(b"x")
    assert not yard.scan().wants_records


def test_records_do_not_leave_before_they_rested(yard: Yard) -> None:
    assert not yard.records().put_away(RUN, keep_ms=60_000)
    assert yard.on_record()


def test_records_do_not_leave_while_the_manifest_is_not_in_the_bucket(yard: Yard) -> None:
    del yard.store.objects[yard.layout.manifest(RUN, 1)]
    assert not yard.put_away()
    assert yard.on_record()
    assert [one.key for one in yard.ledger.alerts()] == [f"kept:{RUN}:1"]


def test_records_do_not_leave_for_an_archive_that_reads_otherwise(yard: Yard) -> None:
    class Lying(MemoryStore):
        def read(self, key: str, version_id: str = "") -> Iterator[bytes]:
            body = b"".join(super().read(key, version_id))
            yield body[:-1] if "/records/" in key else body

    lying = Lying()
    lying.objects = yard.store.objects
    with pytest.raises(MalformedMessage):
        yard.put_away(store=lying)
    assert yard.on_record()


def test_a_damaged_archive_is_not_taken_back(yard: Yard) -> None:
    assert yard.put_away()
    archive = yard.facts().archive
    assert archive is not None
    yard.store.objects[archive.key].body = b"other"
    with pytest.raises(MalformedMessage):
        yard.records().take_back(RUN)
    assert yard.facts().archive == archive
    assert yard.on_record() == {}


@pytest.mark.parametrize("damage", ["bits", "cut", "another"])
def test_nothing_is_believed_of_a_damaged_archive(yard: Yard, damage: str) -> None:
    assert yard.put_away()
    archive = yard.facts().archive
    assert archive is not None
    body = yard.store.objects[archive.key].body
    damaged = {
        "bits": body[:20] + bytes(8) + body[28:],
        "cut": body[:-9],
        # records that are in order, and not what was put away
        "another": gzip.compress(gzip.decompress(body).replace(b'"etag":"', b'"etag":"0')),
    }
    yard.store.objects[archive.key].body = damaged[damage]
    believed = yard.records().archived(RUN, archive)
    with pytest.raises(MalformedMessage):
        next(believed)


def test_a_file_that_moves_while_the_archive_is_written_keeps_the_records(yard: Yard) -> None:
    class Meddled(MemoryStore):
        def put_absent(self, *args: Any) -> Any:
            yard.dock.write("late", b"late")
            yard.scan()
            return super().put_absent(*args)

    meddled = Meddled()
    meddled.objects = yard.store.objects
    assert not yard.put_away(store=meddled)
    assert set(FILES) < set(yard.on_record())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 5))
def test_putting_away_may_die_at_every_call_of_the_bucket(yard: Yard, nth: int, when: Any) -> None:
    before = yard.on_record()
    with pytest.raises((Died, StoreError)):
        for _ in range(9):
            yard.put_away(store=Breaking(yard.store, nth=nth, when=when))
    assert yard.put_away()
    assert yard.records().take_back(RUN)
    assert yard.on_record() == before


def test_putting_away_goes_on_after_a_kill_in_the_middle(yard: Yard) -> None:
    before = yard.on_record()
    with dying(yard, "forget"), pytest.raises(LedgerUnavailable):
        yard.put_away()
    assert yard.keys(), "something is left to be forgotten"
    assert yard.put_away()
    assert yard.keys() == set()
    assert yard.records().take_back(RUN)
    assert yard.on_record() == before


def test_taking_back_right_after_a_kill_loses_nothing(yard: Yard) -> None:
    before = yard.on_record()
    with dying(yard, "forget"), pytest.raises(LedgerUnavailable):
        yard.put_away()
    assert yard.records().take_back(RUN)
    assert yard.on_record() == before
    assert yard.keys() == {"files", *(f"history:{p}" for p, one in before.items() if one[1])}


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("verb", ["bring", "activate", "take_back"])
def test_taking_back_may_die_at_every_step(yard: Yard, verb: str, answered: bool) -> None:
    before = yard.on_record()
    assert yard.put_away()
    with dying(yard, verb, answered=answered), pytest.raises(LedgerUnavailable):
        yard.records().take_back(RUN)
    if (verb, answered) != ("take_back", True):
        assert yard.on_record() == {}, "half a run is nobody's"
    assert yard.records().take_back(RUN)
    assert yard.on_record() == before
    assert yard.put_away()
    assert yard.keys() == set()


@contextmanager
def dying(yard: Yard, verb: str, *, answered: bool = False) -> Iterator[None]:
    """Let the process die at a call of the ledger, before it or with its answer lost."""
    real = yard.ledger._server.script

    def dies(name: str, keys: list[str | bytes], args: Sequence[str | bytes | int]) -> Any:
        if name != verb:
            return real(name, keys, args)
        if answered:
            real(name, keys, args)
        raise LedgerUnavailable(url="x", why="killed")

    yard.ledger._server.script = dies  # type: ignore[method-assign]
    try:
        yield
    finally:
        yard.ledger._server.script = real  # type: ignore[method-assign]


def test_a_run_that_was_put_away_is_verified_from_the_bucket(yard: Yard) -> None:
    assert yard.put_away()
    report = Verification(
        store=yard.store, layout=yard.layout, run=RUN, clock=SystemClock(), budget_s=60
    ).report()
    assert (report.verdict, report.files) == (Verdict.COMPLETE, len(FILES))


def test_an_mtime_that_moved_alone_is_seen(yard: Yard) -> None:
    yard.scan()
    assert yard.put_away()
    os.utime(yard.dock.source("a.txt"), ns=(1, 1))
    assert yard.scan().wants_records


# -- what people ask of a run that was put away


def test_explain_tells_as_much_of_a_file_that_was_put_away(yard: Yard) -> None:
    def told() -> dict[str, Any]:
        explanation = explain(yard.ledger, yard.layout, RUN.file("Thumbs.db"), yard.records)
        return {**explanation.to_json(), "archive": None}

    before = told()
    assert before["history"]
    assert yard.put_away()
    assert told() == before


def test_explain_of_a_file_that_never_was_says_so(yard: Yard) -> None:
    assert yard.put_away()
    with pytest.raises(NotFound, match="records of its run"):
        explain(yard.ledger, yard.layout, RUN.file("never"), yard.records)


def test_status_counts_the_files_of_a_run_that_was_put_away(yard: Yard) -> None:
    before = read_overview(yard.ledger, [], str(RUN)).to_json()
    assert yard.put_away()
    assert read_overview(yard.ledger, [], str(RUN)).to_json() == before


def test_a_replay_of_a_verified_file_that_was_put_away_does_nothing(yard: Yard) -> None:
    assert yard.put_away()
    wish = Wish(selector=read_selector(file=str(RUN.file("a.txt"))), act=ACT, given_up=True)
    [chosen] = yard.chosen(wish)
    assert chosen.record.state is State.VERIFIED
    assert yard.facts().archive is not None


def test_a_replay_of_what_was_given_up_takes_its_records_back_once_it_is_agreed_to(
    tmp_path: Path,
    ledger_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    yard = Yard(tmp_path, ledger_url)
    for name in ("kept", "lost"):
        yard.dock.write(name)
    yard.scan()
    yard.ledger.act(RUN, Event.CLOSE, [Step(path="lost")], ACT)
    assert yard.ledger.close(RUN, ACT)
    yard.dock.finish()
    completer = Completer(ledger=yard.ledger, store=yard.store, layout=yard.layout)
    assert completer.complete(RUN)
    assert run_state(yard.facts()) is RunState.CLOSED
    assert not yard.put_away(), "the bucket is to tell of what was given up first"
    Reasons(ledger=yard.ledger, store=yard.store, layout=yard.layout).write(RUN)
    assert yard.put_away()
    with pytest.raises(NotFound, match="explain"):
        get_letter(yard.ledger, RUN.file("lost"))

    monkeypatch.setattr(replays, "open_store", lambda _settings: yard.store)
    settings = yard.dock.settings.model_copy(update={"ledger": LedgerSettings(url=ledger_url)})
    wish = Wish(selector=read_selector(run=str(RUN)), act=ACT, given_up=True, as_json=True)
    assert replays.replay(settings, replace(wish, dry_run=True)) is Exit.DONE
    assert [one["file"] for one in json.loads(capsys.readouterr().out)["items"]] == [f"{RUN}/lost"]
    assert yard.facts().archive is not None, "a look changes nothing"
    named = replace(wish, selector=read_selector(file=str(RUN.file("lost"))))
    found = [yard.chosen(one) for one in (wish, named)]
    assert found[0] == found[1] != [], "its cause is known also by its name"
    assert replays.replay(settings, replace(wish, yes=True, detach=True)) is Exit.DONE
    assert yard.facts().archive is None
    assert yard.ledger.act(RUN, Event.REPLAY, [Step(path="lost")], ACT) == [Outcome.DONE]
    assert yard.facts().generation == 2


@pytest.mark.parametrize("named", [{"run": str(RUN)}, {"file": str(RUN.file("d/b.txt"))}])
def test_a_file_whose_object_is_gone_is_meant_by_a_replay(yard: Yard, named: Any) -> None:
    wish = Wish(selector=read_selector(**named), act=ACT, given_up=True)
    del yard.store.objects[yard.layout.raw(RUN.file("d/b.txt"))]
    [before] = yard.chosen(wish)
    assert yard.put_away()
    [after] = yard.chosen(wish)
    for chosen in (before, after):
        assert (chosen.file.path, chosen.code) == ("d/b.txt", "object_missing")
        assert chosen.lost is not None
    yard.ledger.end_custody(RUN, ACT)
    assert all(one.lost is None for one in yard.chosen(wish)), "it may be gone"


def test_a_run_that_was_put_away_cannot_be_closed(yard: Yard) -> None:
    assert yard.put_away()
    with pytest.raises(Refused, match="complete"):
        Closing(yard.ledger, str(RUN), ACT, as_json=False).run(dry_run=False, yes=True)


def test_reconcile_compares_a_run_that_was_put_away_by_its_manifests(yard: Yard) -> None:
    assert yard.put_away()
    roots = {RUN.instrument: yard.dock.root}
    comparison = Comparison(ledger=yard.ledger, store=yard.store, layout=yard.layout, roots=roots)
    assert not comparison.look(RUN)
    del yard.store.objects[yard.dock.key("a.txt")]
    yard.store.put_absent(yard.dock.key("stranger"), b"x", crc64nvme(b"x"), "t")
    found = {kind: names.first for kind, names in comparison.look(RUN).found.items() if names}
    assert found == {
        Kind.MISSING: [yard.dock.key("a.txt")],
        Kind.UNKNOWN: [yard.dock.key("stranger")],
    }

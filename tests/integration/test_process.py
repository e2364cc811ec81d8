"""What does a worker process ask of an endpoint that is away? Counted at a proxy."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labferry.breakers import Breaker, Phase
from labferry.errors import MalformedMessage, StoreError
from labferry.failures import Cause
from labferry.identity import RunKey
from labferry.ledger.keys import ACTIVE, BREAKERS, FINISHED
from labferry.limits import Limit
from labferry.messages import UploadMessage
from labferry.records import Fingerprint, Lane, Note, Step
from labferry.settings import InstrumentSettings, LedgerSettings, Settings, StoreSettings
from labferry.settings_trouble import BreakerSettings
from labferry.states import Event, State
from tests.dock import fingerprint
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, rule
from tests.ledger_world import ACT
from tests.recorded_wakeups import RecordedWakeups
from workers.attempt import Result
from workers.process import WorkerProcess

RUN = RunKey("seq", "r1")
BROKEN = rule(Answer(403, "InvalidAccessKeyId"))


@pytest.fixture
def proxy(store_settings: StoreSettings) -> Iterator[FaultProxy]:
    assert store_settings.endpoint_url
    with FaultProxy(store_settings.endpoint_url) as running:
        yield running


class Site:
    """A worker process, and one file to upload."""

    def __init__(self, folder: Path, ledger_url: str, store: StoreSettings) -> None:
        self.root = folder / "seq"
        (self.root / RUN.run).mkdir(parents=True)
        self.settings = Settings.model_construct(
            store=store,
            ledger=LedgerSettings(url=ledger_url),
            instruments={"seq": InstrumentSettings(root=self.root)},
            breakers=BreakerSettings(probe_s=600, probe_cap_s=600, share_look_s=0.01),
        )
        self.wakeups = RecordedWakeups()
        self.process = WorkerProcess(self.settings, self.wakeups)
        self.ledger = self.process.ledger

    def settle(self, name: str = "f", body: bytes = b"bytes") -> UploadMessage:
        """Settle a file; return the message it rides in."""
        path = self.root / RUN.run / name
        path.write_bytes(body)
        seen = fingerprint(path)
        self.ledger.discover(RUN, [(name, seen)])
        self.ledger.move(RUN, Event.SETTLE, [Step(path=name, fingerprint=seen, lane=Lane.SMALL)])
        (bundle,) = self.ledger.take(RUN, Lane.SMALL, bundles=1, max_files=9, max_bytes=1 << 30)
        return UploadMessage(run=RUN, bundle=bundle.number, paths=bundle.paths)

    def state(self, name: str = "f") -> State:
        record = self.ledger.find_record(RUN.file(name))
        assert record is not None
        return record.state

    def breaker(self) -> Breaker:
        (found,) = self.ledger.conditions().breakers
        return found

    def let_probe(self) -> None:
        assert self.ledger.swap_breaker(self.breaker(), replace(self.breaker(), next_ms=1))


@pytest.fixture
def site(tmp_path: Path, ledger_url: str, store_settings: StoreSettings, proxy: FaultProxy) -> Site:
    store = store_settings.model_copy(update={"endpoint_url": proxy.url})
    return Site(tmp_path, ledger_url, store)


def test_an_endpoint_that_cannot_be_proven_holds_the_file_that_came_first(
    site: Site, proxy: FaultProxy
) -> None:
    proxy.script(BROKEN)
    (result,) = site.process.upload(site.settle())
    assert (result.state, site.breaker().cause) == (State.HELD, Cause.CREDENTIALS)
    assert proxy.count(key="*/raw/*") == 0, "no file was tried"
    calls = len(proxy.log)
    (result,) = site.process.upload(site.settle("g"))
    assert (result.state, len(proxy.log)) == (State.HELD, calls)


def test_no_run_is_completed_and_no_reason_written_while_something_is_in_the_way(
    site: Site, proxy: FaultProxy
) -> None:
    site.process.upload(site.settle())
    assert site.state() is State.VERIFIED
    assert site.ledger.seal(RUN, [], 1)
    note = Note(event=Event.REFUSE, kind="permanent", code="bad_name", message="m")
    proxy.script(BROKEN)
    site.ledger.discover(RUN, [("bad", Fingerprint(1, 1, 1, 1))])
    site.ledger.move(RUN, Event.REFUSE, [Step(path="bad", note=note)])
    site.process.upload(site.settle("g"))
    assert site.breaker().phase is Phase.OPEN
    calls = len(proxy.log)
    assert not site.process.complete(RUN)
    assert site.process.write_reasons(RUN) == 0
    assert len(proxy.log) == calls


def test_a_completion_meets_what_is_in_the_way_and_is_the_probe_where_no_file_is_left(
    site: Site, proxy: FaultProxy
) -> None:
    site.process.upload(site.settle())
    assert site.ledger.seal(RUN, [], 1)
    proxy.script(BROKEN)
    with pytest.raises(StoreError):
        site.process.complete(RUN)
    assert site.breaker().phase is Phase.OPEN
    assert not site.process.complete(RUN)
    site.let_probe()
    with pytest.raises(StoreError):
        site.process.complete(RUN)
    assert (site.breaker().phase, site.breaker().probes) == (Phase.OPEN, 1)
    proxy.script()
    site.let_probe()
    assert site.process.complete(RUN)
    assert site.breaker().phase is Phase.RAMP


def test_a_probe_is_given_back_by_a_message_that_claims_nothing(
    site: Site, proxy: FaultProxy
) -> None:
    proxy.script(BROKEN)
    message = site.settle()
    site.process.upload(message)
    site.let_probe()
    (result,) = site.process.upload(message)
    assert result.state is State.HELD
    assert site.breaker().phase is Phase.OPEN
    assert site.breaker().next_ms <= site.ledger.now_ms()


def test_a_second_delivery_shows_what_became_of_its_files_and_not_that_it_did_nothing(
    site: Site, proxy: FaultProxy
) -> None:
    site.settle("good")
    message = site.settle("failing")
    proxy.script(rule(Answer(400, "RequestTimeout"), on="PutObject", key="*failing"))
    site.process.upload(message)
    site.process.upload(replace(message, paths=("good",), bundle=message.bundle - 1))
    verified, failed = (
        site.process.upload(replace(message, paths=(path,))) for path in ("good", "failing")
    )
    assert verified == [Result("good", State.VERIFIED)]
    (result,) = failed
    assert result.failure
    assert (result.state, result.failure.code) == (State.FAILED, "RequestTimeout")
    assert result.due_ms == site.ledger.find_due(RUN.file("failing"))


def test_a_message_that_did_some_of_its_files_shows_what_others_did_with_the_rest(
    site: Site,
) -> None:
    first, second = site.settle("first"), site.settle("second")
    site.process.upload(first)
    both = replace(second, paths=("first", "second"))
    assert [one.state for one in site.process.upload(both)] == [State.VERIFIED] * 2


def test_files_are_given_back_when_the_process_ends_while_the_endpoint_is_asked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr("workers.process.proven", end)
    message = site.settle()
    with pytest.raises(SystemExit):
        site.process.upload(message)
    record = site.ledger.find_record(RUN.file("f"))
    assert record is not None
    assert (record.state, record.attempt, record.lost) == (State.ELIGIBLE, 0, 0)


def test_files_of_an_absent_share_are_given_back_and_its_breaker_opens(site: Site) -> None:
    message = site.settle()
    (site.root / RUN.run / "f").unlink()
    (site.root / RUN.run).rmdir()
    (result,) = site.process.upload(message)
    assert result.state is State.ELIGIBLE
    assert site.breaker().cause is Cause.SHARE
    assert site.ledger.history(RUN.file("f")) == []


def test_files_are_given_back_where_what_stands_in_the_way_cannot_be_read(site: Site) -> None:
    message = site.settle()
    site.ledger._server.client.hset(BREAKERS, "x", b"1 {}")
    with pytest.raises(MalformedMessage):
        site.process.upload(message)
    record = site.ledger.find_record(RUN.file("f"))
    assert record is not None
    assert (record.state, record.attempt, record.lost) == (State.ELIGIBLE, 0, 0)


def test_a_held_run_is_left_alone_and_its_message_comes_again(site: Site) -> None:
    message = site.settle()
    site.ledger.hold(RUN, ACT)
    (left,) = site.process.upload(message)
    assert left.state is State.ELIGIBLE
    assert left.failure is not None
    assert ACT.reason in left.failure.message
    assert site.state() is State.ELIGIBLE
    site.ledger.release(RUN, ACT)
    (result,) = site.process.upload(message)
    assert result.state is State.VERIFIED


# -- a run's next step


def test_the_last_message_takes_a_run_s_next_step(site: Site) -> None:
    message = site.settle()
    assert site.ledger.seal(RUN, [], 1)
    site.process.upload(message)
    assert site.wakeups.completions == [RUN]


def test_a_run_is_not_looked_at_after_each_of_many_messages(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[RunKey] = []
    monkeypatch.setattr(site.ledger, "find_facts", looks.append)
    first, second, *others = (site.settle(f"f{number:03}") for number in range(130))
    monkeypatch.setattr("workers.afterwards._MOMENT_S", 0)
    site.process.upload(first)
    assert looks == [RUN], "129 are out, but that was seen a while ago"
    monkeypatch.setattr("workers.afterwards._MOMENT_S", 600)
    site.process.upload(second)
    assert (len(looks), len(others)) == (1, 128)
    site.process.upload(others[0])
    assert len(looks) == 2, "less than half of the window is out"


# -- the records of a run that is over


def completed(site: Site) -> None:
    site.process.upload(site.settle())
    assert site.ledger.seal(RUN, [], 1)
    assert site.process.complete(RUN)
    site.ledger._server.client.zrem(ACTIVE, str(RUN))
    site.ledger.retire(RUN)


@pytest.fixture
def hasty(site: Site) -> Site:
    """Records rest for a moment only."""
    ledger = site.settings.ledger.model_copy(update={"keep_records_s": 0})
    site.process._settings = site.settings.model_copy(update={"ledger": ledger})
    return site


def test_records_are_put_away_and_taken_back_on_a_real_endpoint(hasty: Site) -> None:
    completed(hasty)
    before = dict(hasty.ledger.records(RUN))
    assert hasty.process.put_away(RUN)
    assert dict(hasty.ledger.records(RUN)) == {}
    assert hasty.ledger.finished_runs(rest_ms=0, limit=9) == []
    assert hasty.process.take_back(RUN)
    assert dict(hasty.ledger.records(RUN)) == before


def test_a_run_that_cannot_be_put_away_does_not_stand_before_others(hasty: Site) -> None:
    completed(hasty)
    hasty.ledger._server.client.zadd(FINISHED, {str(RUN): 1})
    facts = hasty.ledger.find_facts(RUN)
    assert facts is not None
    hasty.process._store.delete(facts.marker)
    assert not hasty.process.put_away(RUN)
    assert hasty.ledger.finished_runs(rest_ms=60_000, limit=9) == []
    assert hasty.ledger.finished_runs(rest_ms=0, limit=9) == [RUN]
    assert dict(hasty.ledger.records(RUN))


def test_an_endpoint_that_is_away_keeps_the_records_and_the_run_its_place(
    hasty: Site, proxy: FaultProxy
) -> None:
    completed(hasty)
    hasty.ledger._server.client.zadd(FINISHED, {str(RUN): 1})
    proxy.script(BROKEN)
    with pytest.raises(StoreError):
        hasty.process.put_away(RUN)
    assert hasty.ledger.finished_runs(rest_ms=60_000, limit=9) == [RUN]
    assert not hasty.process.put_away(RUN), "held while the breaker is open"
    assert dict(hasty.ledger.records(RUN))


def test_a_worker_reads_no_faster_than_its_limit(site: Site) -> None:
    site.process.upload(site.settle("warm"))  # the endpoint is proven by then
    site.process._bandwidth._allowances.clear()  # so that the limit is heard of at once
    limit = Limit(bytes_per_s=40_000, actor="ada", reason="backup", at_ms=0)
    site.ledger.set_limit("seq", limit, ACT)
    message = site.settle(body=bytes(200_000))
    began_s = time.monotonic()
    [result] = site.process.upload(message)
    assert result.state is State.VERIFIED
    assert time.monotonic() - began_s > 3.0


def test_what_ends_of_an_instrument_with_a_cap_makes_room_for_its_other_runs(
    tmp_path: Path, ledger_url: str, store_settings: StoreSettings
) -> None:
    site = Site(tmp_path, ledger_url, store_settings)
    capped = InstrumentSettings(root=site.root, max_concurrency=1)
    settings = site.settings.model_copy(update={"instruments": {"seq": capped}})
    wakeups = RecordedWakeups()
    process = WorkerProcess(settings, wakeups)
    first, second = site.settle("f"), site.settle("g")
    other, seen = RunKey("seq", "r2"), Fingerprint(1, 1, 1, 1)
    site.ledger.discover(other, [("h", seen)])
    site.ledger.move(other, Event.SETTLE, [Step(path="h", fingerprint=seen, lane=Lane.SMALL)])
    (held,) = site.ledger.claim(RUN, second.bundle, second.paths, 1, 1)
    (kept,) = process.upload(first)
    assert kept.state is State.ELIGIBLE
    assert wakeups.bundles == []
    site.ledger.move(RUN, Event.FAIL, [Step(path="g", token=held.token, delay_ms=600_000)])
    (bundle,) = site.ledger.take(RUN, Lane.SMALL, bundles=1, max_files=1, max_bytes=9)
    (result,) = process.upload(UploadMessage(run=RUN, bundle=bundle.number, paths=bundle.paths))
    assert (result.path, result.state) == ("f", State.VERIFIED)
    assert [(one.run, one.paths) for one in wakeups.bundles] == [(other, ("h",))]

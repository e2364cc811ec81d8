"""Do workers go on by themselves, and is nothing lost, when Redis dies, stalls, forgets or cuts?

One laboratory of real processes on a Valkey of its own; each test is one blow, in the middle of a
run of its own. Celery cases 7, 8, 9 and 11 (docs/proof.md).
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import redis

from labferry.errors import Fenced
from labferry.identity import FileKey, RunKey
from labferry.records import Outcome, Step, Upload
from labferry.settings import StoreSettings
from labferry.states import MOVE_OF, Actor, State
from ops.embedded import Valkey, Weed
from tests.fault_proxy import FaultProxy
from tests.faults import Hold, rule
from tests.ledger_world import ACT, EVIDENCE, PRINT, later_than
from tests.quay import PART_PUT, PUT
from tests.services import BROKER_DATABASE, credentials
from tests.site import Changes, Site, open_site

FILES = 100
#: The blow falls when so many of them are verified.
STRUCK_AT = 15
LEASE_S = 3
HOLDERS = [event for event, move in MOVE_OF.items() if move.actor is Actor.HOLDER]
STALE = Upload(attempt_token="t", part_size=5, fingerprint=PRINT, upload_id="another's")


@dataclass
class Lab:
    """A site whose worker and agent run through all tests."""

    site: Site
    valkey: Valkey
    share: Path
    proxy: FaultProxy
    hold: Hold = field(default_factory=Hold)
    runs: int = 0

    def begin(self) -> RunKey:
        """Write the next run; wait till it flows, and what is left of it waits for `hold`."""
        self.runs += 1
        run = RunKey("scope", f"run {self.runs}")
        self.hold = Hold(after=STRUCK_AT)
        self.proxy.script(rule(self.hold, on=PUT, key=f"{self.site.layout.raw_prefix(run)}*"))
        folder = self.share / run.run
        folder.mkdir()
        for number in range(FILES):
            (folder / f"{number}").write_bytes(os.urandom(64 * 1024))
        (folder / "large").write_bytes(os.urandom(12 * 1024 * 1024))
        self.site.until(lambda: self.verified(run) >= STRUCK_AT, f"{run} flows")
        assert not self.complete(run)
        return run

    def verified(self, run: RunKey) -> int:
        with suppress(Exception):
            return self.site.verified(run)
        return -1

    def state(self, file: FileKey) -> State | None:
        record = self.site.ledger.find_record(file)
        return record.state if record else None

    def upload_id(self, file: FileKey) -> str:
        """The upload of a file that is on record, or '' ."""
        upload = self.site.ledger.find_upload(file)
        return upload.upload_id if upload else ""

    def celery(self) -> set[int]:
        """The Celery workers, which must not have been started again."""
        return {
            child.pid
            for process in self.site.processes
            for child in psutil.Process(process.pid).children()
        }

    def complete(self, run: RunKey) -> bool:
        facts = self.site.ledger.find_facts(run)
        return facts is not None and facts.is_over

    def ends_whole(self, run: RunKey) -> None:
        """Demand every file, as it is at the source, one marker, nothing lost or left."""
        self.hold.open()
        self.site.until(lambda: self.complete(run), f"{run} complete")
        client = self.site.client()
        for source in (self.share / run.run).iterdir():
            key = self.site.layout.raw(run.file(source.name))
            assert self.site.body(client, key) == source.read_bytes(), source.name
        assert self.site.ledger.markers(run) == {1}
        records = dict(self.site.ledger.records(run))
        assert {one.state for one in records.values()} == {State.VERIFIED}
        assert sum(one.attempt for one in records.values()) == 0, (
            "an outage is not a failed attempt"
        )


@pytest.fixture(scope="module")
def proxy(weed: Weed) -> Iterator[FaultProxy]:
    with FaultProxy(weed.endpoint) as running:
        yield running


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, weed: Weed, proxy: FaultProxy) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("redis")
    share = folder / "share"
    share.mkdir()
    store = StoreSettings(
        bucket=weed.bucket,
        endpoint_url=proxy.url,
        prefix=folder.name,  # of its own: tests that move to another process make it again
        single_put_max_bytes=1024 * 1024,
        part_size_bytes=5 * 1024 * 1024,
    )
    changes: Changes = {
        "ledger": {"lease_ttl_s": LEASE_S, "heartbeat_s": 0.8, "resend_s": 2},
        "broker": {"bundle_max_files": 2},
        "worker": {"small_threads": 1},
        "retry": {"worker_losses": 100},  # a slow machine may miss heartbeats
    }
    with pytest.MonkeyPatch.context() as patch, Valkey(folder / "valkey") as valkey:
        for name, value in credentials(weed).items():
            patch.setenv(name, value)
        with open_site(folder, valkey, store, {"scope": share}, changes) as site:
            site.start("worker")
            site.start("agent")
            yield Lab(site, valkey, share, proxy)


@pytest.fixture
def processes_stay(lab: Lab) -> Iterator[None]:
    """Demand that the same processes go on: they reconnect, nobody starts them again."""
    lab.site.until(lambda: len(lab.celery()) >= 3, "all processes started")
    before = lab.celery()
    yield
    assert lab.celery() == before


def append_only(valkey: Valkey) -> Path:
    """Return the file that the server appends to."""
    files = (valkey.directory / "appendonlydir").glob("*.incr.aof")
    return max(files, key=lambda path: path.stat().st_mtime)


def drop_tail(valkey: Valkey, share: float) -> int:
    """Cut the end off the append-only file, as a crash does that loses the last second."""
    newest = append_only(valkey)
    size = newest.stat().st_size
    lost = int(size * share)
    os.truncate(newest, size - lost)
    return lost


@pytest.mark.usefixtures("processes_stay")
def test_a_server_that_was_killed_under_load_is_found_again(lab: Lab) -> None:
    run = lab.begin()
    lab.valkey.kill()
    lab.site.until(lambda: lab.verified(run) == -1, "the ledger away")
    lab.hold.open()
    lab.valkey.start()
    lab.ends_whole(run)


@pytest.mark.usefixtures("processes_stay")
def test_writes_that_a_crash_lost_are_made_again_and_nothing_twice(lab: Lab) -> None:
    run = lab.begin()
    lab.valkey.kill()
    assert drop_tail(lab.valkey, 0.2) > 0
    lab.valkey.start()
    lab.ends_whole(run)


@pytest.mark.usefixtures("processes_stay")
def test_who_holds_a_claim_that_a_crash_lost_is_fenced_by_the_next_worker(lab: Lab) -> None:
    """Who claims first is the test, by hand: the run is on hold for the real worker meanwhile."""
    run, lab.hold, ledger = RunKey("scope", "lost"), Hold(), lab.site.ledger
    file = run.file("large")
    lab.proxy.script(rule(lab.hold, on=PART_PUT, key=lab.site.layout.raw(file)))
    ledger.hold(run, ACT)
    (lab.share / run.run).mkdir()
    (lab.share / run.run / file.path).write_bytes(os.urandom(12 * 1024 * 1024))
    lab.site.until(lambda: lab.state(file) is State.ELIGIBLE, "the file eligible")

    aof = append_only(lab.valkey)
    kept = aof.stat().st_size
    (lost,) = ledger.claim(run, 0, [file.path], holder=1)
    lab.valkey.kill()
    os.truncate(aof, kept)
    lab.valkey.start()
    assert lab.state(file) is State.ELIGIBLE, "the claim was not lost"
    assert ledger.renew(run, [(file.path, lost.token)]) == [False]
    lab.site.until(lambda: ledger.now_ms() >= later_than(lost.token), "a later instant")
    ledger.release(run, ACT)
    lab.site.until(lambda: lab.upload_id(file) != "", "the worker at work on it")

    upload_id = lab.upload_id(file)
    assert ledger.renew(run, [(file.path, lost.token)]) == [False]
    with pytest.raises(Fenced):
        ledger.save_upload(file, lost.token, STALE)
    for event in HOLDERS:
        step = Step(path=file.path, token=lost.token, evidence=EVIDENCE)
        assert ledger.move(run, event, [step]) == [Outcome.FENCED]
    assert lab.upload_id(file) == upload_id
    lab.ends_whole(run)


@pytest.mark.usefixtures("processes_stay")
def test_a_marker_whose_record_was_lost_is_adopted_and_not_rewritten(lab: Lab) -> None:
    run = lab.begin()
    lab.ends_whole(run)
    marker = lab.site.layout.marker(run, 1)
    before = lab.site.objects(marker)[marker]["LastModified"]
    lab.valkey.kill()
    drop_tail(lab.valkey, 0.3)
    lab.valkey.start()
    lab.site.until(lambda: lab.verified(run) >= 0, "the ledger back")
    lab.ends_whole(run)
    assert lab.site.objects(marker)[marker]["LastModified"] == before


@pytest.mark.usefixtures("processes_stay")
def test_a_server_that_stalls_for_longer_than_a_lease_delays_and_costs_nothing(lab: Lab) -> None:
    run = lab.begin()
    os.kill(lab.valkey.pid, signal.SIGSTOP)
    lab.hold.open()
    try:
        time.sleep(LEASE_S + 1)  # the pause is the blow
    finally:
        os.kill(lab.valkey.pid, signal.SIGCONT)
    lab.ends_whole(run)


@pytest.mark.usefixtures("processes_stay")
def test_a_broker_that_was_flushed_again_and_again_delays_and_costs_nothing(lab: Lab) -> None:
    run = lab.begin()
    for at in (STRUCK_AT, 30, 45):
        lab.hold.after = at
        lab.site.until(lambda n=at: lab.verified(run) >= n, f"{at} verified")  # type: ignore[misc]
        lab.site.broker.flushdb()
    lab.ends_whole(run)


@pytest.mark.usefixtures("processes_stay")
def test_connections_that_are_cut_all_the_time_delay_and_cost_nothing(lab: Lab) -> None:
    run = lab.begin()
    done = threading.Event()

    def cut() -> None:
        with redis.Redis.from_url(lab.valkey.url(BROKER_DATABASE)) as client:
            while not done.wait(1):
                client.client_kill_filter(_type="normal", skipme=True)
                lab.hold.after += 10

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        lab.site.until(lambda: lab.verified(run) >= FILES // 2, "half of it under cuts")
    finally:
        done.set()
        cutter.join()
    lab.ends_whole(run)

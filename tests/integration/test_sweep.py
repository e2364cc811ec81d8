"""What no worker moves, the sweep moves: on the real ledger, with a broker that remembers."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labferry.audit import Act
from labferry.clock import SystemClock
from labferry.feed import top_up
from labferry.identity import RunKey
from labferry.ledger import open_ledger
from labferry.ledger.keys import ACTIVE
from labferry.records import (
    Bundle,
    Completion,
    Evidence,
    Fingerprint,
    Lane,
    Level,
    Note,
    RunFacts,
    Step,
)
from labferry.settings import (
    BrokerSettings,
    InstrumentSettings,
    LedgerSettings,
    Settings,
    StoreSettings,
)
from labferry.settings_trouble import RetrySettings
from labferry.states import Event, State
from tests.recorded_wakeups import RecordedWakeups
from tests.waiting import PATIENCE_S
from workers.sweep import Sweep

RUN = RunKey("seq", "r1")
COMPLETION = Completion(
    generation=1,
    file_count=1,
    manifest_key="m",
    manifest_digest="d",
    marker_key="k",
    event="{}",
)
PROOF = Evidence(level=Level.A, crc64=1, etag="e" * 32)


class Site:
    """A ledger with short times, its sweep, and a broker that remembers."""

    def __init__(self, url: str, **sections: object) -> None:
        ledger = LedgerSettings(url=url, lease_ttl_s=0.3, heartbeat_s=0.05, resend_s=0.2)
        given: dict[str, Any] = {
            "store": StoreSettings(bucket="bucket"),
            "ledger": ledger,
            "instruments": {"seq": InstrumentSettings(root=Path("/nowhere"))},
            "broker": BrokerSettings(),
            "retry": RetrySettings(base_s=0.01, floor_s=0, cap_s=0.01, hold_s=0.01),
            **sections,
        }
        self.settings = Settings.model_construct(**given)
        self.ledger = open_ledger(ledger)
        self.wakeups = RecordedWakeups()
        self.sweep = Sweep(
            ledger=self.ledger,
            wakeups=self.wakeups,
            clock=SystemClock(),
            settings=self.settings,
        )

    def settled(self, names: list[str], *, size: int = 1, run: RunKey = RUN) -> None:
        seen = [(name, Fingerprint(size, 1, 2, 3)) for name in names]
        self.ledger.discover(run, seen)
        lane = self.settings.store.lane(size)
        steps = [Step(path=name, fingerprint=one, lane=lane) for name, one in seen]
        self.ledger.move(run, Event.SETTLE, steps)

    def facts(self, run: RunKey = RUN) -> RunFacts:
        found = self.ledger.find_facts(run)
        assert found is not None
        return found

    def state(self, name: str) -> State:
        record = self.ledger.find_record(RUN.file(name))
        assert record is not None
        return record.state

    def verify_all(self, bundles: list[Bundle]) -> None:
        for bundle in bundles:
            claims = self.ledger.claim(bundle.run, bundle.number, bundle.paths, 1)
            steps = [Step(path=one.path, token=one.token, evidence=PROOF) for one in claims]
            self.ledger.move(bundle.run, Event.VERIFY, steps)

    def tick_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "the sweep did not get there"
            self.sweep.tick()


@pytest.fixture
def site(ledger_url: str) -> Site:
    return Site(ledger_url)


def names(count: int) -> list[str]:
    return [f"f{number:05}" for number in range(count)]


def test_eligible_files_become_messages(site: Site) -> None:
    site.settled(names(3))
    site.sweep.tick()
    assert sorted(path for one in site.wakeups.bundles for path in one.paths) == names(3)
    assert all(len(one.paths) == 1 for one in site.wakeups.bundles)


def test_a_backlog_beyond_the_window_rides_in_bundles_that_fill_a_quarter_of_it(
    ledger_url: str,
) -> None:
    site = Site(ledger_url, broker=BrokerSettings(window_messages=10))
    site.settled(names(95))
    site.sweep.tick()
    assert [len(one.paths) for one in site.wakeups.bundles] == [48, 47]


def test_the_window_is_never_passed_while_nothing_is_claimed(ledger_url: str) -> None:
    site = Site(ledger_url, broker=BrokerSettings(window_messages=4, bundle_max_files=2))
    site.settled(names(50))
    site.settled(names(50), run=RunKey("seq", "r2"))
    for _ in range(3):
        site.sweep.tick()
    numbers = {(one.run, one.number) for one in site.wakeups.bundles}
    assert len(numbers) == 4
    assert site.facts().sent + site.facts(RunKey("seq", "r2")).sent == 4


def test_bundle_max_files_of_one_is_one_message_a_file(ledger_url: str) -> None:
    site = Site(ledger_url, broker=BrokerSettings(window_messages=4, bundle_max_files=1))
    site.settled(names(9))
    site.sweep.tick()
    assert [len(one.paths) for one in site.wakeups.bundles] == [1, 1, 1, 1]


def test_large_files_ride_alone_and_get_half_of_the_window(ledger_url: str) -> None:
    site = Site(
        ledger_url,
        broker=BrokerSettings(window_messages=8),
        store=StoreSettings(bucket="bucket", single_put_max_bytes=10),
    )
    site.settled([f"large{number}" for number in range(20)], size=11)
    site.settled(names(200), size=10)
    site.sweep.tick()
    lanes = [one.lane for one in site.wakeups.bundles]
    assert (lanes.count(Lane.LARGE), lanes.count(Lane.SMALL)) == (4, 2)
    assert all(len(one.paths) == 1 for one in site.wakeups.bundles if one.lane is Lane.LARGE)


def test_a_message_that_was_lost_is_sent_again_and_less_and_less_often(site: Site) -> None:
    site.settled(names(1))
    site.sweep.tick()
    site.tick_until(lambda: len(site.wakeups.bundles) == 3)
    assert [one.tries for one in site.wakeups.bundles] == [0, 1, 2]
    assert len({one.number for one in site.wakeups.bundles}) == 1


def test_a_claimed_message_is_not_sent_again(site: Site) -> None:
    site.settled(names(1))
    site.sweep.tick()
    site.verify_all(site.wakeups.bundles)
    site.wakeups.bundles.clear()
    site.settled(["other"])
    site.tick_until(lambda: len(site.wakeups.bundles) == 3)
    assert {one.paths for one in site.wakeups.bundles} == {("other",)}


def test_a_publish_that_failed_is_made_up_for_when_the_broker_is_back(site: Site) -> None:
    site.settled(names(3))
    site.wakeups.down = True
    site.sweep.tick()
    assert site.wakeups.bundles == []
    site.wakeups.down = False
    site.tick_until(lambda: {p for one in site.wakeups.bundles for p in one.paths} == {*names(3)})


def test_an_expired_lease_is_a_lost_worker_and_the_file_is_tried_again(site: Site) -> None:
    site.settled(names(1))
    site.sweep.tick()
    number = site.ledger.register("host:1")
    [claim] = site.ledger.claim(RUN, site.wakeups.bundles[0].number, names(1), number)
    site.tick_until(lambda: len(site.wakeups.bundles) == 2)
    record = site.ledger.find_record(RUN.file("f00000"))
    assert record is not None
    assert (record.state, record.lost, record.attempt) == (State.ELIGIBLE, 1, 0)
    [note] = site.ledger.history(RUN.file("f00000"))
    assert (note.event, note.code, note.worker) == (Event.EXPIRE, "lease_expired", "host:1")
    assert note.token == claim.token


def test_a_file_that_kills_its_workers_is_quarantined(ledger_url: str) -> None:
    retry = RetrySettings(base_s=0.01, floor_s=0, cap_s=0.01, worker_losses=3)
    site = Site(ledger_url, retry=retry)
    site.settled(names(2))

    def claim_poison() -> bool:
        for bundle in site.wakeups.bundles:
            if bundle.paths == ("f00000",):
                site.ledger.claim(RUN, bundle.number, bundle.paths, 1)
        site.wakeups.bundles.clear()
        return site.state("f00000") is State.QUARANTINED

    site.tick_until(claim_poison)
    history = site.ledger.history(RUN.file("f00000"))
    assert [note.event for note in history] == [Event.EXPIRE, Event.EXPIRE, Event.EXHAUST]
    assert site.state("f00001") is State.ELIGIBLE


@pytest.mark.parametrize("event", [Event.FAIL, Event.HOLD])
def test_a_parked_file_comes_back_as_a_message_of_its_own_when_due(
    site: Site, event: Event
) -> None:
    site.settled(names(5))
    [bundle] = site.ledger.take(RUN, Lane.SMALL, bundles=1, max_files=5, max_bytes=99)
    claims = site.ledger.claim(RUN, bundle.number, bundle.paths, 1)
    note = Note(event=event, kind="transient", code="SlowDown", message="m")
    steps = [Step(path=one.path, token=one.token, delay_ms=50, note=note) for one in claims[:2]]
    site.ledger.move(RUN, event, steps)
    site.sweep.tick()
    assert site.wakeups.bundles == []
    site.tick_until(lambda: len(site.wakeups.bundles) >= 2)
    assert sorted(one.paths for one in site.wakeups.bundles) == [("f00000",), ("f00001",)]
    expected = 1 if event is Event.FAIL else 0
    assert {one.attempt for one in site.wakeups.bundles} == {expected}


def test_a_sealed_run_releases_its_last_file_then_announces_its_completion_once(
    site: Site,
) -> None:
    site.settled(names(2))
    site.ledger.discover(RUN, [("CopyComplete.txt", Fingerprint(1, 1, 9, 3))])
    assert site.ledger.seal(RUN, ["CopyComplete.txt"], 3)
    site.sweep.tick()
    assert site.state("CopyComplete.txt") is State.DISCOVERED
    site.verify_all(site.wakeups.bundles)
    site.wakeups.bundles.clear()
    site.tick_until(lambda: site.state("CopyComplete.txt") is State.ELIGIBLE)
    assert site.wakeups.completions == []
    site.tick_until(lambda: bool(site.wakeups.bundles))
    site.verify_all(site.wakeups.bundles)
    site.sweep.tick()
    site.sweep.tick()
    assert site.wakeups.completions == [RUN]
    site.tick_until(lambda: len(site.wakeups.completions) == 2)  # nobody did it: said again


def test_a_dead_letter_that_the_bucket_does_not_tell_of_is_announced_until_it_does(
    site: Site,
) -> None:
    site.ledger.discover(RUN, [("a", Fingerprint(1, 1, 2, 3)), ("b", Fingerprint(1, 1, 2, 3))])
    site.sweep.tick()
    assert site.wakeups.reasons_of == []
    site.ledger.move(RUN, Event.REFUSE, [Step(path="a")])
    site.sweep.tick()
    site.sweep.tick()
    assert site.wakeups.reasons_of == [RUN]
    site.tick_until(lambda: len(site.wakeups.reasons_of) == 2)  # nobody did it: said again
    site.ledger.reasons_written(RUN, site.ledger.reasons_due(RUN, 0, 9))
    site.ledger.move(RUN, Event.REFUSE, [Step(path="b")])
    site.sweep.tick()
    assert len(site.wakeups.reasons_of) == 3
    site.ledger.reasons_written(RUN, site.ledger.reasons_due(RUN, 0, 9))
    assert site.facts().reasons_due == 0
    site.sweep.tick()
    assert len(site.wakeups.reasons_of) == 3


def test_a_top_up_takes_the_oldest_run_first(ledger_url: str) -> None:
    site = Site(ledger_url, broker=BrokerSettings(window_messages=2, bundle_max_files=1))
    site.settled(names(2), run=RunKey("seq", "older"))
    while site.ledger.now_ms() <= site.facts(RunKey("seq", "older")).opened_ms:
        pass
    site.settled(names(2), run=RunKey("seq", "a-newer"))
    runs = [site.facts(RunKey("seq", name)) for name in ("a-newer", "older")]
    assert top_up(site.ledger, site.wakeups, runs, site.settings) == 2
    assert {one.run.run for one in site.wakeups.bundles} == {"older"}


HOLD = Act(actor="ada@lab", reason="the bucket moves", what="hold")


def paths(site: Site) -> set[str]:
    return {path for bundle in site.wakeups.bundles for path in bundle.paths}


@pytest.mark.parametrize("held", [RUN, RUN.instrument])
def test_nothing_of_what_is_held_is_published_until_it_is_released(
    site: Site, held: RunKey | str
) -> None:
    other = RunKey("other", "r2")
    site.settled(["a", "b"])
    site.settled(["c"], run=other)
    site.ledger.hold(held, HOLD)
    site.sweep.tick()
    assert paths(site) == {"c"}
    site.ledger.release(held, HOLD)
    site.sweep.tick()
    assert paths(site) == {"a", "b", "c"}


def test_what_was_sent_and_what_is_due_waits_for_the_release(site: Site) -> None:
    site.settled(["failing", "waiting"])
    site.sweep.tick()
    bundles = list(site.wakeups.bundles)
    (number,) = [one.number for one in bundles if one.paths == ("failing",)]
    [claim] = site.ledger.claim(RUN, number, ("failing",), 1)
    site.ledger.move(RUN, Event.FAIL, [Step(path="failing", token=claim.token, delay_ms=1)])
    site.ledger.hold(RUN, HOLD)
    until_ms = site.ledger.now_ms() + 1000  # five times as long as a message may lie
    while site.ledger.now_ms() < until_ms:
        site.sweep.tick()
    assert site.wakeups.bundles == bundles
    site.ledger.release(RUN, HOLD)
    site.sweep.tick()
    again = {path for one in site.wakeups.bundles[len(bundles) :] for path in one.paths}
    assert again == {"failing", "waiting"}


def test_a_run_that_is_held_is_not_completed(site: Site) -> None:
    site.settled(["a"])
    site.sweep.tick()
    site.verify_all(site.wakeups.bundles)
    assert site.ledger.seal(RUN, [], 1)
    site.ledger.hold(RUN, HOLD)
    site.sweep.tick()
    assert site.wakeups.completions == []
    site.ledger.release(RUN, HOLD)
    site.sweep.tick()
    assert site.wakeups.completions == [RUN]


def test_a_run_that_is_over_is_announced_to_be_put_away_once_it_rested(ledger_url: str) -> None:
    ledger = LedgerSettings(url=ledger_url, keep_records_s=0)
    site = Site(ledger_url, ledger=ledger)
    site.settled(["a"])
    site.sweep.tick()
    site.verify_all(site.wakeups.bundles)
    assert site.ledger.seal(RUN, [], 1)
    site.ledger.complete(RUN, COMPLETION)
    site.sweep.tick()
    assert site.wakeups.put_away_of == [], "something of it moved within the last minute"

    site.ledger._server.client.zadd(ACTIVE, {str(RUN): 0})
    site.sweep.tick()
    site.sweep.tick()
    assert site.wakeups.put_away_of == [RUN], "announced once a resend time"


def test_a_run_that_is_over_and_has_a_dead_letter_keeps_its_records(ledger_url: str) -> None:
    site = Site(ledger_url, ledger=LedgerSettings(url=ledger_url, keep_records_s=0))
    site.settled(["a"])
    site.sweep.tick()
    site.verify_all(site.wakeups.bundles)
    assert site.ledger.seal(RUN, [], 1)
    site.ledger.complete(RUN, COMPLETION)
    site.ledger.move(RUN, Event.CONFLICT, [Step(path="a", fingerprint=Fingerprint(9, 9, 9, 9))])
    site.ledger._server.client.zrem(ACTIVE, str(RUN))
    site.ledger.retire(RUN)
    site.sweep.tick()
    assert site.wakeups.put_away_of == []

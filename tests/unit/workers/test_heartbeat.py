"""When may a process go on with its files, and when must it stop?"""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from labferry.errors import Fenced, LedgerUnavailable
from labferry.identity import RunKey
from labferry.ports import Clock, Ledger
from labferry.records import Claim, FileRecord, Fingerprint, Outcome, Step
from labferry.settings import LedgerSettings
from labferry.states import Event, State
from tests.manual_clock import ManualClock
from tests.memory_ledger import MemoryLedger
from tests.waiting import PATIENCE_S, eventually
from workers.heartbeat import Heartbeat, Lease, Stopping

RUN = RunKey("scope", "r1")
#: A lease is treated as lost ten seconds before it ends.
GOOD_S = 50


class Leases(MemoryLedger):
    """A ledger that answers a heartbeat as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[tuple[str, int]]] = []
        self.lost: set[str] = set()
        self.is_away = False
        self.moved: list[tuple[Event, str, int]] = []
        self.outcome = Outcome.DONE
        self.on_renew: Any = lambda: None

    def renew(self, run: RunKey, held: Sequence[tuple[str, int]]) -> list[bool]:
        self.on_renew()
        if self.is_away:
            raise LedgerUnavailable(url="redis://x", why="gone")
        self.asked.append(list(held))
        return [path not in self.lost for path, _ in held]

    def move(self, run: RunKey, event: Event, steps: Sequence[Step]) -> list[Outcome]:
        self.moved += [(event, step.path, step.token) for step in steps]
        return [self.outcome for _ in steps]


def claim(path: str, token: int = 7) -> Claim:
    record = FileRecord(
        state=State.UPLOADING,
        attempt=0,
        lost=0,
        rounds=0,
        series=0,
        token=token,
        holder=1,
        fingerprint=Fingerprint(1, 2, 3, 4),
        lane=None,
        discovered_ms=1,
        changed_ms=1,
        settled_ms=1,
        claimed_ms=1,
        verified_ms=0,
    )
    return Claim(path=path, token=token, record=record)


def heartbeat(ledger: Ledger, clock: Clock, *paths: str, interval_s: float = 15) -> Heartbeat:
    settings = LedgerSettings(lease_ttl_s=60, heartbeat_s=interval_s)
    claims = [claim(path) for path in paths]
    return Heartbeat(ledger, RUN, claims, clock=clock, settings=settings)


def test_a_lease_is_good_until_its_margin() -> None:
    clock = ManualClock()
    beating = heartbeat(Leases(), clock, "a")
    clock.now_s += GOOD_S - 0.1
    beating.check("a")
    clock.now_s += 0.2
    with pytest.raises(Fenced):
        beating.check("a")


def test_a_renewal_counts_from_before_it_was_sent() -> None:
    clock, ledger = ManualClock(), Leases()
    beating = heartbeat(ledger, clock, "a")
    ledger.on_renew = lambda: clock.sleep_s(9)
    clock.now_s += 20
    assert beating.beat()
    clock.now_s += GOOD_S - 9 - 0.1
    beating.check("a")
    clock.now_s += 0.2
    with pytest.raises(Fenced):
        beating.check("a")


def test_a_renewal_that_failed_renews_nothing() -> None:
    clock, ledger = ManualClock(), Leases()
    beating = heartbeat(ledger, clock, "a")
    ledger.is_away = True
    clock.now_s += 20
    assert not beating.beat()
    beating.check("a")
    clock.now_s += GOOD_S - 20
    with pytest.raises(Fenced):
        beating.check("a")


def test_a_fenced_answer_stops_that_file_alone() -> None:
    ledger = Leases()
    beating = heartbeat(ledger, ManualClock(), "a", "b")
    ledger.lost = {"a"}
    beating.beat()
    beating.check("b")
    with pytest.raises(Fenced):
        beating.check("a")


def test_finished_files_are_not_renewed() -> None:
    ledger = Leases()
    beating = heartbeat(ledger, ManualClock(), "a", "b")
    beating.let_go("a")
    beating.beat()
    assert ledger.asked == [[("b", 7)]]


def test_a_file_that_is_not_held_may_not_be_worked_on() -> None:
    with pytest.raises(Fenced):
        heartbeat(Leases(), ManualClock(), "a").check("other")


def test_who_is_asked_to_stop_stops_at_every_file() -> None:
    beating = heartbeat(Leases(), ManualClock(), "a")
    beating.stop()
    with pytest.raises(Stopping):
        beating.check("a")


def test_a_short_bundle_starts_no_thread() -> None:
    clock = ManualClock()
    before = threading.active_count()
    beating = heartbeat(Leases(), clock, "a")
    clock.now_s += 14
    beating.tend()
    assert threading.active_count() == before


def test_a_long_bundle_is_renewed_by_a_thread_until_it_is_closed() -> None:
    clock, ledger = ManualClock(), Leases()
    before = threading.active_count()
    beating = heartbeat(ledger, clock, "a", interval_s=0.01)
    clock.now_s += 1
    beating.tend()
    beating.tend()
    assert threading.active_count() == before + 1
    eventually(lambda: len(ledger.asked) >= 2)
    beating.close()
    eventually(lambda: threading.active_count() == before)


def test_the_thread_goes_on_when_the_ledger_is_away_for_a_while() -> None:
    ledger = Leases()
    ledger.is_away = True
    tried = threading.Event()
    ledger.on_renew = tried.set
    beating = heartbeat(ledger, ManualClock(), "a", interval_s=0.01)
    beating.start()
    assert tried.wait(PATIENCE_S)
    ledger.is_away = False
    eventually(lambda: ledger.asked)
    beating.close()


def test_an_object_that_is_there_is_recorded_as_stored_under_the_token() -> None:
    ledger = Leases()
    Lease(heartbeat(ledger, ManualClock(), "a"), ledger, RUN, claim("a")).mark_stored()
    assert ledger.moved == [(Event.STORE, "a", 7)]


def test_who_may_not_record_the_object_has_lost_the_lease() -> None:
    ledger = Leases()
    ledger.outcome = Outcome.FENCED
    with pytest.raises(Fenced):
        Lease(heartbeat(ledger, ManualClock(), "a"), ledger, RUN, claim("a")).mark_stored()

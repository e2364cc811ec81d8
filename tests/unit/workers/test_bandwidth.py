"""Does a process keep to a limit, and cost nothing without one?"""

from dataclasses import replace

import pytest

from labferry.errors import LedgerUnavailable, MalformedMessage
from labferry.limits import OVERALL, Limit, Plan
from labferry.passes import Pass
from tests.ledger_world import ACT
from tests.manual_clock import ManualClock
from tests.memory_ledger import MemoryLedger
from workers.bandwidth import LOOK_S, Allowance, Bandwidth

RATE = 1_000_000


class Counted(MemoryLedger):
    """Counts what is asked about limits."""

    asked = 0
    down = False

    def limits(self) -> dict[str, Limit]:
        self._count()
        return super().limits()

    def reserve(self, rates: object, size: int) -> float:
        self._count()
        return super().reserve(rates, size)  # type: ignore[arg-type]

    def _count(self) -> None:
        if self.down:
            raise LedgerUnavailable(url="x", why="down on purpose")
        self.asked += 1


class Both(ManualClock):
    """Moves the ledger's clock with its own."""

    def __init__(self, ledger: MemoryLedger) -> None:
        super().__init__()
        self._ledger = ledger
        self.began_s = self.mono_s()

    @property
    def passed_s(self) -> float:
        return self.mono_s() - self.began_s

    def sleep_s(self, seconds: float) -> None:
        super().sleep_s(seconds)
        self._ledger.pass_ms(round(seconds * 1000))


@pytest.fixture
def ledger() -> Counted:
    return Counted()


def allowance(ledger: MemoryLedger, clock: ManualClock, **plans: Plan) -> Allowance:
    return Bandwidth(ledger, {OVERALL: Plan(), **plans}, clock).of("seq")


def read(allowance: Allowance, size: int) -> None:
    while size:
        size -= allowance.take(size)


def test_a_limit_is_kept(ledger: Counted) -> None:
    clock = Both(ledger)
    read(allowance(ledger, clock, seq=Plan(bytes_per_s=RATE)), 10 * RATE)
    assert clock.passed_s == pytest.approx(10, abs=0.6)


class Newer(MemoryLedger):
    """Has a limit that another release wrote."""

    def limits(self) -> dict[str, Limit]:
        raise MalformedMessage(what="a limit", why="its version is not known")


def test_a_limit_that_cannot_be_read_fails_no_file_and_takes_none_of_the_settings_off() -> None:
    ledger = Newer()
    clock = Both(ledger)
    read(allowance(ledger, clock, seq=Plan(bytes_per_s=RATE)), 10 * RATE)
    assert clock.passed_s == pytest.approx(10, abs=0.6)


def test_two_processes_keep_to_a_limit_together(ledger: Counted) -> None:
    clock = Both(ledger)
    both = [allowance(ledger, clock, seq=Plan(bytes_per_s=RATE)) for _ in range(2)]
    for _ in range(40):
        for one in both:
            read(one, RATE // 10)
    assert clock.passed_s == pytest.approx(8, abs=0.8)


def test_without_a_limit_all_is_read_at_once_and_the_ledger_is_asked_once_in_a_while(
    ledger: Counted,
) -> None:
    clock = Both(ledger)
    one = allowance(ledger, clock)
    for _ in range(1000):
        assert one.take(1 << 40) == 1 << 40
    assert ledger.asked == 1
    clock.sleep_s(LOOK_S)
    one.take(1)
    assert ledger.asked == 2


def test_a_limit_that_is_set_or_lifted_is_heard_of_soon(ledger: Counted) -> None:
    clock = Both(ledger)
    one = allowance(ledger, clock)
    read(one, RATE)
    ledger.set_limit("seq", Limit(bytes_per_s=RATE, actor="a", reason="r", at_ms=0), ACT)
    clock.sleep_s(LOOK_S)
    began_s = clock.mono_s()
    read(one, 3 * RATE)
    assert clock.mono_s() - began_s == pytest.approx(3, abs=0.6)
    ledger.set_limit("seq", Limit(bytes_per_s=1, actor="a", reason="r", at_ms=0), ACT)
    clock.sleep_s(LOOK_S)
    one.take(10), one.take(1 << 20)
    ledger.set_limit("seq", None, ACT)
    began_s = clock.mono_s()
    read(one, 1 << 40)
    assert clock.mono_s() - began_s < LOOK_S + 2, "a long wait ends with its limit"


def test_the_limit_of_all_holds_for_each(ledger: Counted) -> None:
    clock = Both(ledger)
    plans = {OVERALL: Plan(bytes_per_s=RATE), "seq": Plan(), "ms": Plan(bytes_per_s=RATE * 9)}
    shared = Bandwidth(ledger, plans, clock)
    for _ in range(20):
        read(shared.of("seq"), RATE // 10)
        read(shared.of("ms"), RATE // 10)
    assert clock.passed_s == pytest.approx(4, abs=0.8)


def test_an_acquiring_instrument_is_read_more_slowly(ledger: Counted) -> None:
    clock = Both(ledger)
    one = allowance(ledger, clock, seq=Plan(acquiring_bytes_per_s=RATE))
    assert one.take(1 << 40) == 1 << 40
    told = Pass(instrument="seq", host="h", at_ms=ledger.now_ms())
    ledger.tell_pass(replace(told, arrived_ms=ledger.now_ms()))
    clock.sleep_s(LOOK_S)
    began_s = clock.mono_s()
    read(one, 3 * RATE)
    assert clock.mono_s() - began_s == pytest.approx(3, abs=0.6)


def test_an_outage_of_the_ledger_lifts_no_limit_and_ends_no_read(ledger: Counted) -> None:
    clock = Both(ledger)
    one = allowance(ledger, clock, seq=Plan(bytes_per_s=RATE))
    read(one, RATE)
    ledger.down = True
    began_s = clock.mono_s()
    read(one, 5 * RATE)
    assert clock.mono_s() - began_s == pytest.approx(5, abs=0.6)

"""Is everything counted that a process does, and told once a second at most?"""

from collections.abc import Callable

import pytest

from labferry.errors import LedgerUnavailable
from labferry.states import State
from labferry.tallies import OTHER, Tally, What
from tests.dock import Meddling
from tests.memory_ledger import MemoryLedger
from workers.counters import Counters

NAME = "seq"


class Later:
    """What is to be called after a while, when a test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def __call__(self, _wait_s: float, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def come(self) -> None:
        due, self.calls = self.calls, []
        for call in due:
            call()


def test_many_counts_are_told_in_one_call() -> None:
    ledger, later = MemoryLedger(), Later()
    counters = Counters(ledger, later)
    counters.add(NAME, What.SENT_BYTES, 5)
    counters.add(NAME, What.SENT_BYTES, 6)
    counters.arrived(NAME, [ledger.now_ms()])
    assert ledger.tallies().counts == {}
    assert len(later.calls) == 1
    later.come()
    assert ledger.tallies().counts[Tally(NAME, What.SENT_BYTES)] == 11
    assert ledger.tallies().counts[Tally(NAME, What.WAIT, code="10")] == 1
    assert later.calls == []


def test_counts_are_kept_while_the_ledger_is_away_and_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ledger, later = MemoryLedger(), Later()

    def fail() -> None:
        raise LedgerUnavailable(url="redis://x", why="gone")

    counters = Counters(Meddling(ledger, "tally", fail), later)
    counters.add(NAME, What.LEASE_LOST)
    counters.arrived(NAME, [0])
    later.come()
    assert ledger.tallies().counts == {}
    counters.add(NAME, What.LEASE_LOST)
    later.come()
    assert ledger.tallies().counts[Tally(NAME, What.LEASE_LOST)] == 2
    assert later.calls == []


def test_a_code_that_no_table_knows_is_counted_under_one_name() -> None:
    ledger = MemoryLedger()
    counters = Counters(ledger, Later())
    for number in range(1000):
        counters.add(NAME, What.ATTEMPT, state=State.FAILED, code=f"Made/Up{number}")
    counters.add(NAME, What.ATTEMPT, state=State.FAILED, code="SlowDown")
    counters.send()
    assert ledger.tallies().counts == {
        Tally(NAME, What.ATTEMPT, State.FAILED, OTHER): 1000,
        Tally(NAME, What.ATTEMPT, State.FAILED, "SlowDown"): 1,
    }


def test_every_counter_comes_back_from_the_name_of_its_field() -> None:
    for what in What:
        tally = Tally("seq-1.b", what, State.FAILED, "KMS.DisabledException")
        assert Tally.parse(tally.field) == tally

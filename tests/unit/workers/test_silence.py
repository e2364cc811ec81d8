"""Who hears of an instrument whose share nobody sees, and how often?"""

from dataclasses import replace

import pytest

from labferry.passes import SILENT_S, Pass
from tests.manual_clock import ManualClock
from tests.memory_ledger import MemoryLedger
from workers.silence import Silence

MINUTE_MS = 60_000


class World:
    def __init__(self, *instruments: str) -> None:
        self.ledger, self.clock = MemoryLedger(), ManualClock()
        self.silence = Silence(self.ledger, self.clock, instruments)
        self.began_ms = self.ledger.clock_ms
        self.seen = Pass(
            instrument="seq",
            host="beside",
            at_ms=self.began_ms,
            due_ms=self.began_ms + 2 * MINUTE_MS,
        )

    def told(self, **fields: object) -> None:
        self.ledger.tell_pass(replace(self.seen, **fields))  # type: ignore[arg-type]

    def after(self, minutes: float) -> list[str]:
        """Look every half minute for so long; return what was said by then."""
        for _ in range(int(minutes * 2)):
            self.clock.now_s += 30
            self.ledger.pass_ms(30_000)
            self.silence.tend()
        return [one.text for one in self.ledger.alerts()]


@pytest.fixture
def world() -> World:
    return World("seq")


def test_a_silence_is_told_once_and_the_next_one_again(world: World) -> None:
    world.told()
    assert world.after(2) == []
    (text,) = world.after(30)
    assert text.startswith("seq: nobody looked at its share since 2027-01-15 08:00 UTC, on beside")
    world.told(at_ms=world.ledger.clock_ms, due_ms=world.ledger.clock_ms + MINUTE_MS)
    assert len(world.after(1)) == 1
    assert len(world.after(30)) == 2


def test_a_share_that_is_away_for_a_while_is_told_once(world: World) -> None:
    away = {"away": "The root is empty.", "away_ms": world.began_ms, "due_ms": 2**50}
    world.told(**away)
    assert world.after(SILENT_S / 60) == []
    (text,) = world.after(30)
    assert "seq: The root is empty. So since" in text


def test_what_is_seen_from_another_host_or_promised_nothing_is_not_told(world: World) -> None:
    world.told()
    world.told(host="another", due_ms=2**50)
    world.told(instrument="once", due_ms=0)
    assert world.after(60) == []


def test_an_instrument_that_is_not_set_any_more_is_not_told() -> None:
    world = World("other")
    world.told()
    assert world.after(60) == []

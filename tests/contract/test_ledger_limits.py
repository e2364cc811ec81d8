"""Does every ledger keep what was said of limits, and share a limit out?"""

import pytest
import redis

from labferry.audit import read_line
from labferry.ledger import open_ledger
from labferry.ledger.keys import RESERVED
from labferry.limits import OVERALL, Limit
from labferry.settings import LedgerSettings
from tests.ledger_world import ACT, World

LIMIT = Limit(bytes_per_s=5_000_000, actor="ada@lab", reason="backup", at_ms=7, until_ms=9)


def test_a_limit_is_kept_and_its_act_is_on_record(world: World) -> None:
    world.ledger.set_limit("seq", LIMIT, ACT)
    world.ledger.set_limit(OVERALL, Limit(bytes_per_s=None, actor="a", reason="r", at_ms=1), ACT)
    assert world.ledger.limits()["seq"] == LIMIT
    assert world.ledger.limits()[OVERALL].bytes_per_s is None
    world.ledger.set_limit("seq", None, ACT)
    assert list(world.ledger.limits()) == [OVERALL]
    assert [read_line(line).act for line in world.ledger.audit(None)] == [ACT] * 3


def test_what_is_taken_of_a_limit_comes_after_what_was_taken_before(world: World) -> None:
    waits = [world.ledger.reserve({"seq": 1_000_000}, 500_000) for _ in range(3)]
    assert waits == pytest.approx([0, 0.5, 1.0], abs=0.2)
    assert world.second().reserve({"seq": 1_000_000}, 1) == pytest.approx(1.5, abs=0.2)


def test_of_two_limits_the_longer_wait_counts_and_both_are_used(world: World) -> None:
    world.ledger.reserve({OVERALL: 1_000_000}, 2_000_000)
    assert world.ledger.reserve({OVERALL: 1_000_000, "seq": 10}, 10) == pytest.approx(2, abs=0.2)
    assert world.ledger.reserve({"seq": 10}, 1) == pytest.approx(1, abs=0.2)


def test_what_nobody_took_is_not_saved_up(world: World) -> None:
    world.ledger.reserve({"seq": 1000}, 1000)
    world.pass_ms(60_000)
    waits = [world.ledger.reserve({"seq": 1000}, 1000) for _ in range(2)]
    assert waits[1] >= 0.9


def test_what_was_taken_at_a_low_rate_keeps_nobody_waiting_at_a_high_one(world: World) -> None:
    world.ledger.reserve({"seq": 1}, 65_536)  # 18 hours ahead
    assert world.ledger.reserve({"seq": 1_000_000}, 65_536) == pytest.approx(0.066, abs=0.05)
    assert world.ledger.reserve({"seq": 1_000_000}, 1) == pytest.approx(0.13, abs=0.1)


def test_what_was_taken_at_a_high_rate_keeps_nobody_waiting_for_longer(world: World) -> None:
    world.ledger.reserve({"seq": 100_000_000}, 200_000_000)
    assert world.ledger.reserve({"seq": 1000}, 1000) == pytest.approx(2, abs=0.2)


def test_a_low_rate_is_kept_though_each_taking_lasts_for_hours(world: World) -> None:
    waits = [world.ledger.reserve({"seq": 1}, 65_536) for _ in range(3)]
    assert waits == pytest.approx([0, 65_536, 131_072], abs=1)


def test_a_clock_that_is_set_back_keeps_nobody_waiting(ledger_url: str) -> None:
    ledger = open_ledger(LedgerSettings(url=ledger_url))
    ledger.reserve({"seq": 1_000_000}, 1_000_000)
    with redis.Redis.from_url(ledger_url) as client:
        client.hset(RESERVED, "seq", ledger.now_ms() + 3_600_000)
    waits = [ledger.reserve({"seq": 1_000_000}, 1_000_000) for _ in range(2)]
    assert waits == pytest.approx([0, 1], abs=0.2)

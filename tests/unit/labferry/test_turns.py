"""Whose files go first, and how many ride in a message?"""

from dataclasses import replace

from labferry.passes import Space
from labferry.records import Lane, RunFacts
from labferry.states import State
from labferry.turns import Turn, bundle_files, is_outranked, rank_of, turn_of
from labferry.word import Word
from tests.unit.ops.run_facts import run_facts

FULL_IN_1H = Space(free_bytes=3600, total_bytes=10_000, fills_bytes_per_s=1)
WINDOW = 256


def facts(*, eligible: int, ready: int, sent: int = 0, large: int = 0) -> RunFacts:
    counts = {**dict.fromkeys(State, 0), State.ELIGIBLE: eligible}
    return replace(
        run_facts(), counts=counts, ready={Lane.SMALL: ready, Lane.LARGE: large}, sent=sent
    )


def test_a_share_that_is_full_soon_goes_before_every_priority() -> None:
    assert rank_of(-100, FULL_IN_1H, 7200) > rank_of(100, None, 7200)
    assert rank_of(3, FULL_IN_1H, 3600) == 3
    assert rank_of(3, replace(FULL_IN_1H, fills_bytes_per_s=0), 7200) == 3
    assert rank_of(5, FULL_IN_1H, 7200) > rank_of(1, FULL_IN_1H, 7200)


def test_messages_of_all_instruments_are_worth_about_the_same() -> None:
    flood = turn_of([facts(eligible=200_000, ready=200_000)], 0, WINDOW, moves=True)
    assert bundle_files(50, [flood], WINDOW) == bundle_files(200_000, [], WINDOW) == 3125


def test_a_file_alone_rides_alone_where_nobody_floods() -> None:
    few = turn_of([facts(eligible=200, ready=200)], 0, WINDOW, moves=True)
    assert bundle_files(50, [few], WINDOW) == 1
    assert bundle_files(50, [], WINDOW) == 1


def test_a_backlog_beyond_the_window_leaves_room_for_what_comes_next() -> None:
    assert bundle_files(WINDOW, [], WINDOW) == 1
    assert bundle_files(WINDOW + 1, [], WINDOW) == 5
    assert 10_000 / bundle_files(10_000, [], WINDOW) <= WINDOW / 4


def test_what_is_published_already_counts() -> None:
    published = turn_of([facts(eligible=50_000, ready=0, sent=100)], 0, WINDOW, moves=True)
    assert published.bundle_files == 500


def test_what_a_person_holds_has_no_turn() -> None:
    held = replace(facts(eligible=9, ready=9), hold=Word(actor="a", reason="r", at_ms=1))
    assert turn_of([held], 5, WINDOW, moves=True).ready == {Lane.SMALL: 0, Lane.LARGE: 0}


def test_only_files_of_the_same_lane_that_wait_and_move_go_first() -> None:
    first = Turn(rank=2, ready={Lane.SMALL: 1, Lane.LARGE: 0})
    assert is_outranked(1, Lane.SMALL, [first])
    assert not is_outranked(1, Lane.LARGE, [first])
    assert not is_outranked(2, Lane.SMALL, [first])
    assert not is_outranked(1, Lane.SMALL, [replace(first, moves=False)])

"""Whose files go first, and how many ride in a message?"""

from dataclasses import replace

from labferry.passes import Space
from labferry.records import Lane, RunFacts
from labferry.states import State
from labferry.turns import Turn, bundle_files, free_of, is_outranked, most_of, rank_of, turn_of
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


def under_way(leased: int, *, eligible: int = 0, ready: int = 0, held: bool = False) -> RunFacts:
    """A run of which files are leased, and eligible ones that do not wait ride in messages."""
    one = facts(eligible=eligible, ready=ready, sent=eligible - ready)
    half = leased // 2
    counts = {**one.counts, State.UPLOADING: half, State.UPLOADED: leased - half}
    word = Word(actor="a", reason="r", at_ms=1) if held else None
    return replace(one, counts=counts, hold=word)


def test_of_a_cap_what_is_under_way_or_in_messages_is_not_free() -> None:
    runs = [under_way(3), under_way(1, eligible=100, ready=98)]
    assert free_of(runs, 16) == 10
    assert free_of(runs, 6) == 0
    assert free_of(runs, 5) == 0
    assert free_of([], 5) == 5
    assert free_of(runs, None) > 10**9


def test_what_a_person_holds_takes_of_a_cap_only_what_is_under_way() -> None:
    assert free_of([under_way(3, eligible=100, ready=90, held=True)], 16) == 13


def test_a_cap_is_handed_out_in_several_messages() -> None:
    assert [most_of(cap) for cap in (1, 2, 4, 5, 400)] == [1, 1, 1, 2, 100]
    assert most_of(None) > 10**9


def test_what_is_above_a_cap_makes_no_others_wait() -> None:
    flood = [under_way(1, eligible=200_000, ready=200_000)]
    turn = turn_of(flood, 1, WINDOW, moves=True, cap=8)
    assert turn.ready == {Lane.SMALL: 7, Lane.LARGE: 0}
    assert turn.bundle_files == 2
    full = turn_of(flood, 1, WINDOW, moves=True, cap=1)
    assert not is_outranked(0, Lane.SMALL, [full])


def test_only_files_of_the_same_lane_that_wait_and_move_go_first() -> None:
    first = Turn(rank=2, ready={Lane.SMALL: 1, Lane.LARGE: 0})
    assert is_outranked(1, Lane.SMALL, [first])
    assert not is_outranked(1, Lane.LARGE, [first])
    assert not is_outranked(2, Lane.SMALL, [first])
    assert not is_outranked(1, Lane.SMALL, [replace(first, moves=False)])

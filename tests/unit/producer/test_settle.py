"""What follows from one look at one file?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.records import Fingerprint, Seen
from labferry.states import AT_REST, MOVE_OF, Event, State, advance
from producer.settle import MOVED_AS_THEY_ARE, Verdict, judge, judge_left_out

FILE = Fingerprint(size=10, mtime_ns=1_000, inode=7, ctime_ns=1_000)
WINDOW_MS = 60_000
CHANGED_MS = 1_000_000
RESTED_MS = CHANGED_MS + WINDOW_MS

OTHER = {
    "size": FILE._replace(size=11),
    "mtime": FILE._replace(mtime_ns=999),
    "inode": FILE._replace(inode=8),
    "size, with the mtime put back": FILE._replace(size=9, ctime_ns=2_000),
    "content in place, same size": FILE._replace(mtime_ns=1_001),
}


def seen(state: State, fingerprint: Fingerprint = FILE) -> Seen:
    return Seen(state, fingerprint, CHANGED_MS)


def verdict(known: Seen | None, *, looked_ms: int = RESTED_MS, last: bool = False) -> Verdict:
    return judge(FILE, known, looked_ms=looked_ms, window_ms=WINDOW_MS, last=last)


def test_a_file_not_on_record_is_discovered() -> None:
    assert verdict(None) is Verdict.DISCOVER


def test_a_file_unchanged_for_the_window_settles() -> None:
    assert verdict(seen(State.DISCOVERED)) is Verdict.SETTLE


def test_a_file_unchanged_for_less_than_the_window_waits() -> None:
    assert verdict(seen(State.DISCOVERED), looked_ms=RESTED_MS - 1) is Verdict.WAIT


def test_a_file_that_goes_up_last_is_not_settled_by_a_scan() -> None:
    assert verdict(seen(State.DISCOVERED), looked_ms=RESTED_MS * 2, last=True) is Verdict.WAIT


@pytest.mark.parametrize("before", OTHER.values(), ids=OTHER)
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.DISCOVERED, Verdict.CHANGE),
        (State.ELIGIBLE, Verdict.CHANGE),
        (State.VERIFIED, Verdict.CONFLICT),
        (State.UPLOADING, Verdict.NOTHING),
        (State.UPLOADED, Verdict.NOTHING),
        (State.FAILED, Verdict.NOTHING),
        (State.HELD, Verdict.NOTHING),
        (State.QUARANTINED, Verdict.NOTHING),
        (State.DISCARDED, Verdict.NOTHING),
        (State.SKIPPED, Verdict.REAPPEAR),
    ],
)
def test_a_changed_file_is_judged_by_where_it_is(
    state: State, expected: Verdict, before: Fingerprint
) -> None:
    assert verdict(seen(state, before)) is expected


@pytest.mark.parametrize("state", sorted(set(State) - set(MOVED_AS_THEY_ARE)))
def test_a_known_file_that_is_as_it_was_leads_to_nothing(state: State) -> None:
    assert verdict(seen(state)) is Verdict.NOTHING


def test_a_skipped_file_that_is_there_reappears() -> None:
    assert verdict(seen(State.SKIPPED)) is Verdict.REAPPEAR


@pytest.mark.parametrize("state", [State.ELIGIBLE, State.VERIFIED])
def test_another_ctime_alone_is_no_change_of_a_settled_file(state: State) -> None:
    assert verdict(seen(state, FILE._replace(ctime_ns=5))) is Verdict.NOTHING


def test_another_ctime_is_a_change_before_a_file_settles() -> None:
    # A worker compares the ctime: a file settled under the old one would be refused for ever.
    before = FILE._replace(ctime_ns=5)
    assert verdict(seen(State.DISCOVERED, before)) is Verdict.CHANGE


@pytest.mark.parametrize("mtime_ns", [-(2**62), 0, 2**62])
def test_an_mtime_is_never_compared_with_a_clock(mtime_ns: int) -> None:
    file = FILE._replace(mtime_ns=mtime_ns)
    known = seen(State.DISCOVERED, file)
    for looked_ms, expected in ((RESTED_MS - 1, Verdict.WAIT), (RESTED_MS, Verdict.SETTLE)):
        assert judge(file, known, looked_ms=looked_ms, window_ms=WINDOW_MS) is expected


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("found", [FILE, OTHER["size"]])
def test_every_verdict_on_a_known_file_is_a_move_the_table_allows(
    state: State, found: Fingerprint
) -> None:
    for looked_ms in (CHANGED_MS, RESTED_MS):
        answer = judge(found, seen(state), looked_ms=looked_ms, window_ms=WINDOW_MS)
        if answer not in {Verdict.WAIT, Verdict.NOTHING}:
            assert advance(state, Event(answer)) is MOVE_OF[Event(answer)].target


@pytest.mark.parametrize("known", [None, *(seen(state) for state in State)])
@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("found", [FILE, OTHER["size"]])
def test_what_follows_for_an_entry_left_out_is_a_walk_of_the_table_that_ends_at_rest(
    known: Seen | None, refused: bool, found: Fingerprint
) -> None:
    state = known.state if known else None
    for one in judge_left_out(found, known, refused=refused):
        event = Event(one)
        state = MOVE_OF[event].target if state is None else advance(state, event)
        assert state is not None
    assert state in AT_REST or (known and state is known.state)


def test_an_entry_left_out_is_recorded_once() -> None:
    assert judge_left_out(FILE, None, refused=False) == (Verdict.DISCOVER, Verdict.SKIP)
    assert judge_left_out(FILE, seen(State.SKIPPED), refused=False) == ()


def test_a_refused_entry_is_recorded_once_as_a_dead_letter() -> None:
    assert judge_left_out(FILE, None, refused=True) == (Verdict.DISCOVER, Verdict.REFUSE)
    assert judge_left_out(FILE, seen(State.QUARANTINED), refused=True) == ()
    assert judge_left_out(FILE, seen(State.SKIPPED), refused=True) == (
        Verdict.REAPPEAR,
        Verdict.REFUSE,
    )


def test_a_verified_file_replaced_by_a_link_is_a_conflict() -> None:
    answer = judge_left_out(OTHER["inode"], seen(State.VERIFIED), refused=False)
    assert answer == (Verdict.CONFLICT,)


@given(
    writes=st.lists(st.integers(1, 400), max_size=12).map(sorted),
    gaps=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=40),
)
def test_no_interleaving_of_writes_and_looks_settles_what_changed_within_the_window(
    writes: list[int], gaps: list[tuple[int, int]]
) -> None:
    """A look is taken at `looked`, and its outcome recorded later, as a slow batch does."""
    window, now, known = 30, 0, None
    for wait, delay in gaps:
        looked = now + wait
        found = FILE._replace(size=sum(write <= looked for write in writes))
        answer = judge(found, known, looked_ms=looked, window_ms=window)
        now = looked + delay
        if answer in {Verdict.DISCOVER, Verdict.CHANGE}:
            known = Seen(State.DISCOVERED, found, now)
        if answer is Verdict.SETTLE:
            assert not any(looked - window < write <= looked for write in writes)
            return

"""When does each part of the done rule hold, and what does it say?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.identity import RunKey
from labferry.profiles import Profile, load_profile
from labferry.records import Lane, RunFacts
from labferry.source.done import Holds, Listing, Part, done_parts, is_done
from labferry.states import State

STARTED_MS = 10_000_000
LISTING = Listing(started_ms=STARTED_MS, files=3)


def profile(**fields: object) -> Profile:
    return load_profile("generic", {"quiet_s": 300, **fields})


def facts(*, changed_ms: int = STARTED_MS - 300_000, **counts: int) -> RunFacts:
    by_name = counts or {"verified": 3}
    return RunFacts(
        run=RunKey("inst", "run1"),
        generation=1,
        opened_ms=1,
        changed_ms=changed_ms,
        sealed_ms=0,
        completed=0,
        marker="",
        counts={state: by_name.get(state, 0) for state in State},
        sizes=dict.fromkeys(State, 0),
        ready=dict.fromkeys(Lane, 0),
        sent=0,
        now_ms=STARTED_MS + 60_000,
    )


def part(name: str, parts: list[Part]) -> Part:
    (found,) = [one for one in parts if one.name == name]
    return found


def test_a_run_at_rest_is_done() -> None:
    assert is_done(done_parts(profile(), LISTING, facts()))


def test_every_part_says_what_it_looked_at() -> None:
    parts = done_parts(profile(marker="done.txt"), LISTING, facts())
    assert {one.name for one in parts} == {
        "marker", "listing", "min_files", "no_temporary", "settled", "quiet",
    }  # fmt: skip
    assert all(one.looked_at for one in parts)


def test_a_profile_without_marker_has_no_marker_part() -> None:
    assert "marker" not in {one.name for one in done_parts(profile(), LISTING, facts())}


def test_a_marker_that_is_not_there_holds_the_run_back() -> None:
    parts = done_parts(profile(marker="CopyComplete.txt"), LISTING, facts())
    assert part("marker", parts).holds is Holds.FAIL
    assert "CopyComplete.txt" in part("marker", parts).looked_at
    assert not is_done(parts)


def test_a_marker_waits_for_the_seal_and_not_the_seal_for_it() -> None:
    listing = replace(LISTING, markers=("done",), last=("done",), last_waiting=1)
    parts = done_parts(profile(marker="done"), listing, facts(verified=2, discovered=1))
    assert is_done(parts)


def test_a_marker_that_is_being_written_holds_the_run_back() -> None:
    listing = replace(LISTING, markers=("done",), last=("done",), last_waiting=1, last_restless=1)
    parts = done_parts(profile(marker="done"), listing, facts(verified=2, discovered=1))
    assert part("settled", parts).holds is Holds.FAIL


def test_a_file_that_is_not_settled_holds_the_run_back() -> None:
    parts = done_parts(profile(), LISTING, facts(verified=2, discovered=1))
    assert part("settled", parts).holds is Holds.FAIL


@pytest.mark.parametrize("state", sorted(set(State) - {State.DISCOVERED, State.SKIPPED}), ids=str)
def test_a_settled_file_in_any_other_state_holds_nothing_back(state: State) -> None:
    assert is_done(done_parts(profile(), LISTING, facts(**{state: 3})))


@pytest.mark.parametrize(("age_ms", "holds"), [(299_999, Holds.FAIL), (300_000, Holds.PASS)])
def test_quiet_counts_from_the_last_change_to_the_start_of_the_scan(
    age_ms: int, holds: Holds
) -> None:
    parts = done_parts(profile(), LISTING, facts(changed_ms=STARTED_MS - age_ms))
    assert part("quiet", parts).holds is holds


def test_a_change_recorded_by_this_very_scan_is_not_quiet() -> None:
    parts = done_parts(profile(quiet_s=1), LISTING, facts(changed_ms=STARTED_MS + 5_000))
    assert part("quiet", parts).holds is Holds.FAIL


def test_a_temporary_name_holds_the_run_back_and_is_named() -> None:
    listing = replace(LISTING, temporary=("sub/x.tmp",), temporary_count=1)
    parts = done_parts(profile(), listing, facts())
    assert part("no_temporary", parts).holds is Holds.FAIL
    assert "sub/x.tmp" in part("no_temporary", parts).looked_at


@pytest.mark.parametrize(
    ("files", "markers", "holds"),
    [
        (3, (), Holds.PASS),
        (2, (), Holds.FAIL),
        (3, ("done",), Holds.FAIL),
        (4, ("done",), Holds.PASS),
    ],
)
def test_markers_do_not_count_as_content(
    files: int, markers: tuple[str, ...], holds: Holds
) -> None:
    listing = replace(LISTING, files=files, markers=markers, last=markers)
    parts = done_parts(profile(min_files=3, marker="done"), listing, facts(verified=4))
    assert part("min_files", parts).holds is holds


def test_an_empty_run_is_never_done() -> None:
    listing = replace(LISTING, files=0)
    assert not is_done(done_parts(profile(quiet_s=0), listing, facts(skipped=2)))


def test_a_file_at_the_source_that_is_not_on_record_holds_the_run_back() -> None:
    parts = done_parts(profile(), LISTING, facts(verified=2))
    assert part("listing", parts).holds is Holds.FAIL


def test_skipped_files_do_not_stand_in_for_files_of_the_run() -> None:
    parts = done_parts(profile(), LISTING, facts(verified=2, skipped=5))
    assert part("listing", parts).holds is Holds.FAIL


def test_a_verified_file_that_is_gone_from_the_source_holds_nothing_back() -> None:
    assert is_done(done_parts(profile(), LISTING, facts(verified=5)))


def test_a_name_that_vanished_during_the_listing_holds_the_run_back() -> None:
    parts = done_parts(profile(), replace(LISTING, vanished_count=1), facts())
    assert part("listing", parts).holds is Holds.FAIL


def test_what_an_unreadable_path_hides_is_not_possible_and_never_pass() -> None:
    listing = Listing(
        started_ms=STARTED_MS, files=0, unreadable=("sub: EACCES",), unreadable_count=1
    )
    parts = done_parts(profile(marker="done"), listing, facts())
    untold = {one.name for one in parts if one.holds is Holds.NOT_POSSIBLE}
    assert untold == {"marker", "listing", "min_files", "no_temporary", "quiet"}
    assert "sub: EACCES" in part("listing", parts).looked_at
    assert not is_done(parts)


@pytest.mark.parametrize("holds", [Holds.FAIL, Holds.NOT_POSSIBLE])
def test_one_part_that_does_not_pass_is_enough(holds: Holds) -> None:
    parts = [Part(name=name, holds=Holds.PASS, looked_at="-") for name in "abc"]
    assert is_done(parts)
    assert not is_done([*parts, replace(parts[0], holds=holds)])


@given(
    files=st.integers(0, 5),
    vanished=st.integers(0, 2),
    unreadable=st.integers(0, 2),
    temporary=st.integers(0, 2),
    discovered=st.integers(0, 2),
    known=st.integers(0, 6),
    age_s=st.integers(0, 600),
)
def test_no_run_is_done_unless_it_was_seen_whole_and_is_at_rest(
    files: int,
    vanished: int,
    unreadable: int,
    temporary: int,
    discovered: int,
    known: int,
    age_s: int,
) -> None:
    listing = Listing(
        started_ms=STARTED_MS,
        files=files,
        temporary=("t",) * temporary,
        temporary_count=temporary,
        vanished_count=vanished,
        unreadable=("u",) * unreadable,
        unreadable_count=unreadable,
    )
    counted = facts(changed_ms=STARTED_MS - age_s * 1000, discovered=discovered, verified=known)
    done = is_done(done_parts(profile(), listing, counted))
    assert done == (
        not (vanished or unreadable or temporary or discovered)
        and 1 <= files <= known
        and age_s >= 300
    )

"""Does every ledger seal, complete, reopen and retire runs as the port says?"""

from dataclasses import replace

import pytest

from labferry.identity import RunKey
from labferry.records import Lane, Outcome, Step
from labferry.states import Event, State
from tests.ledger_world import OTHER, PRINT, RUN, World

GROWN = PRINT._replace(size=5000)


def test_all_runs_are_on_record_and_sorted(world: World) -> None:
    for name in ("b", "a", "c d"):
        world.discover("f", run=RunKey("seq", name))
    world.discover("f", run=RunKey("ms", "z"))
    runs = [RunKey("ms", "z"), RunKey("seq", "a"), RunKey("seq", "b"), RunKey("seq", "c d")]
    assert world.ledger.runs() == runs
    assert world.ledger.active_runs() == runs


def test_a_run_with_an_impossible_name_does_not_hide_the_others(world: World) -> None:
    bad = RunKey("seq", "x" * 300)
    world.discover("f")
    world.discover("f", run=bad)
    assert set(world.ledger.runs()) == {RUN, bad}
    assert set(world.ledger.active_runs()) == {RUN, bad}


def test_facts_tell_when_the_run_was_seen_first_and_last(world: World) -> None:
    world.discover("a")
    opened = world.facts()
    assert opened.opened_ms == opened.changed_ms == world.record("a").discovered_ms
    assert (opened.generation, opened.completed, opened.marker, opened.sealed_ms) == (1, 0, "", 0)
    assert opened.run == RUN
    world.pass_ms(7)
    opened = world.facts()
    world.discover("b")
    world.discover("a")
    later = world.facts()
    assert later.opened_ms == opened.opened_ms
    assert later.changed_ms == world.record("b").discovered_ms
    assert later.now_ms >= later.changed_ms


# -- the seal


def test_a_run_of_settled_files_is_sealed_once(world: World) -> None:
    world.settle("a", "b")
    before = world.ledger.now_ms()
    assert world.ledger.seal(RUN, [], 2)
    assert before <= world.facts().sealed_ms <= world.ledger.now_ms()
    world.pass_ms(10)
    sealed_ms = world.facts().sealed_ms
    assert not world.ledger.seal(RUN, [], 2)
    assert world.facts().sealed_ms == sealed_ms


def test_a_run_never_seen_is_not_sealed(world: World) -> None:
    assert not world.ledger.seal(RUN, [], 0)
    assert world.ledger.find_facts(RUN) is None


def test_many_runs_are_read_at_a_time(world: World) -> None:
    runs = [RunKey("NovaSeq1", f"run {number}") for number in range(1234)]
    for run in runs[:-1]:
        world.discover("a", run=run)
    world.settle("a", "b", run=runs[7])
    known = world.ledger.facts_of([*reversed(runs), runs[0]])
    assert [facts.run for facts in known] == [*reversed(runs[:-1]), runs[0]]
    assert {sum(facts.counts.values()) for facts in known} == {1, 2}
    (seventh,) = [facts for facts in known if facts.run == runs[7]]
    assert replace(seventh, now_ms=0) == replace(world.facts(runs[7]), now_ms=0)
    assert world.ledger.facts_of([]) == []


def test_a_file_that_is_not_settled_prevents_the_seal(world: World) -> None:
    world.settle("a")
    world.discover("b")
    assert not world.ledger.seal(RUN, [], 2)
    assert not world.ledger.seal(RUN, ["c"], 2)
    assert not world.ledger.seal(RUN, ["a"], 2), "a is last, but b is the one that waits"
    assert world.facts().sealed_ms == 0
    assert world.ledger.seal(RUN, ["b"], 2)


def test_a_file_that_is_named_twice_does_not_stand_for_another(world: World) -> None:
    world.discover("a", "b")
    assert not world.ledger.seal(RUN, ["a", "a"], 2)


def test_a_file_that_the_scan_saw_and_the_ledger_does_not_know_prevents_the_seal(
    world: World,
) -> None:
    world.settle("a")
    assert not world.ledger.seal(RUN, [], 2)
    assert world.ledger.seal(RUN, [], 1)


def test_skipped_files_are_left_out_of_the_count(world: World) -> None:
    world.settle("a")
    world.discover("litter")
    world.move(Event.SKIP, "litter")
    assert not world.ledger.seal(RUN, [], 2)
    assert world.ledger.seal(RUN, [], 1)


def test_files_on_their_way_do_not_prevent_the_seal(world: World) -> None:
    for state in (State.UPLOADING, State.VERIFIED, State.FAILED, State.HELD, State.QUARANTINED):
        world.bring(state, state.value)
    assert world.ledger.seal(RUN, [], 5)


def test_the_last_files_of_a_sealed_run_wait_to_be_released(world: World) -> None:
    world.settle("a")
    world.discover("z last", "CopyComplete.txt")
    last = ["z last", "never seen", "CopyComplete.txt"]
    assert world.ledger.seal(RUN, last, 3)
    assert world.ledger.pending_last(RUN) == ["CopyComplete.txt", "z last"]
    world.settle("z last")
    assert world.ledger.pending_last(RUN) == ["CopyComplete.txt"]
    assert world.facts().sealed_ms > 0
    assert world.ledger.pending_last(OTHER) == []


def test_a_new_seal_forgets_the_last_files_of_the_one_before(world: World) -> None:
    world.discover("a", "b")
    assert world.ledger.seal(RUN, ["a", "b"], 2)
    world.move(Event.CHANGE, "a", fingerprint=GROWN)
    world.settle("a")
    assert world.ledger.seal(RUN, ["b"], 2)
    assert world.ledger.pending_last(RUN) == ["b"]
    world.move(Event.CHANGE, "b", fingerprint=GROWN)
    world.settle("b")
    assert world.ledger.seal(RUN, [], 2)
    assert world.ledger.pending_last(RUN) == []
    world.move(Event.CHANGE, "b", fingerprint=PRINT)
    assert world.ledger.pending_last(RUN) == [], "what was last once is not any more"


def test_thousands_of_files_may_go_up_last(world: World) -> None:
    paths = [f"f{i:05}" for i in range(9001)]
    world.discover(*paths)
    assert world.ledger.seal(RUN, paths, 9001)
    assert world.ledger.pending_last(RUN) == paths


def test_a_new_file_reopens_a_sealed_run(world: World) -> None:
    world.settle("a")
    world.ledger.seal(RUN, [], 1)
    world.discover("a")
    assert world.facts().sealed_ms > 0
    world.discover("b")
    assert (world.facts().sealed_ms, world.facts().generation) == (0, 1)


@pytest.mark.parametrize("event", [Event.CHANGE, Event.REAPPEAR, Event.ABANDON])
def test_a_change_reopens_a_sealed_run(world: World, event: Event) -> None:
    token = world.upload("held")
    world.settle("waits")
    world.discover("skipped")
    world.move(Event.SKIP, "skipped")
    assert world.ledger.seal(RUN, [], 2)
    path = {Event.CHANGE: "waits", Event.REAPPEAR: "skipped", Event.ABANDON: "held"}[event]
    needed = token if event is Event.ABANDON else 0
    assert world.move(event, path, token=needed, fingerprint=GROWN) == [Outcome.DONE]
    assert (world.facts().sealed_ms, world.facts().generation) == (0, 1)


def test_a_refused_change_leaves_the_seal(world: World) -> None:
    world.verify("a")
    world.ledger.seal(RUN, [], 1)
    world.pass_ms(3)
    changed_ms = world.facts().changed_ms
    assert world.move(Event.CHANGE, "a", fingerprint=GROWN) == [Outcome.ILLEGAL]
    assert world.facts().sealed_ms > 0
    assert world.facts().changed_ms == changed_ms


def test_events_on_the_way_leave_the_seal(world: World) -> None:
    world.settle("a")
    world.ledger.seal(RUN, [], 1)
    (token,) = world.claim("a")
    world.move(Event.FAIL, "a", token=token, delay_ms=0)
    world.ledger.take_due(RUN, 1)
    (token,) = world.claim("a")
    world.move(Event.YIELD, "a", token=token)
    world.claim("a")
    assert world.facts().sealed_ms > 0


# -- completion and generations


def test_a_generation_is_completed_once_with_one_event(world: World) -> None:
    world.verify("a")
    world.ledger.seal(RUN, [], 1)
    assert world.complete(file_count=1)
    assert not world.complete(file_count=1)
    assert world.ledger.markers(RUN) == {1}
    assert world.outbox(RUN) == ["event 1"]
    facts = world.facts()
    assert (facts.completed, facts.generation) == (1, 1)
    assert facts.marker == f"runs/{RUN}/1/complete.json"
    assert facts.sealed_ms > 0
    assert world.ledger.markers(OTHER) == set()


def test_a_complete_run_is_not_sealed_again(world: World) -> None:
    world.complete_run("a")
    assert not world.ledger.seal(RUN, [], 1)


def test_a_late_file_opens_the_next_generation_when_it_settles(world: World) -> None:
    world.complete_run("a")
    world.discover("late")
    assert (world.facts().generation, world.facts().completed) == (1, 1)
    assert world.facts().sealed_ms == 0
    assert not world.ledger.seal(RUN, [], 2)
    world.settle("late")
    facts = world.facts()
    assert (facts.generation, facts.completed, facts.sealed_ms) == (2, 1, 0)
    assert facts.marker == f"runs/{RUN}/1/complete.json"
    world.settle("later")
    assert world.facts().generation == 2
    assert world.ledger.seal(RUN, [], 3)
    assert world.complete(generation=2, file_count=3)
    assert world.ledger.markers(RUN) == {1, 2}
    assert world.outbox(RUN) == ["event 1", "event 2"]
    assert (world.facts().generation, world.facts().completed) == (2, 2)


def test_a_late_file_that_is_skipped_opens_nothing(world: World) -> None:
    world.complete_run("a")
    world.discover("late")
    world.move(Event.SKIP, "late")
    assert (world.facts().generation, world.facts().completed) == (1, 1)


def test_a_replay_after_completion_opens_the_next_generation_under_the_same_seal(
    world: World,
) -> None:
    """The files are those that were sealed: no scan has to look at them again."""
    world.complete_run("a", "b")
    sealed_ms = world.facts().sealed_ms
    world.move(Event.CONFLICT, "a")
    assert world.facts().generation == 1
    assert world.move(Event.REPLAY, "a") == [Outcome.DONE]
    facts = world.facts()
    assert (facts.generation, facts.completed, facts.sealed_ms) == (2, 1, sealed_ms)


def test_a_replay_beside_a_late_file_opens_a_generation_that_has_to_be_sealed(
    world: World,
) -> None:
    world.complete_run("a", "b")
    world.move(Event.CONFLICT, "a")
    world.discover("late")
    assert world.move(Event.REPLAY, "a") == [Outcome.DONE]
    assert (world.facts().generation, world.facts().sealed_ms) == (2, 0)


def test_a_replay_of_a_changed_source_opens_the_next_generation_when_it_settles(
    world: World,
) -> None:
    world.complete_run("a", "b")
    world.move(Event.CONFLICT, "a", fingerprint=GROWN)
    assert world.move(Event.REVISE, "a", fingerprint=GROWN) == [Outcome.DONE]
    assert (world.facts().generation, world.facts().completed) == (1, 1)
    world.settle("a")
    facts = world.facts()
    assert (facts.generation, facts.completed, facts.sealed_ms) == (2, 1, 0)


def test_a_file_that_settled_before_the_marker_was_recorded_opens_the_next_generation(
    world: World,
) -> None:
    """The manifest is in the bucket, and names one file, when another comes."""
    world.verify("a")
    world.ledger.seal(RUN, [], 1)
    world.settle("between")
    assert world.complete(file_count=1)
    facts = world.facts()
    assert (facts.generation, facts.completed, facts.sealed_ms) == (2, 1, 0)
    assert not world.complete(file_count=1)
    assert world.facts().generation == 2


def test_a_file_seen_before_the_marker_was_recorded_opens_it_when_it_settles(world: World) -> None:
    world.verify("a")
    world.ledger.seal(RUN, [], 1)
    world.discover("between", "skipped")
    world.move(Event.SKIP, "skipped")
    assert world.complete(file_count=1)
    assert (world.facts().generation, world.facts().completed) == (1, 1)
    assert not world.ledger.seal(RUN, ["between"], 2), "it is complete"
    world.settle("between")
    assert (world.facts().generation, world.facts().completed) == (2, 1)
    assert world.ledger.seal(RUN, [], 2)


def test_two_completers_record_one_marker(world: World) -> None:
    world.verify("a")
    world.ledger.seal(RUN, [], 1)
    other = World(world.second(), world.clockwork)
    assert sorted([world.complete(file_count=1), other.complete(file_count=1)]) == [False, True]
    assert world.outbox(RUN) == ["event 1"]


# -- the index of active runs


def test_a_retired_run_is_left_out_until_something_moves(world: World) -> None:
    world.complete_run("a")
    world.discover("x", run=OTHER)
    world.pass_ms(61_000)
    world.ledger.retire(RUN)
    assert world.ledger.active_runs() == [OTHER]
    assert world.ledger.runs() == [RUN, OTHER]
    world.discover("late")
    assert world.ledger.active_runs() == [RUN, OTHER]


@pytest.mark.parametrize("event", [Event.SETTLE, Event.REPLAY])
def test_what_queues_a_file_makes_its_run_active(world: World, event: Event) -> None:
    world.complete_run("a", "b")
    world.discover("late")
    world.move(Event.CONFLICT, "a")
    world.pass_ms(61_000)
    world.ledger.retire(RUN)
    assert world.ledger.active_runs() == []
    path = "late" if event is Event.SETTLE else "a"
    step = Step(path=path, fingerprint=PRINT, lane=Lane.SMALL)
    assert world.apply(event, [step]) == [Outcome.DONE]
    assert world.ledger.active_runs() == [RUN]


def test_a_run_is_not_retired_under_a_move_that_may_be_underway(world: World) -> None:
    """An agent has told the index and not yet the run; its move must find the run active."""
    world.complete_run("a")
    world.pass_ms(58_000)
    world.ledger.retire(RUN)
    assert world.ledger.active_runs() == [RUN]
    world.pass_ms(58_000)
    world.ledger.retire(RUN)
    world.ledger.retire(RUN)
    assert world.ledger.active_runs() == []

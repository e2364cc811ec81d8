"""Does every ledger keep dead letters, reasons to write, and who did what, as the port says?"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from labferry.audit import Act, Head, find_fault, read_line
from labferry.errors import Refused
from labferry.records import Lane, Note, Outcome, Step, Upload
from labferry.states import MOVE_OF, Actor, Event, State
from tests.ledger_world import ACT, EVIDENCE, OTHER, PRINT, RUN, TTL_MS, World

GROWN = PRINT._replace(size=5000)
INTO = [event for event, move in MOVE_OF.items() if move.target is State.QUARANTINED]
OUT = [event for event, move in MOVE_OF.items() if State.QUARANTINED in move.sources]
UPLOAD = Upload(attempt_token="t", part_size=5, fingerprint=PRINT, upload_id="id")
NOTE = Note(event=Event.QUARANTINE, kind="permanent", code="AccessDenied", message="no")


def quarantine(world: World, path: str, event: Event = Event.QUARANTINE) -> None:
    """Bring a file that is not on record into quarantine by this event."""
    source = next(iter(sorted(MOVE_OF[event].sources)))
    token = world.bring(source, path) if event is not Event.QUARANTINE else world.upload(path)
    world.pass_ms(TTL_MS)
    shown = token if MOVE_OF[event].needs_token or event is Event.EXHAUST else 0
    note = replace(NOTE, event=event)
    assert world.move(event, path, token=shown, note=note) == [Outcome.DONE]


def dead(world: World) -> dict[str, int]:
    return {one.path: one.since_ms for one in world.ledger.dead_files(RUN)}


def due(world: World) -> list[str]:
    return [path for path, _ in world.ledger.reasons_due(RUN, 0, 1000)]


def write_all(world: World) -> None:
    world.ledger.reasons_written(RUN, world.ledger.reasons_due(RUN, 0, 1000))
    assert due(world) == []


# -- the index


@pytest.mark.parametrize("event", INTO)
def test_a_quarantined_file_is_a_dead_letter_from_that_instant(world: World, event: Event) -> None:
    before = world.ledger.now_ms()
    quarantine(world, "a", event)
    [letter] = world.ledger.dead_files(RUN)
    assert (letter.path, letter.record.state) == ("a", State.QUARANTINED)
    assert before <= letter.since_ms <= world.ledger.now_ms()
    assert letter.notes[-1].event is event
    assert world.ledger.active_runs() == [RUN]


@pytest.mark.parametrize("event", OUT)
def test_a_file_out_of_quarantine_is_no_dead_letter(world: World, event: Event) -> None:
    quarantine(world, "a")
    quarantine(world, "b")
    assert world.move(event, "a") == [Outcome.DONE]
    assert dead(world).keys() == {"b"}


def test_no_move_but_into_quarantine_makes_a_dead_letter(world: World) -> None:
    others = set(State) - {State.QUARANTINED, State.DISCARDED, State.ELIGIBLE}
    for state in (*others, State.ELIGIBLE):
        world.bring(state, state)
    assert dead(world) == {}
    assert due(world) == []
    assert world.facts().reasons_due == 0


def test_a_refused_move_makes_no_dead_letter(world: World) -> None:
    world.settle("a")
    assert world.move(Event.REFUSE, "a", "b") == [Outcome.ILLEGAL, Outcome.MISSING]
    assert dead(world) == {}
    assert world.facts().reasons_due == 0


def test_dead_letters_come_with_as_much_of_their_history_as_is_asked_for(world: World) -> None:
    token = world.upload("a")
    for number in range(3):
        note = replace(NOTE, event=Event.YIELD, message=str(number))
        world.move(Event.YIELD, "a", token=token, note=note)
        [token] = world.claim("a")
    world.move(Event.QUARANTINE, "a", token=token, note=NOTE)
    for notes, messages in ((1, ["no"]), (2, ["2", "no"]), (0, ["0", "1", "2", "no"])):
        [letter] = world.ledger.dead_files(RUN, notes=notes)
        assert [note.message for note in letter.notes] == messages
    assert list(world.ledger.dead_files(OTHER)) == []


def test_thousands_of_dead_letters_are_all_listed(world: World) -> None:
    paths = [f"f{number:05}" for number in range(5001)]
    world.discover(*paths)
    assert set(world.move(Event.REFUSE, *paths, note=NOTE)) == {Outcome.DONE}
    assert {one.path for one in world.ledger.dead_files(RUN, notes=1)} == set(paths)
    assert world.facts().reasons_due == len(paths)


# -- reasons to be written


@pytest.mark.parametrize("event", INTO)
def test_the_bucket_is_to_tell_of_each_dead_letter(world: World, event: Event) -> None:
    quarantine(world, "a", event)
    assert due(world) == ["a"]
    assert world.facts().reasons_due == 1
    write_all(world)
    assert world.facts().reasons_due == 0


@pytest.mark.parametrize("event", [Event.REPLAY, Event.REVISE, Event.DISCARD])
def test_the_bucket_is_to_tell_of_its_end(world: World, event: Event) -> None:
    quarantine(world, "a")
    write_all(world)
    world.move(event, "a")
    assert due(world) == ["a"]


def test_reasons_are_listed_in_the_order_of_their_changes_page_by_page(world: World) -> None:
    world.discover("c", "a", "b")
    for path in ("c", "a", "b"):
        world.move(Event.REFUSE, path)
    first = world.ledger.reasons_due(RUN, 0, 2)
    assert [path for path, _ in first] == ["c", "a"]
    assert [path for path, _ in world.ledger.reasons_due(RUN, first[-1][1], 2)] == ["b"]
    world.move(Event.DISCARD, "c")
    assert due(world) == ["a", "b", "c"]


def test_what_changed_while_its_reason_was_written_is_to_be_written_again(world: World) -> None:
    quarantine(world, "a")
    taken = world.ledger.reasons_due(RUN, 0, 10)
    world.move(Event.DISCARD, "a")
    world.ledger.reasons_written(RUN, taken)
    assert due(world) == ["a"]
    write_all(world)


def test_what_two_wrote_is_to_be_written_again(world: World) -> None:
    """The later of the two documents may be the older one."""
    quarantine(world, "a")
    taken = world.ledger.reasons_due(RUN, 0, 10)
    world.ledger.reasons_written(RUN, taken)
    world.ledger.reasons_written(RUN, taken)
    assert due(world) == ["a"]


# -- sent in again


def test_a_replay_begins_a_new_series_with_fresh_budgets_and_keeps_the_old_attempts(
    world: World,
) -> None:
    token = world.upload("a")
    for event in (Event.FAIL, Event.EXPIRE):
        world.pass_ms(TTL_MS)
        world.move(event, "a", token=token, delay_ms=0, note=replace(NOTE, event=event))
        world.ledger.take_due(RUN, 1)
        [token] = world.claim("a")
    world.move(Event.QUARANTINE, "a", token=token, note=NOTE)
    before = world.record("a")
    assert (before.attempt, before.lost, before.series) == (2, 1, 0)

    note = Note(event=Event.REPLAY, kind="operator", code="replay", message=ACT.reason)
    assert world.move(Event.REPLAY, "a", note=note) == [Outcome.DONE]

    after = world.record("a")
    assert after.state is State.ELIGIBLE
    assert (after.attempt, after.lost, after.rounds, after.series) == (0, 0, 0, 1)
    assert after.claimed_ms == 0
    assert (after.fingerprint, after.token) == (before.fingerprint, before.token)
    events = [one.event for one in world.history("a")]
    assert events == [Event.FAIL, Event.EXPIRE, Event.QUARANTINE, Event.REPLAY]
    [bundle] = world.take()
    assert (bundle.paths, bundle.series) == (("a",), 1)


def test_a_replay_of_a_changed_source_settles_first_under_the_facts_seen_now(world: World) -> None:
    quarantine(world, "a")
    assert world.move(Event.REVISE, "a", fingerprint=GROWN) == [Outcome.DONE]
    after = world.record("a")
    assert (after.state, after.series, after.attempt) == (State.DISCOVERED, 1, 0)
    assert (after.fingerprint, after.settled_ms) == (GROWN, 0)
    assert after.changed_ms >= after.discovered_ms
    assert world.take() == []
    world.settle("a")
    assert [one.paths for one in world.take()] == [("a",)]


def test_a_discarded_file_can_be_sent_in_again(world: World) -> None:
    quarantine(world, "a")
    world.move(Event.DISCARD, "a")
    assert world.move(Event.REPLAY, "a") == [Outcome.DONE]
    assert world.record("a").state is State.ELIGIBLE


@pytest.mark.parametrize("event", [Event.REPLAY, Event.REVISE])
def test_the_multipart_plan_survives_for_the_worker_to_judge(world: World, event: Event) -> None:
    """It alone can tell whether the plan is still of the file, and end the upload if not."""
    token = world.upload("a", lane=Lane.LARGE)
    world.ledger.save_upload(RUN.file("a"), token, UPLOAD)
    world.move(Event.QUARANTINE, "a", token=token)
    world.move(event, "a")
    assert world.ledger.find_upload(RUN.file("a")) == UPLOAD


def test_a_replay_leaves_the_seal_and_a_changed_source_undoes_it(world: World) -> None:
    for path in ("a", "b"):
        quarantine(world, path)
    assert world.ledger.seal(RUN, [], 2)
    world.move(Event.REPLAY, "a")
    assert world.facts().sealed_ms > 0
    world.move(Event.REVISE, "b")
    assert world.facts().sealed_ms == 0


@pytest.mark.parametrize("event", [Event.REPLAY, Event.REVISE, Event.DISCARD])
def test_an_act_makes_its_run_active(world: World, event: Event) -> None:
    world.complete_run("a", "b")
    world.move(Event.CONFLICT, "a")
    world.pass_ms(61_000)
    world.ledger.retire(RUN)
    world.move(event, "a")
    assert world.ledger.active_runs() == [RUN]


def test_a_dead_letter_of_a_retired_run_makes_it_active(world: World) -> None:
    world.complete_run("a")
    world.pass_ms(61_000)
    world.ledger.retire(RUN)
    world.move(Event.CONFLICT, "a")
    assert world.ledger.active_runs() == [RUN]


# -- who and why


def test_an_operators_event_needs_an_act(world: World) -> None:
    quarantine(world, "a")
    for event, move in MOVE_OF.items():
        if move.actor is Actor.OPERATOR:
            with pytest.raises(Refused):
                world.ledger.move(RUN, event, [Step(path="a")])
    with pytest.raises(Refused):
        world.ledger.act(RUN, Event.SKIP, [Step(path="a")], ACT)
    assert world.record("a").state is State.QUARANTINED
    assert list(world.ledger.audit(RUN)) == []


def test_an_act_is_on_record_with_who_and_why_and_what_each_file_was_and_became(
    world: World,
) -> None:
    quarantine(world, "a")
    world.verify("b")
    world.move(Event.CONFLICT, "b")
    act = Act(actor="ada@lab", reason='"why"\n\udcff µ', what="replay", selector="--run x")
    assert world.ledger.act(RUN, Event.REPLAY, [Step(path="a"), Step(path="b")], act) == [
        Outcome.DONE,
        Outcome.DONE,
    ]
    [line] = world.ledger.audit(RUN)
    entry = read_line(line)
    assert (entry.number, entry.run, entry.act) == (1, str(RUN), act)
    assert 0 <= world.ledger.now_ms() - entry.at_ms < 60_000
    assert list(entry.files) == [
        {
            "path": "a",
            "before": {"state": "quarantined", "series": 0},
            "after": {"state": "eligible", "series": 1},
        },
        {
            "path": "b",
            "before": {
                "state": "quarantined",
                "series": 0,
                "crc64nvme": f"{EVIDENCE.crc64:016x}",
            },
            "after": {"state": "eligible", "series": 1},
        },
    ]


def test_what_cannot_be_moved_is_left_out_of_the_act(world: World) -> None:
    quarantine(world, "a")
    world.settle("b")
    steps = [Step(path=path) for path in ("b", "a", "missing")]
    assert world.ledger.act(RUN, Event.DISCARD, steps, ACT) == [
        Outcome.ILLEGAL,
        Outcome.DONE,
        Outcome.MISSING,
    ]
    [line] = world.ledger.audit(RUN)
    assert [one["path"] for one in read_line(line).files] == ["a"]
    assert world.record("b").state is State.ELIGIBLE


def test_an_act_that_moves_nothing_leaves_no_line(world: World) -> None:
    world.settle("b")
    assert world.move(Event.DISCARD, "b", "missing") == [Outcome.ILLEGAL, Outcome.MISSING]
    assert world.ledger.act(OTHER, Event.DISCARD, [Step(path="x")], ACT) == [Outcome.MISSING]
    assert world.ledger.act(RUN, Event.DISCARD, [], ACT) == []
    assert list(world.ledger.audit(RUN)) == list(world.ledger.audit(OTHER)) == []
    assert world.ledger.audit_head(RUN) == Head()


def test_a_file_that_is_named_twice_is_acted_on_once(world: World) -> None:
    quarantine(world, "a")
    assert world.move(Event.DISCARD, "a", "a") == [Outcome.DONE, Outcome.DONE]
    [line] = world.ledger.audit(RUN)
    assert len(read_line(line).files) == 1


def test_acts_without_a_run_have_an_audit_of_their_own(world: World) -> None:
    quarantine(world, "a")
    world.move(Event.DISCARD, "a")
    world.ledger.record_act(None, ACT)
    world.ledger.record_act(RUN, replace(ACT, what="hold"))
    assert [read_line(one).act.what for one in world.ledger.audit(None)] == ["test"]
    assert [read_line(one).act.what for one in world.ledger.audit(RUN)] == ["test", "hold"]
    assert [read_line(one).run for one in world.ledger.audit(None)] == [""]
    assert list(world.ledger.audit(OTHER)) == []


def test_every_audit_is_one_chain_up_to_its_head(world: World) -> None:
    for number in range(450):
        world.ledger.record_act(RUN, replace(ACT, reason=str(number)))
    world.ledger.record_act(None, ACT)
    lines = list(world.ledger.audit(RUN))
    assert [json.loads(line[65:])["number"] for line in lines] == [*range(1, 451)]
    for run in (RUN, None):
        assert find_fault(world.ledger.audit(run), world.ledger.audit_head(run)) is None
    assert world.ledger.audit_head(RUN).lines == 450


def test_four_who_act_at_once_make_one_chain_and_each_file_is_moved_by_one(world: World) -> None:
    shared = [f"shared {number}" for number in range(20)]
    own = {number: [f"own {number} {n}" for n in range(20)] for number in range(4)}
    paths = [*shared, *(path for some in own.values() for path in some)]
    world.discover(*paths)
    world.move(Event.REFUSE, *paths)
    ledgers = [world.second() for _ in own]

    def work(number: int) -> int:
        done = 0
        for path in (path for both in zip(shared, own[number], strict=True) for path in both):
            act = replace(ACT, actor=f"operator {number}")
            step = Step(path=path)
            done += ledgers[number].act(RUN, Event.DISCARD, [step], act) == [Outcome.DONE]
        return done

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, own)) == len(paths)
    lines = list(world.ledger.audit(RUN))
    assert find_fault(lines, world.ledger.audit_head(RUN)) is None
    assert sorted(one["path"] for line in lines for one in read_line(line).files) == sorted(paths)


# -- holds, and the end of a run


def test_a_hold_is_on_record_with_who_and_why_until_it_is_released(world: World) -> None:
    world.discover("a")
    world.discover("a", run=OTHER)
    world.ledger.hold(RUN, ACT)
    facts = world.facts()
    assert facts.hold is not None
    assert (facts.hold.actor, facts.hold.reason) == (ACT.actor, ACT.reason)
    assert world.ledger.find_hold(RUN) == facts.hold
    assert world.ledger.holds() == {str(RUN): facts.hold}
    assert world.facts(OTHER).hold is world.ledger.find_hold(OTHER) is None
    world.ledger.release(RUN, ACT)
    assert world.facts().hold is None
    assert world.ledger.holds() == {}
    assert len(list(world.ledger.audit(RUN))) == 2
    assert find_fault(world.ledger.audit(RUN), world.ledger.audit_head(RUN)) is None


def test_an_instrument_that_is_held_holds_its_runs(world: World) -> None:
    world.discover("a")
    world.ledger.hold(RUN.instrument, ACT)
    assert world.facts().hold == world.ledger.find_hold(RUN) is not None
    assert list(world.ledger.holds()) == [RUN.instrument]
    assert len(list(world.ledger.audit(None))) == 1
    world.ledger.release(RUN.instrument, ACT)
    assert world.ledger.find_hold(RUN) is None


@pytest.mark.parametrize(
    "state", [State.UPLOADING, State.UPLOADED, State.FAILED, State.HELD, State.QUARANTINED]
)
def test_a_run_is_not_closed_over_a_file_that_is_not_at_its_end(world: World, state: State) -> None:
    world.bring(state, "a")
    assert not world.ledger.close(RUN, ACT)
    facts = world.facts()
    assert (facts.closed, facts.sealed_ms) == (None, 0)
    assert list(world.ledger.audit(RUN)) == []


def test_a_closed_run_is_frozen_with_who_and_why(world: World) -> None:
    world.bring(State.HELD, "a")
    world.bring(State.FAILED, "b")
    assert world.move(Event.CLOSE, "a", "b", note=NOTE) == [Outcome.DONE] * 2
    assert world.ledger.close(RUN, ACT)
    facts = world.facts()
    assert facts.closed is not None
    assert (facts.closed.actor, facts.closed.reason) == (ACT.actor, ACT.reason)
    assert facts.sealed_ms > 0
    assert facts.counts[State.DISCARDED] == 2
    assert world.ledger.take_due(RUN, 10) == []
    assert world.ledger.active_runs() == [RUN]
    closing, closed = (read_line(line) for line in world.ledger.audit(RUN))
    assert [one["before"]["state"] for one in closing.files] == ["held", "failed"]
    assert closed.files == ()


def test_a_run_whose_objects_may_go_is_on_record_with_who_and_why(world: World) -> None:
    world.discover("a")
    world.ledger.end_custody(RUN, ACT)
    (name,) = world.ledger.out_of_custody()
    assert name == str(RUN)
    word = world.ledger.out_of_custody()[name]
    assert (word.actor, word.reason) == (ACT.actor, ACT.reason)
    assert world.ledger.holds() == {}, "that is no hold"
    world.ledger.resume_custody(RUN, ACT)
    assert world.ledger.out_of_custody() == {}
    assert len(list(world.ledger.audit(RUN))) == 2

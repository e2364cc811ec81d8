"""Does every ledger record files and move them as the port says?

Run on the memory one and on a real server. Runs, bundles, leases: test_ledger_*.py beside this.
"""

import random
from dataclasses import replace

import pytest

from labferry.errors import Refused
from labferry.identity import RunKey
from labferry.records import Fingerprint, Lane, Note, Outcome, Step
from labferry.states import MOVE_OF, Event, State
from tests.ledger_world import EVIDENCE, OTHER, PRINT, RUN, World

GROWN = PRINT._replace(size=5000, mtime_ns=1, inode=2**64 - 1, ctime_ns=2**62)
NOTE = Note(event=Event.FAIL, kind="transient", code="SlowDown", message="wait", worker="w1@host")
DONE, ILLEGAL, FENCED = Outcome.DONE, Outcome.ILLEGAL, Outcome.FENCED
MISSING, DIFFERENT = Outcome.MISSING, Outcome.DIFFERENT

#: What a script, a key or a message might take for something else.
NAMES = [
    "plain.txt",
    "with space/and  two",
    "{brace}/x}y{z",
    "50%/%7B/%25",
    "Übersicht/größe-µm.tif",
    "Gru\u0308n-nfd",
    "日本語/🧬.bcl",
    "quote'\"back`tick",
    "line%0Afeed%0D%00",
    "star*[a-z]?.txt",
    "-1",
    "0",
    "x" * 255,
    "/".join(["deep"] * 100),
]


def test_a_new_file_is_recorded_as_it_was_seen(world: World) -> None:
    before = world.ledger.now_ms()
    assert world.discover("a", fingerprint=GROWN) == 1
    record = world.record("a")
    assert record.state is State.DISCOVERED
    assert record.fingerprint == GROWN
    assert before <= record.discovered_ms == record.changed_ms <= world.ledger.now_ms()
    assert (record.settled_ms, record.claimed_ms, record.verified_ms) == (0, 0, 0)
    assert (record.attempt, record.lost, record.rounds, record.series) == (0, 0, 0, 0)
    assert (record.token, record.holder, record.evidence) == (0, 0, None)


def test_a_known_file_is_not_recorded_again(world: World) -> None:
    world.settle("a")
    before = world.record("a")
    assert world.ledger.discover(RUN, [("a", GROWN), ("b", PRINT), ("b", GROWN)]) == 1
    assert world.record("a") == before
    assert world.record("b").fingerprint == PRINT
    world.facts()


def test_nothing_seen_puts_no_run_on_record(world: World) -> None:
    assert world.ledger.discover(RUN, []) == 0
    assert world.ledger.runs() == []
    assert world.ledger.find_facts(RUN) is None


def test_a_look_tells_what_is_known_of_each_path_in_its_order(world: World) -> None:
    world.discover("a")
    world.settle("b")
    before = world.ledger.now_ms()
    now_ms, seen = world.ledger.look(RUN, ["b", "unknown", "a", "b"])
    assert before <= now_ms <= world.ledger.now_ms()
    assert [one and one.state for one in seen] == [
        State.ELIGIBLE,
        None,
        State.DISCOVERED,
        State.ELIGIBLE,
    ]
    assert all(one is None or one.fingerprint == PRINT for one in seen)
    assert seen[2] is not None
    assert seen[2].changed_ms == world.record("a").changed_ms


def test_a_look_at_nothing_tells_the_time(world: World) -> None:
    now_ms, seen = world.ledger.look(OTHER, [])
    assert seen == []
    assert now_ms <= world.ledger.now_ms()
    assert world.ledger.look(OTHER, ["a"])[1] == [None]


def test_runs_do_not_mix(world: World) -> None:
    world.settle("a")
    world.discover("a", run=OTHER, fingerprint=GROWN)
    assert world.record("a").state is State.ELIGIBLE
    assert world.record("a", run=OTHER).state is State.DISCOVERED
    assert [bundle.run for bundle in world.take()] == [RUN]
    assert world.take(run=OTHER) == []
    assert world.facts().counts[State.DISCOVERED] == 0
    assert world.facts(OTHER).sizes[State.DISCOVERED] == GROWN.size


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_clean_name_goes_all_the_way(world: World, name: str) -> None:
    run = RunKey("seq-1", name.partition("/")[0] + " {r} %7D")
    world.settle(name, run=run)
    assert run in world.ledger.runs()
    (bundle,) = world.take(run=run)
    assert bundle.paths == (name,)
    (claim,) = world.ledger.claim(run, bundle.number, bundle.paths, 1)
    assert claim.path == name
    assert world.ledger.renew(run, [(name, claim.token)]) == [True]
    fail = Step(path=name, token=claim.token, delay_ms=0, note=NOTE)
    assert world.ledger.move(run, Event.FAIL, [fail]) == [DONE]
    (again,) = world.ledger.take_due(run, 10)
    assert again.paths == (name,)
    (claim,) = world.ledger.claim(run, again.number, [], 1)
    verify = Step(path=name, token=claim.token, evidence=EVIDENCE)
    assert world.ledger.move(run, Event.VERIFY, [verify]) == [DONE]
    assert [note.code for note in world.ledger.history(run.file(name))] == ["SlowDown"]
    assert dict(world.ledger.records(run))[name].evidence == EVIDENCE
    assert world.ledger.find_record(run.file(name)) == dict(world.ledger.records(run))[name]


def test_runs_whose_names_differ_in_braces_alone_are_two(world: World) -> None:
    runs = [RunKey("seq", name) for name in ("a}b", "a%7Db", "a{b", "a%257Db", "ab")]
    for number, run in enumerate(runs):
        world.discover(*[f"f{i}" for i in range(number + 1)], run=run)
    assert [world.facts(run).counts[State.DISCOVERED] for run in runs] == [1, 2, 3, 4, 5]
    assert world.ledger.runs() == sorted(runs)


def test_the_name_of_a_run_does_not_reach_into_another(world: World) -> None:
    """The keys of the one would be those of the other, were braces not encoded."""
    run = RunKey(RUN.instrument, f"{RUN.run}}}:history:x")
    world.discover("a", run=run)
    token = world.upload("x}:files")
    assert world.move(Event.FAIL, "x}:files", token=token, note=NOTE) == [DONE]
    assert world.record("a", run=run).state is State.DISCOVERED
    assert [note.code for note in world.history("x}:files")] == [NOTE.code]


# -- moves


def test_each_step_of_a_batch_is_answered_by_itself(world: World) -> None:
    world.discover("ok", "changed", "skipped")
    world.move(Event.SKIP, "skipped")
    steps = [
        Step(path="ok", fingerprint=PRINT, lane=Lane.SMALL),
        Step(path="unknown", fingerprint=PRINT, lane=Lane.SMALL),
        Step(path="changed", fingerprint=GROWN, lane=Lane.SMALL),
        Step(path="skipped", fingerprint=PRINT, lane=Lane.SMALL),
        Step(path="ok", fingerprint=PRINT, lane=Lane.SMALL),
    ]
    outcomes = world.ledger.move(RUN, Event.SETTLE, steps)
    assert outcomes == [DONE, MISSING, DIFFERENT, ILLEGAL, ILLEGAL]
    assert world.record("changed").state is State.DISCOVERED
    assert world.facts().counts[State.ELIGIBLE] == 1
    assert world.facts().ready == {Lane.SMALL: 1, Lane.LARGE: 0}


def test_no_steps_have_no_outcomes(world: World) -> None:
    assert world.ledger.move(RUN, Event.SETTLE, []) == []
    assert world.ledger.runs() == []


def test_a_batch_may_be_larger_than_a_script_s_stack(world: World) -> None:
    paths = [f"f{i:05}" for i in range(9001)]
    world.settle(*paths)
    (bundle,) = world.take(max_files=9001)
    assert bundle.paths == tuple(paths)
    claims = world.claims(bundle=bundle.number)
    assert [claim.path for claim in claims] == paths
    held = [(claim.path, claim.token) for claim in claims]
    assert world.ledger.renew(RUN, [*held, ("unknown", 1)]) == [True] * 9001 + [False]
    assert set(world.as_holder(Event.FAIL, *paths, delay_ms=0)) == {DONE}
    assert len(world.ledger.take_due(RUN, 9001)) == 9001
    assert len(world.claim(*paths)) == 9001
    assert set(world.as_holder(Event.VERIFY, *paths, evidence=EVIDENCE)) == {DONE}
    assert world.facts().counts[State.VERIFIED] == 9001
    assert world.ledger.lapsed(RUN, 10) == []
    assert len(dict(world.ledger.records(RUN))) == 9001


def test_a_file_settles_only_as_it_was_last_seen(world: World) -> None:
    world.discover("a")
    for other in (GROWN, PRINT._replace(ctime_ns=PRINT.ctime_ns + 1), None):
        assert world.move(Event.SETTLE, "a", fingerprint=other, lane=Lane.SMALL) == [DIFFERENT]
    assert world.move(Event.SETTLE, "a", fingerprint=PRINT, lane=Lane.SMALL) == [DONE]


def test_a_change_is_recorded_and_begins_the_window_anew(world: World) -> None:
    world.settle("a")
    world.pass_ms(5)
    before = world.record("a")
    assert world.move(Event.CHANGE, "a", fingerprint=GROWN) == [DONE]
    record = world.record("a")
    assert (record.state, record.fingerprint) == (State.DISCOVERED, GROWN)
    assert record.changed_ms >= before.changed_ms
    assert record.discovered_ms == before.discovered_ms
    assert record.settled_ms == 0
    assert world.facts().changed_ms == record.changed_ms
    assert world.facts().sizes[State.DISCOVERED] == GROWN.size


def test_settling_anew_forgets_the_first_claim(world: World) -> None:
    token = world.upload("a")
    assert world.record("a").claimed_ms > 0
    world.move(Event.ABANDON, "a", token=token)
    assert world.record("a").claimed_ms == 0
    world.settle("a")
    record = world.record("a")
    assert record.settled_ms > 0
    assert record.claimed_ms == 0
    assert record.rounds == 1


def test_a_hold_forgets_the_first_claim_and_not_when_the_file_settled(world: World) -> None:
    token = world.upload("a")
    world.pass_ms(10)
    settled_ms = world.record("a").settled_ms
    assert world.record("a").claimed_ms > 0
    world.move(Event.HOLD, "a", token=token, delay_ms=0)
    assert (world.record("a").settled_ms, world.record("a").claimed_ms) == (settled_ms, 0)
    world.ledger.take_due(RUN, 1)
    assert world.ledger.waiting_since([RUN]) == settled_ms
    world.claim("a")
    assert world.record("a").claimed_ms >= settled_ms


def test_the_first_claim_of_a_series_is_dated(world: World) -> None:
    token = world.upload("a")
    world.move(Event.FAIL, "a", token=token, delay_ms=0)
    world.ledger.take_due(RUN, 1)
    world.pass_ms(10)
    first = world.record("a").claimed_ms
    assert world.claim("a") > [token]
    assert world.record("a").claimed_ms == first > 0


def test_a_replay_begins_a_new_series(world: World) -> None:
    token = world.upload("a", lane=Lane.LARGE)
    world.move(Event.FAIL, "a", token=token, delay_ms=0)
    world.ledger.take_due(RUN, 1)
    (token,) = world.claim("a")
    world.move(Event.QUARANTINE, "a", token=token)
    assert world.record("a").attempt == 2
    assert world.move(Event.REPLAY, "a") == [DONE]
    record = world.record("a")
    assert (record.attempt, record.lost, record.rounds, record.series) == (0, 0, 0, 1)
    assert (record.state, record.token, record.claimed_ms) == (State.ELIGIBLE, token, 0)
    (bundle,) = world.take(Lane.LARGE)
    assert (bundle.attempt, bundle.series) == (0, 1)
    assert world.claim("a", bundle=bundle.number) > [token]


@pytest.mark.parametrize(
    ("event", "counter"),
    [
        (Event.FAIL, "attempt"),
        (Event.QUARANTINE, "attempt"),
        (Event.ABANDON, "rounds"),
        (Event.HOLD, None),
        (Event.YIELD, None),
        (Event.STORE, None),
        (Event.VERIFY, None),
    ],
)
def test_an_event_counts_what_it_costs_and_nothing_else(
    world: World, event: Event, counter: str | None
) -> None:
    token = world.upload("a")
    assert world.move(event, "a", token=token, delay_ms=0, evidence=EVIDENCE) == [DONE]
    record = world.record("a")
    spent = {name: getattr(record, name) for name in ("attempt", "lost", "rounds", "series")}
    assert spent == {name: int(name == counter) for name in spent}


def test_a_counter_stops_at_255(world: World) -> None:
    world.discover("a")
    world.move(Event.REFUSE, "a")
    for _ in range(257):
        assert world.move(Event.REPLAY, "a") == [DONE]
        (token,) = world.claim("a")
        assert world.move(Event.QUARANTINE, "a", token=token) == [DONE]
    assert (world.record("a").series, world.record("a").attempt) == (255, 1)


def test_nothing_is_verified_without_evidence(world: World) -> None:
    token = world.upload("a", "b")
    steps = [Step(path="a", token=token, evidence=EVIDENCE), Step(path="b", token=token)]
    with pytest.raises(Refused, match="b"):
        world.ledger.move(RUN, Event.VERIFY, steps)
    assert world.facts().counts[State.UPLOADING] == 2


def test_evidence_stays_on_record_as_it_was_given(world: World) -> None:
    for number, etag in enumerate(["", "x", "D41D8CD9" * 4, "0123-7", '"', "ü" * 20, "0" * 32]):
        evidence = replace(EVIDENCE, etag=etag, version_id="v1.ü" if number % 2 else "", crc64=0)
        token = world.upload(etag)
        world.move(Event.VERIFY, etag, token=token, evidence=evidence)
        assert world.record(etag).evidence == evidence
        assert world.record(etag).verified_ms >= world.record(etag).claimed_ms > 0


def test_evidence_is_taken_with_verify_alone(world: World) -> None:
    token = world.upload("a")
    world.move(Event.STORE, "a", token=token, evidence=EVIDENCE, fingerprint=GROWN)
    assert world.record("a").evidence is None
    assert world.record("a").fingerprint == PRINT


def test_a_conflict_keeps_the_evidence_of_what_was_stored(world: World) -> None:
    world.verify("a")
    assert world.move(Event.CONFLICT, "a", fingerprint=GROWN) == [DONE]
    assert world.record("a").evidence == EVIDENCE
    assert world.record("a").fingerprint == PRINT
    assert world.facts().sizes[State.QUARANTINED] == PRINT.size


def test_a_skipped_file_that_reappears_waits_for_its_window_again(world: World) -> None:
    world.discover("a")
    world.move(Event.SKIP, "a")
    world.pass_ms(5)
    assert world.move(Event.REAPPEAR, "a", fingerprint=GROWN) == [DONE]
    record = world.record("a")
    assert (record.state, record.fingerprint) == (State.DISCOVERED, GROWN)
    assert record.changed_ms == world.facts().changed_ms >= record.discovered_ms


# -- history


def test_history_is_kept_in_order_and_dated_by_the_ledger(world: World) -> None:
    world.upload("a")
    notes = [replace(NOTE, code=f"code {i}", attempt=i, token=i) for i in (1, 2, 3)]
    before = world.ledger.now_ms()
    for note in notes:
        world.as_holder(Event.FAIL, "a", delay_ms=0, note=note)
        world.ledger.take_due(RUN, 1)
        world.claim("a")
    history = world.history("a")
    assert [replace(note, at_ms=0) for note in history] == notes
    times = [note.at_ms for note in history]
    assert before <= times[0] <= times[1] <= times[2] <= world.ledger.now_ms()
    assert world.history("b") == []


def test_a_note_of_a_refused_move_is_not_kept(world: World) -> None:
    token = world.upload("a")
    assert world.move(Event.FAIL, "a", token=token + 1, note=NOTE) == [FENCED]
    assert world.move(Event.REPLAY, "a", note=NOTE) == [ILLEGAL]
    assert world.history("a") == []


def test_a_note_may_quote_any_text(world: World) -> None:
    message = "µ{} %s \x00\n\r \udcff 🧬 \\ \" ' 1.5"
    token = world.upload("a")
    world.move(Event.FAIL, "a", token=token, note=replace(NOTE, message=message, upload_id="x y"))
    (note,) = world.history("a")
    assert (note.message, note.upload_id) == (message, "x y")


def test_what_is_unknown_has_no_record_and_no_history(world: World) -> None:
    world.discover("a")
    for file in (RUN.file("b"), OTHER.file("a")):
        assert world.ledger.find_record(file) is None
        assert world.ledger.find_due(file) is None
        assert world.ledger.history(file) == []
        assert world.ledger.find_upload(file) is None
    assert list(world.ledger.records(OTHER)) == []


# -- a walk at random


@pytest.mark.parametrize("seed", range(5))
def test_counts_agree_with_a_recount_after_any_walk(world: World, seed: int) -> None:
    """Each event, legal or not, on any files, some of them twice: the facts are the records'."""
    dice = random.Random(seed)
    paths = [f"f{i}" for i in range(12)]
    events = [event for event in MOVE_OF if event not in (Event.DISCOVER, Event.CLAIM, Event.RETRY)]
    for size, path in enumerate(paths):
        world.discover(path, fingerprint=PRINT._replace(size=size * 1000))
    for _ in range(150):
        chosen = dice.choices(paths, k=dice.randint(1, 5))
        event = dice.choice(events)
        steps = [_likely_step(world, path, dice) for path in chosen]
        world.apply(event, steps)
        if dice.random() < 0.4:
            world.claim(*dice.choices(paths, k=4))
            world.ledger.take_due(RUN, 2)
            world.take(max_files=2, bundles=1)
        facts = world.facts()
        assert sum(facts.counts.values()) == len(paths)
        leased = facts.counts[State.UPLOADING] + facts.counts[State.UPLOADED]
        parked = facts.counts[State.FAILED] + facts.counts[State.HELD]
        due = [world.ledger.find_due(RUN.file(path)) for path in paths]
        assert sum(at_ms is not None for at_ms in due) == leased + parked


def _likely_step(world: World, path: str, dice: random.Random) -> Step:
    record = world.record(path)
    changed = dice.random() < 0.1
    return Step(
        path=path,
        token=record.token if dice.random() < 0.8 else 0,
        fingerprint=Fingerprint(dice.randint(0, 9999), 1, 2, 3) if changed else record.fingerprint,
        lane=dice.choice(list(Lane)),
        evidence=EVIDENCE,
        delay_ms=0,
    )

"""A batch goes on after any step of it was cut off, and sends each file once."""

from typing import Any, Literal

import pytest

from labferry.audit import Act, read_line
from labferry.batch import Batch, Cause, Item, Stage
from labferry.dead_letter import find_letter
from labferry.records import Lane, Note, Outcome, Step
from labferry.states import Event, State
from tests.ledger_world import EVIDENCE, OTHER, RUN, World, memory_world, server_world
from tests.memory_ledger import MemoryLedger
from tests.memory_store import Breaking, Died
from workers.batches import Batches

ACT = Act(actor="ada@lab", reason="mended", what="replay", selector="--all")
CODES = {"a1": "EIO", "a2": "EIO", "b1": "AccessDenied", "b2": "AccessDenied", "b3": "AccessDenied"}
#: More steps than any batch here needs.
STEPS = 30


@pytest.fixture(params=["memory", "valkey"])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "memory":
        return memory_world()
    return server_world(request.getfixturevalue("ledger_url"))


def note(code: str, series: int = 0) -> Note:
    return Note(event=Event.QUARANTINE, kind="permanent", code=code, message="no", series=series)


def begun(world: World, **fields: Any) -> Batch:
    """Bring files into quarantine for two causes, and begin a batch of all."""
    files = [RUN.file(path) for path in CODES]
    for file in files:
        token = world.upload(file.path)
        step = Step(path=file.path, token=token, note=note(CODES[file.path]))
        assert world.apply(Event.QUARANTINE, [step]) == [Outcome.DONE]
    causes: dict[str, Cause] = {}
    items = []
    for order, file in enumerate(files):
        letter = find_letter(file, world.record(file.path), world.history(file.path))
        assert letter is not None
        causes.setdefault(
            letter.code, Cause(fingerprint=letter.fingerprint, code=letter.code, count=2)
        )
        items.append(
            Item(
                file=file,
                cause=list(causes).index(letter.code),
                order=order,
                series=0,
                state=State.QUARANTINED,
            )
        )
    batch = Batch(
        id=world.ledger.new_batch_id(),
        act=ACT,
        created_ms=1,
        causes=tuple(causes.values()),
        **fields,
    )
    return world.ledger.open_batch(batch, items)


def work(world: World, *bad: str) -> None:
    """Do what workers do: everything that waits is verified, or refused as before."""
    if isinstance(world.ledger, MemoryLedger):
        world.ledger.pass_ms(100)
    for bundle in world.take(Lane.SMALL):
        for claim in world.claims(bundle=bundle.number):
            if claim.path in bad:
                again = note(CODES[claim.path], claim.record.series)
                step = Step(path=claim.path, token=claim.token, note=again)
                world.apply(Event.QUARANTINE, [step])
            else:
                step = Step(path=claim.path, token=claim.token, evidence=EVIDENCE)
                world.apply(Event.VERIFY, [step])


def to_its_end(world: World, batch: Batch, *bad: str) -> Batch:
    for _ in range(STEPS):
        work(world, *bad)
        Batches(world.ledger).tick()
        found = world.ledger.find_batch(batch.id)
        assert found is not None
        if not found.is_open:
            return found
    raise AssertionError("the batch did not end")


def counts(batch: Batch) -> dict[Stage, int]:
    return {stage: count for stage, count in batch.counts.items() if count}


def replays(world: World) -> list[str]:
    acts = [read_line(line) for line in world.ledger.audit(RUN)]
    return sorted(file["path"] for act in acts for file in act.files)


def test_one_of_each_cause_goes_first_and_then_the_others(world: World) -> None:
    batch = begun(world)
    Batches(world.ledger).tick()
    assert replays(world) == ["a1", "b1"]
    Batches(world.ledger).tick()
    assert replays(world) == ["a1", "b1"], "their outcome is waited for"
    work(world)
    assert counts(to_its_end(world, batch)) == {Stage.VERIFIED: 5}
    assert replays(world) == sorted(CODES)


def test_a_cause_that_comes_back_is_stopped_and_the_other_goes_on(world: World) -> None:
    ended = to_its_end(world, begun(world), *[path for path in CODES if path[0] == "b"])
    assert counts(ended) == {Stage.VERIFIED: 2, Stage.FAILED: 1, Stage.LEFT: 2}
    assert replays(world) == ["a1", "a2", "b1"]
    assert [cause.stopped for cause in ended.causes] == ["", "AccessDenied came back"]


def test_a_canary_that_fails_for_a_while_as_before_stops_its_cause(world: World) -> None:
    batch = begun(world)
    Batches(world.ledger).tick()
    for bundle in world.take(Lane.SMALL):
        for claim in world.claims(bundle=bundle.number):
            again = note(CODES[claim.path], claim.record.series)
            step = Step(path=claim.path, token=claim.token, delay_ms=10**6, note=again)
            assert world.apply(Event.FAIL, [step]) == [Outcome.DONE]
    assert counts(to_its_end(world, batch)) == {Stage.FAILED: 2, Stage.LEFT: 3}


def test_two_batches_over_the_same_files_send_each_once(world: World) -> None:
    first = begun(world)
    items = world.ledger.batch_items(first.id, Stage.WAITING, 10)
    second = Batch(id=world.ledger.new_batch_id(), act=ACT, created_ms=1, causes=first.causes)
    world.ledger.open_batch(second, items)
    to_its_end(world, first)
    ended = to_its_end(world, second)
    assert set(counts(ended)) <= {Stage.NO_OP, Stage.VERIFIED}
    assert replays(world) == sorted(CODES)


def test_what_was_discarded_since_it_was_chosen_is_left(world: World) -> None:
    batch = begun(world)
    world.move(Event.DISCARD, "a2")
    ended = to_its_end(world, batch)
    assert counts(ended) == {Stage.VERIFIED: 4, Stage.LEFT: 1}
    assert world.record("a2").state is State.DISCARDED


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sweep_that_dies_at_any_call_is_followed_by_one_that_goes_on(
    when: Literal["before", "after"],
) -> None:
    killed, nth = 0, 0
    while True:
        nth += 1
        world = memory_world()
        batch = begun(world)
        breaking = Breaking(world.ledger, nth, when)
        try:
            for _ in range(STEPS):
                Batches(breaking).tick()
                work(world)
        except Died:
            killed += 1
        else:
            break
        ended = to_its_end(world, batch)
        assert counts(ended) == {Stage.VERIFIED: 5}, nth
        assert replays(world) == sorted(CODES), nth
    assert killed > 20


def test_a_batch_of_another_run_is_not_touched(world: World) -> None:
    batch = begun(world)
    world.discover("x", run=OTHER)
    to_its_end(world, batch)
    assert list(world.ledger.audit(OTHER)) == []

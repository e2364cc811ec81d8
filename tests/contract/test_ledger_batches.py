"""Does every ledger keep batches of replays as the port says?"""

from dataclasses import replace

from labferry.audit import Act
from labferry.batch import Batch, Cause, Item, Stage
from labferry.identity import RunKey
from labferry.records import Fingerprint
from labferry.states import State
from tests.ledger_world import OTHER, RUN, World

ACT = Act(actor="ada@lab", reason="mended", what="replay", selector="--all")
CAUSES = (
    Cause(fingerprint="aaaa", code="AccessDenied", count=2),
    Cause(fingerprint="bbbb", code="EIO", count=1, proven=True, met={"cccc": "seq/r/x"}),
)
ITEMS = [
    Item(file=RUN.file("a"), cause=0, order=0, series=0, state=State.QUARANTINED),
    Item(file=RUN.file("ü b"), cause=0, order=2, series=3, state=State.DISCARDED),
    Item(
        file=OTHER.file("c"),
        cause=1,
        order=1,
        series=0,
        state=State.QUARANTINED,
        revised=Fingerprint(1, 2, 3, -4),
    ),
    Item(
        file=RunKey("seq", "a%2Fb").file("d"),
        cause=1,
        order=3,
        series=0,
        state=State.QUARANTINED,
        stage=Stage.LEFT,
        why="its source is gone",
    ),
]


def opened(world: World) -> Batch:
    batch = Batch(
        id=world.ledger.new_batch_id(), act=ACT, created_ms=5, causes=CAUSES, per_second=7
    )
    return world.ledger.open_batch(batch, ITEMS)


def test_a_batch_is_found_as_it_was_recorded_with_its_files_counted(world: World) -> None:
    batch = opened(world)
    assert (batch.act, batch.causes, batch.per_second) == (ACT, CAUSES, 7)
    assert batch.counts == {Stage.WAITING: 3, Stage.LEFT: 1}
    assert world.ledger.find_batch(batch.id) == batch
    assert world.ledger.batches() == world.ledger.open_batches() == [batch]
    assert world.ledger.find_batch("nine") is None


def test_ids_are_never_given_twice(world: World) -> None:
    assert len({world.ledger.new_batch_id() for _ in range(5)}) == 5


def test_batches_are_listed_oldest_first(world: World) -> None:
    ids = [opened(world).id for _ in range(12)]
    assert [one.id for one in world.ledger.batches()] == ids
    assert [one.id for one in world.ledger.open_batches()] == ids


def test_items_are_read_in_their_order_by_stage_and_cause(world: World) -> None:
    batch = opened(world).id
    waiting = world.ledger.batch_items(batch, Stage.WAITING, 10)
    assert waiting == ITEMS[:3]
    assert world.ledger.batch_items(batch, Stage.WAITING, 10, cause=1) == [ITEMS[2]]
    assert world.ledger.batch_items(batch, Stage.WAITING, 1, cause=0) == [ITEMS[0]]
    assert world.ledger.batch_items(batch, Stage.SENT, 10) == []
    assert world.ledger.batch_items("nine", Stage.SENT, 10) == []


def test_an_item_moves_only_from_the_stage_where_it_was_seen(world: World) -> None:
    batch = opened(world).id
    sent = ITEMS[0].end(Stage.SENT)
    assert world.ledger.put_items(batch, Stage.WAITING, [sent]) == [True]
    assert world.ledger.put_items(batch, Stage.WAITING, [sent, ITEMS[1].end(Stage.SENT)]) == [
        False,
        True,
    ]
    ended = sent.end(Stage.VERIFIED)
    assert world.ledger.put_items(batch, Stage.SENT, [ended]) == [True]
    assert world.ledger.put_items(batch, Stage.SENT, [ended.end(Stage.FAILED)]) == [False]
    assert world.ledger.batch_items(batch, Stage.SENT, 9) == [ITEMS[1].end(Stage.SENT)]
    found = world.ledger.find_batch(batch)
    assert found is not None
    counts = {stage: count for stage, count in found.counts.items() if count}
    assert counts == {Stage.WAITING: 1, Stage.SENT: 1, Stage.VERIFIED: 1, Stage.LEFT: 1}


def test_ended_items_are_read_in_the_order_in_which_they_ended(world: World) -> None:
    batch = opened(world).id
    for place in (2, 0):
        world.ledger.put_items(batch, Stage.WAITING, [ITEMS[place].end(Stage.NO_OP, "why")])
    ended = [ITEMS[3], ITEMS[2].end(Stage.NO_OP, "why"), ITEMS[0].end(Stage.NO_OP, "why")]
    assert world.ledger.ended_items(batch, 0, 10) == ended
    assert world.ledger.ended_items(batch, 1, 1) == ended[1:2]
    assert world.ledger.ended_items(batch, 3, 10) == []


def test_of_two_who_change_a_batch_one_succeeds(world: World) -> None:
    seen = opened(world)
    assert world.ledger.swap_batch(seen, replace(seen, cancelled="ada: enough"))
    assert not world.second().swap_batch(seen, replace(seen, sent_ms=9))
    found = world.ledger.find_batch(seen.id)
    assert found is not None
    assert (found.cancelled, found.sent_ms) == ("ada: enough", 0)


def test_a_batch_that_ended_is_open_no_more(world: World) -> None:
    first, second = opened(world), opened(world)
    assert world.ledger.swap_batch(first, replace(first, ended_ms=9))
    assert [one.id for one in world.ledger.open_batches()] == [second.id]
    assert [one.id for one in world.ledger.batches()] == [first.id, second.id]


def test_files_of_any_run_are_known_in_one_call(world: World) -> None:
    world.discover("a")
    world.discover("c", run=OTHER)
    files = [OTHER.file("c"), RUN.file("b"), RUN.file("a")]
    found = world.ledger.known(files)
    assert found == [world.ledger.find_record(file) for file in files]
    assert [one is None for one in found] == [False, True, False]
    assert world.ledger.known([]) == []

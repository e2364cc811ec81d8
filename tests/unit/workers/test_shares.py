"""Does a node leave the messages of a share that is away, and take them again? On memory."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labferry.breakers import Breaker, Phase
from labferry.errors import LedgerUnavailable, ShareUnavailable
from labferry.failures import classify
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import Fingerprint
from labferry.settings import InstrumentSettings, Settings, StoreSettings
from labferry.settings_trouble import BreakerSettings
from tests.manual_clock import ManualClock
from tests.memory_ledger import MemoryLedger
from tests.memory_store import Breaking
from tests.waiting import PATIENCE_S, eventually
from workers.gate import Gate
from workers.shares import HANGS_S, CeleryNode, ShareWatch

ROOTS = {"seq": Path("/mnt/seq"), "scope": Path("/mnt/scope")}
SETTINGS = Settings.model_construct(
    store=StoreSettings(bucket="bucket"),
    instruments={name: InstrumentSettings(root=root) for name, root in ROOTS.items()},
    breakers=BreakerSettings(probe_s=10, probe_cap_s=40),
)


class Node:
    """Remembers what it takes and what it leaves."""

    def __init__(self) -> None:
        self.acts: list[tuple[str, str]] = []

    def take(self, instrument: str) -> None:
        self.acts.append(("take", instrument))

    def leave(self, instrument: str) -> None:
        self.acts.append(("leave", instrument))


class World:
    """Shares that go away and come back, or hang."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.memory = MemoryLedger()
        for name in ROOTS:
            self.memory.discover(RunKey(name, "run"), [("f", Fingerprint(1, 1, 1, 1))])
        self.node, self.clock = Node(), ManualClock()
        self.away: set[Path] = set()
        self.hanging: set[Path] = set()
        self.go_on = threading.Event()
        self.watch = ShareWatch(
            ROOTS,
            self.node,
            Gate(ledger or self.memory, SETTINGS, "host"),
            self.clock,
            every_s=0.001,
            look=self.look,
        )

    def look(self, root: Path) -> None:
        if root in self.hanging:
            self.go_on.wait(PATIENCE_S)
        if root in self.away:
            raise ShareUnavailable(path=str(root), why="the root is empty")

    def breaker(self) -> Breaker:
        (found,) = self.memory.conditions().breakers
        return found


def test_what_is_there_changes_nothing() -> None:
    world = World()
    for _ in range(3):
        world.watch.tick()
    assert world.node.acts == []
    assert world.memory.conditions().breakers == ()


def test_messages_of_a_share_that_is_away_are_left_once_and_taken_again_once() -> None:
    world = World()
    world.away.add(ROOTS["seq"])
    for _ in range(3):
        world.watch.tick()
    assert world.node.acts == [("leave", "seq")]
    assert (world.breaker().name, world.breaker().phase) == ("share:seq@host", Phase.OPEN)
    world.away.clear()
    for _ in range(3):
        world.watch.tick()
    assert world.node.acts == [("leave", "seq"), ("take", "seq")]
    assert world.breaker().phase is Phase.RAMP
    assert len(world.memory.alerts()) == 1


def test_a_root_in_which_nothing_was_ever_seen_is_not_missed_until_there_is_work() -> None:
    new = MemoryLedger()
    fresh = World(new)
    fresh.away.add(ROOTS["seq"])
    fresh.watch.tick()
    assert (fresh.node.acts, new.alerts()) == ([], [])
    new.discover(RunKey("seq", "run"), [("f", Fingerprint(1, 1, 1, 1))])
    fresh.watch.tick()
    assert fresh.node.acts == [("leave", "seq")]


def test_what_a_worker_said_of_a_share_that_is_there_is_put_right() -> None:
    world = World()
    world.watch.tick()
    failure = classify(ShareUnavailable(path="/mnt/seq", why="a read failed"))
    Gate(world.memory, SETTINGS, "host").open(failure, "seq")
    assert world.breaker().phase is Phase.OPEN
    world.watch.tick()
    assert world.breaker().phase is Phase.RAMP


def test_a_share_that_stays_away_stays_on_record_and_is_told_of_once() -> None:
    world = World()
    world.away.add(ROOTS["seq"])
    for _ in range(400):
        world.watch.tick()
        world.memory.pass_ms(30_000)
    assert (world.breaker().phase, world.breaker().wait_ms) == (Phase.OPEN, 40_000)
    assert world.breaker().opened == 1
    assert len(world.memory.alerts()) == 1


def test_a_share_that_comes_and_goes_is_told_of_once() -> None:
    world = World()
    for _ in range(5):
        world.away.add(ROOTS["seq"])
        world.watch.tick()
        world.away.clear()
        world.watch.tick()
        world.memory.pass_ms(1_000)
    assert len(world.memory.alerts()) == 1
    assert world.breaker().opened == 5


def test_a_worker_that_starts_closes_what_its_host_left_open() -> None:
    world = World()
    world.away.add(ROOTS["seq"])
    world.watch.tick()
    again = World(world.memory)
    again.watch.tick()
    assert again.node.acts == []
    assert world.breaker().phase is Phase.RAMP


def test_a_share_that_hangs_is_away_and_keeps_no_other_from_being_looked_at() -> None:
    world = World()
    world.hanging.add(ROOTS["seq"])
    world.watch.tick()
    assert world.node.acts == []
    world.away.add(ROOTS["scope"])
    world.clock.now_s += HANGS_S + 1
    world.watch.tick()
    assert world.node.acts == [("leave", "seq"), ("leave", "scope")]
    assert "takes longer than 10 s" in world.memory.alerts()[0].text
    world.hanging.clear()
    world.away.clear()
    world.go_on.set()

    def is_taken() -> bool:
        world.watch.tick()
        return ("take", "seq") in world.node.acts

    eventually(is_taken)


@pytest.mark.parametrize("method", ["active_runs", "conditions", "swap_breaker"])
def test_what_the_ledger_did_not_hear_is_told_again(method: str) -> None:
    world = World()
    away = LedgerUnavailable(url="redis://x", why="gone")
    world = World(Breaking(world.memory, 1, method=method, error=away))
    memory = world.watch._shares[0]._gate._ledger
    world.away.add(ROOTS["seq"])
    world.watch.tick()
    assert world.node.acts == [("leave", "seq")], "that needs no ledger"
    world.watch.tick()
    assert len(memory.conditions().breakers) == 1


def test_it_looks_again_and_again_until_it_is_closed() -> None:
    world = World()
    world.watch.start()
    world.away.add(ROOTS["seq"])
    eventually(lambda: ("leave", "seq") in world.node.acts)
    world.away.clear()
    eventually(lambda: ("take", "seq") in world.node.acts)
    world.watch.close()


class Consumer:
    """A Celery consumer, as far as a node knows it."""

    def __init__(self, *queues: str) -> None:
        selected = dict.fromkeys(queues)
        self.app = SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace()))
        self.app.amqp.queues.consume_from = selected
        self.acts: list[tuple[str, str]] = []
        self.connected = True

    def call_soon(self, act: Any) -> None:
        act()

    def add_task_queue(self, queue: str) -> None:
        self._act("add", queue)

    def cancel_task_queue(self, queue: str) -> None:
        self._act("cancel", queue)

    def _act(self, what: str, queue: str) -> None:
        if not self.connected:
            raise AttributeError("'NoneType' object has no attribute 'cancel_by_queue'")
        self.acts.append((what, queue))


def test_a_node_leaves_and_takes_the_queues_it_was_started_with_alone() -> None:
    consumer = Consumer("upload.seq.small", "upload.scope.small", "labferry.control")
    node = CeleryNode(consumer)
    assert (node.queues("seq"), node.queues("other")) == (["upload.seq.small"], [])
    node.leave("seq")
    node.take("seq")
    node.leave("other")
    assert consumer.acts == [("cancel", "upload.seq.small"), ("add", "upload.seq.small")]


def test_a_consumer_without_a_connection_does_not_end_the_worker() -> None:
    consumer = Consumer("upload.seq.small")
    consumer.connected = False
    CeleryNode(consumer).leave("seq")
    assert consumer.acts == []

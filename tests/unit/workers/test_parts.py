"""How many parts are in flight, and which exception of several threads tells why it ended?"""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import pytest

from labferry.concurrency import Concurrency
from labferry.errors import Fenced, SourceChanged, StoreError
from labferry.identity import FileKey, RunKey
from labferry.ports import ObjectStore
from labferry.records import Fingerprint, Part, Upload
from labferry.store_port import Buffer
from tests.manual_clock import ManualClock
from tests.memory_ledger import MemoryLedger
from tests.memory_store import MemoryStore
from tests.unit.workers.test_heartbeat import claim
from tests.waiting import PATIENCE_S, eventually
from workers import parts
from workers.attempt import Attempt
from workers.crew import _RESTING, ByteGate
from workers.heartbeat import Lease
from workers.parts import PartSender, Room
from workers.source import SourceFile

SIZE = 4


class Constant(SourceFile):
    """A source of parts that are all alike, and of which no digests are made."""

    def __init__(self, size: int) -> None:
        self.size = size

    def in_order(self) -> AbstractContextManager[object]:
        return nullcontext()

    def read_into(self, buffer: memoryview, offset: int, crc64: int = 0) -> int:
        return 0


class Held(Lease):
    """A lease that is never lost."""

    def __init__(self) -> None:
        """It asks nobody."""

    def check(self) -> None:
        pass


class Changed(Constant):
    """Part 3 has changed since it was settled."""

    def read_into(self, buffer: memoryview, offset: int, crc64: int = 0) -> int:
        if offset == 2 * SIZE:
            raise SourceChanged(path="f")
        return 0


class Store(MemoryStore):
    """Part 2 gets no answer, part 1 is taken once that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = threading.Event()

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        if number == 2:
            self.refused.set()
            raise StoreError(operation="UploadPart", key=key, code="InternalError", status=500)
        assert self.refused.wait(PATIENCE_S)
        return "etag"


def at_work() -> int:
    return threading.active_count() - len(_RESTING)


class Records(MemoryLedger):
    """What was recorded of the parts, and when: before or after the endpoint had them."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[int, Part] = {}

    def save_parts(self, file: FileKey, token: int, parts: dict[int, Part]) -> None:
        self.saved.update(parts)


class LateRecords(Records):
    """Takes the last receipts only when all other threads are done."""

    def __init__(self) -> None:
        super().__init__()
        self.others = at_work()

    def save_parts(self, file: FileKey, token: int, parts: dict[int, Part]) -> None:
        if all(part.etag for part in parts.values()):
            eventually(lambda: at_work() <= self.others + 1)
        super().save_parts(file, token, parts)


@dataclass
class Link(MemoryStore):
    """An endpoint that answers when as many parts are in flight as may be, at some rate."""

    room: Room
    clock: ManualClock
    ledger: Records
    count: int
    rate: Callable[[int], float]
    came: int = 0
    in_flight: int = 0
    #: How many were in flight at each answer.
    seen: list[int] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        super().__init__()

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        assert number in self.ledger.saved, "its checksum is on record first"
        with self.changed:
            self.came += 1
            self.in_flight += 1
            self.changed.notify_all()
            self._await_others()
            self.seen.append(self.in_flight)
            self.clock.now_s += 1 / self.rate(self.in_flight)
            self.in_flight -= 1
        return f"etag {number}"

    def _await_others(self) -> None:
        # The room may change while nobody comes, and nothing tells of that here.
        until_s = time.monotonic() + 60
        while self.in_flight < self.room.parts and self.came < self.count:
            assert time.monotonic() < until_s
            self.changed.wait(0.01)


def sent_over(
    rate: Callable[[int], float], room: Room, count: int = 200, clock: ManualClock | None = None
) -> tuple[list[int], dict[int, Part]]:
    """Send so many parts; return how many were in flight at each answer, and what is on record."""
    clock = clock or ManualClock()
    ledger, lease, source = Records(), Held(), Constant(count * SIZE)
    link = Link(room, clock, ledger, count, rate)
    attempt, upload = attempt_with(lease), upload_of(source.size)
    sender = PartSender(ledger, link, clock, attempt, source, upload, room)
    sender.send(range(1, count + 1))
    assert sorted(sender.sent) == list(range(1, count + 1))
    return link.seen, ledger.saved


def attempt_with(lease: Lease) -> Attempt:
    return Attempt(claim("f"), RunKey("scope", "r1").file("f"), lease, started_s=0)


def room_for(concurrency: Concurrency, most: int, pace: float = 1.0) -> Room:
    return Room(concurrency, ByteGate(most * SIZE), SIZE, pace)


def upload_of(size: int) -> Upload:
    return Upload(attempt_token="t", part_size=SIZE, fingerprint=Fingerprint(size, 0, 0, 0))


def test_a_far_endpoint_gets_more_parts_at_a_time_as_far_as_memory_allows() -> None:
    seen, saved = sent_over(float, room_for(Concurrency(2, 32, gap_s=60), 8))
    assert seen[0] == 2
    assert max(seen) == 8
    assert all(part.etag == f"etag {number}" for number, part in saved.items())


def test_an_endpoint_at_its_limit_gets_no_more_parts_at_a_time() -> None:
    room = room_for(Concurrency(2, 32, gap_s=60), 32)
    seen, _ = sent_over(lambda count: min(count, 4), room, count=100)
    assert max(seen) == 8, "it was tried"
    assert seen.count(8) < seen.count(4)
    assert seen[-10] == 4


def test_what_lies_between_two_files_is_none_of_the_endpoints() -> None:
    room, clock = room_for(Concurrency(2, 8, gap_s=60), 8), ManualClock()
    sent_over(float, room, 12, clock)
    assert room.parts == 4
    clock.now_s += 30
    seen, _ = sent_over(float, room, 60, clock)
    assert min(seen[: seen.index(8)]) >= 4


def test_where_the_endpoint_asked_for_less_fewer_parts_are_in_flight() -> None:
    seen, _ = sent_over(float, room_for(Concurrency(4, 4), 8, pace=0.5))
    assert max(seen) == 2


class Hanging(MemoryStore):
    """Its first `hung` parts get no answer before they are let go, the next one is refused."""

    def __init__(self, hung: int) -> None:
        super().__init__()
        self.hung = hung
        self.let_go = threading.Event()
        self._hang = threading.Semaphore(0)

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        if number > self.hung:
            for _ in range(self.hung):
                self._hang.acquire()
            raise StoreError(operation="UploadPart", key=key, code="AccessDenied", status=403)
        self._hang.release()
        assert self.let_go.wait(60)
        return "etag"


class Counting(MemoryStore):
    """Takes each part after another had time to come beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.most = self._here = 0
        self._changed = threading.Condition()

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        with self._changed:
            self._here += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._here > 1, 0.1)
            self.most = max(self.most, self._here)
            self._here -= 1
        return "etag"


def sender_to(
    store: ObjectStore, room: Room, lease: Lease | None = None, count: int = 3
) -> PartSender:
    source = Constant(count * SIZE)
    attempt, upload = attempt_with(lease or Held()), upload_of(source.size)
    return PartSender(Records(), store, ManualClock(), attempt, source, upload, room)


def given_up(room: Room, monkeypatch: pytest.MonkeyPatch, hung: int) -> Hanging:
    """Give a file up while so many of its parts hang."""
    monkeypatch.setattr(parts, "GRACE_S", 0.01)
    store = Hanging(hung)
    with pytest.raises(StoreError):
        sender_to(store, room, count=hung + 1).send(range(1, hung + 2))
    return store


def test_parts_of_a_file_that_was_given_up_keep_their_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = room_for(Concurrency(2, 2), 2)
    first, second, third = given_up(room, monkeypatch, 1), Counting(), Counting()
    sender_to(second, room).send([1, 2, 3])
    assert second.most == 1
    first.let_go.set()
    eventually(lambda: room.gate.enter(2 * SIZE, 0))
    room.gate.leave(2 * SIZE)
    sender_to(third, room).send([1, 2, 3])
    assert third.most == 2


def test_where_there_is_no_room_it_is_waited_for_while_the_lease_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = room_for(Concurrency(2, 2), 2)
    monkeypatch.setattr(parts, "_POLL_S", 0.01)
    room.gate.enter(2 * SIZE)
    looks = iter([None, None, Fenced(file="f", token=1)])

    class Lost(Held):
        def check(self) -> None:
            if error := next(looks):
                raise error

    with pytest.raises(Fenced):
        sender_to(Counting(), room, Lost()).send([1, 2, 3])
    waiting = sender_to(Counting(), room)
    threading.Timer(0.05, room.gate.leave, [2 * SIZE]).start()
    waiting.send([1, 2, 3])
    assert sorted(waiting.sent) == [1, 2, 3]


def test_the_reason_is_that_of_the_thread_that_met_it() -> None:
    ledger, source, store = LateRecords(), Changed(3 * SIZE), Store()
    attempt, upload = attempt_with(Held()), upload_of(12)
    clock, room = ManualClock(dice=0.99), room_for(Concurrency(2, 2), 2)
    sender = PartSender(ledger, store, clock, attempt, source, upload, room)
    with pytest.raises(SourceChanged):
        sender.send([1, 2, 3])
    assert ledger.saved[1].etag == "etag"
    assert attempt.bytes_sent == SIZE

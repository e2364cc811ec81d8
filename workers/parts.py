"""How are the missing parts of a file read and sent, several at a time?

Each thread has one buffer: a part is read once, and sent again from memory if that must be. There
are as many threads as make it faster and as memory allows. What a part holds is on record before it
is sent, and its receipt with the next part of any thread, so that a crash costs the parts in flight
and hardly another.
"""

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from mmap import mmap
from typing import NamedTuple

from labferry.concurrency import Concurrency
from labferry.errors import SourceChanged, StoreError
from labferry.failures import Kind, classify
from labferry.ports import Clock, Ledger, ObjectStore
from labferry.records import Part, Upload
from labferry.throttle import threads
from workers.attempt import Attempt, Damage
from workers.crew import ByteGate, Crew
from workers.source import SourceFile

#: A part is sent this often within one attempt at its file.
_TRIES = 3
#: The longest wait before a part is sent again; doubles.
_PAUSE_S = 1.0
_POLL_S = 1.0
#: Parts in flight are waited for this long when the others have to stop.
GRACE_S = 3.0


class _Halted(Exception):
    """Another thread met what ends the upload; its exception tells why, not this one's."""


class Room(NamedTuple):
    """How many parts may be in flight: so many as make it faster, at an endpoint's pace, and no
    more than are let through the process's gate."""

    concurrency: Concurrency
    gate: ByteGate
    part_size: int
    pace: float = 1.0

    @property
    def parts(self) -> int:
        """The parts that may be in flight now."""
        most = max(1, self.gate.limit // self.part_size)
        return min(threads(self.concurrency.limit, self.pace), most)


@dataclass(slots=True)
class PartSender:
    """The parts of one upload; `sent` are those that the server acknowledged by now."""

    ledger: Ledger
    store: ObjectStore
    clock: Clock
    attempt: Attempt
    source: SourceFile
    upload: Upload
    room: Room
    sent: dict[int, Part] = field(default_factory=dict)
    _missing: deque[int] = field(default_factory=deque)
    _halt: threading.Event = field(default_factory=threading.Event)
    #: Of those that follow, and of the room.
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _working: int = 0
    _crew: Crew = field(init=False)
    _receipts: dict[int, Part] = field(default_factory=dict)

    def send(self, missing: Iterable[int]) -> None:
        """Send parts by number.

        Raises: SourceError, StoreError, Fenced, Stopping, LedgerUnavailable.
        """
        self._missing.extend(missing)
        self.room.concurrency.pause()
        crew = self._crew = Crew(self._work, 0)
        try:
            self._hire()
            while not crew.wait(_POLL_S) or self._missing:
                self._hire()
        finally:
            self._halt.set()
            crew.rest(self.clock, GRACE_S)
            self.attempt.bytes_sent += sum(part.size for part in list(self.sent.values()))

    def _hire(self) -> None:
        """Let as many more threads work as there shall be; wait for room where there is none."""
        for _ in range(self._wanted()):
            if self._crew.is_done:  # what hangs of another file may be in the way
                self.attempt.lease.check()
            if not self.room.gate.enter(self.room.part_size, _POLL_S if self._crew.is_done else 0):
                return
            with self._lock:
                self._working += 1
            self._crew.hire(1)

    def _wanted(self) -> int:
        """Return how many more threads there shall be."""
        with self._lock:
            if self._halt.is_set():
                return 0
            return min(self.room.parts - self._working, len(self._missing))

    def _next(self) -> int | None:
        """Return a part that is not sent yet; None where the thread is not wanted any more."""
        with self._lock:
            if self._missing and self._working <= self.room.parts and not self._halt.is_set():
                return self._missing.popleft()
            self._working -= 1
            return None

    def _work(self) -> None:
        try:
            self._send_next()
        except _Halted:
            pass
        except BaseException:
            self._halt.set()
            raise
        finally:
            self.room.gate.leave(self.room.part_size)
            with self._lock:
                receipts, self._receipts = self._receipts, {}
            if receipts:
                self._save(receipts)

    def _send_next(self) -> None:
        # One buffer for all parts: new memory for each costs as much as the sending. Not the
        # allocator's: it would keep as much for a thread that is over.
        buffer = memoryview(b"")
        while True:
            with self.source.in_order():
                if (number := self._next()) is None:
                    return
                size = min(self.upload.part_size, self.source.size - self._offset(number))
                if size > len(buffer):
                    buffer = memoryview(mmap(-1, size))
                part = self._read(number, buffer[:size])
            self._record(number, part)
            part = part._replace(etag=self._put(number, buffer[:size], part.crc64))
            self._took(number, part)
            self.attempt.passed()
            self.attempt.sent(size)

    def _record(self, number: int, part: Part) -> None:
        """Record what a part holds, and the receipts that came meanwhile."""
        with self._lock:
            receipts = dict(self._receipts)
        self._save({**receipts, number: part})
        with self._lock:
            for told in receipts:
                self._receipts.pop(told, None)

    def _took(self, number: int, part: Part) -> None:
        """Note that the endpoint took a part."""
        with self._lock:
            self._receipts[number] = self.sent[number] = part
            before = self.room.parts
            if self._working >= before:
                self.room.concurrency.answered(self.clock.mono_s())
            grew = self.room.parts > before
        if grew:
            self._crew.wake()

    def _offset(self, number: int) -> int:
        return (number - 1) * self.upload.part_size

    def _save(self, parts: dict[int, Part]) -> None:
        self.ledger.save_parts(self.attempt.file, self.attempt.claim.token, parts)

    def _read(self, number: int, buffer: memoryview) -> Part:
        self.attempt.lease.check()
        part = Part(self.source.read_into(buffer, self._offset(number)), len(buffer))
        known = self.upload.parts.get(number)
        if known and (known.crc64, known.size) != (part.crc64, part.size):
            raise SourceChanged(
                path=self.attempt.file.path, why=f"part {number} is not what it was"
            )
        if self._halt.is_set():  # the source may be closed by now, the read of another file
            raise _Halted
        return part

    def _put(self, number: int, body: memoryview, crc64: int) -> str:
        key, upload_id = self.attempt.key, self.upload.upload_id
        damage, tried, pause_s = Damage(), 0, 0.0
        while not self._halt.wait(pause_s):
            self.attempt.lease.check()
            try:
                return self.store.put_part(key, upload_id, number, body, crc64)
            except StoreError as error:
                if damage.is_first(error):
                    pause_s = 0.0
                    continue
                tried += 1
                wait_s = self._pause_s(error, tried)
                if wait_s is None:
                    raise
                pause_s = wait_s
        raise _Halted

    def _pause_s(self, error: StoreError, tried: int) -> float | None:
        """Return the wait before the same bytes are sent again, or None if they are not."""
        if tried == _TRIES or classify(error).kind is not Kind.TRANSIENT:
            return None
        ceiling_s = _PAUSE_S * 2.0 ** (tried - 1)
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= ceiling_s else None
        return self.clock.uniform() * ceiling_s

"""How do the small files of a bundle get to the bucket?

Most of them fly: one thread reads one after the other and has many Puts under way at once. What is
not as simple as that has a thread for itself while it lasts: larger files, a share that is slow to
read, an endpoint that must be asked before or after, and whatever a Put was not clearly told.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from labferry.concurrency import Concurrency
from labferry.errors import StoreError
from labferry.failures import Kind, classify
from labferry.ports import Clock, ObjectStore
from labferry.records import Claim, Evidence
from labferry.throttle import threads
from workers.attempt import Attempt
from workers.attempts import Attempts
from workers.crew import ByteGate, Crew
from workers.permit import Permit
from workers.single import Put, SinglePut

#: A larger file's bytes take longer than what threads cost.
_FLYING_BYTES = 256 * 1024
#: A share whose files take longer to read, on the mean of so many, is read by many threads.
_SLOW_READ_S, _READS = 0.002, 32
#: Outcomes are told to the ledger when so many have come together.
BATCH_FILES = 250
_EVERYBODYS = (Kind.ENVIRONMENT, Kind.THROTTLED)


class _Unclear(NamedTuple):
    """A Put that was begun and did not clearly succeed; `after` counts those that did before."""

    put: Put
    error: StoreError
    after: int

    @property
    def size(self) -> int:
        return len(self.put.body)


class SmallLane:
    """The small files of one bundle, and the crew that carries them now, or did last."""

    def __init__(
        self,
        attempts: Attempts,
        store: ObjectStore,
        permit: Permit,
        concurrency: Concurrency,
        gate: ByteGate,
        clock: Clock,
    ) -> None:
        self._attempts = attempts
        self._store = store
        self._permit = permit
        self._concurrency = concurrency
        self._gate = gate
        self._clock = clock
        self._waiting: deque[Claim | _Unclear] = deque()
        self._unclear: deque[_Unclear] = deque()
        self._larger: deque[Claim] = deque()
        self._landed = self._told = 0
        # One half is for what flies, the other for what came down and has no clear outcome.
        self._half_bytes = gate.limit // 2
        self._flying_bytes = min(_FLYING_BYTES, self._half_bytes // concurrency.most)
        self._unclear_bytes = 0
        self._counting = threading.Lock()
        self._working = 0
        self._may_fly = True
        self.crew: Crew | None = None

    def carry(
        self, claims: Sequence[Claim], single: SinglePut, wait: Callable[[Crew], None]
    ) -> None:
        """Carry all; `wait` returns when a crew is done."""
        self._waiting.extend(claims)
        if self._permit.is_probe:  # one after the other, until one tells
            wait(self._crew(lambda: self._drain(single, lambda: not self._permit.is_probe), 1))
        if self._waiting and single.flies:
            wait(self._crew(lambda: self._fly(single), 1))
            self._waiting = deque([*self._unclear, *self._waiting, *self._larger])
        if self._waiting:
            most = threads(self._concurrency.least, self._permit.pace)
            count = min(most, len(self._waiting))
            wait(self._crew(lambda: self._drain(single, lambda: False), count))

    def stop(self) -> None:
        """Begin no file any more."""
        for files in (self._waiting, self._unclear, self._larger):
            files.clear()

    def _crew(self, job: Callable[[], None], count: int) -> Crew:
        self._working = count
        self.crew = Crew(job, count)
        return self.crew

    def _done(self, attempt: Attempt) -> None:
        self._attempts.done.append(attempt)
        if len(self._attempts.done) == BATCH_FILES and self.crew is not None:
            self.crew.wake()

    # -- many in one thread

    def _fly(self, single: SinglePut) -> None:
        """Send what is simple; leave the rest on the ground."""
        for put, outcome in self._store.put_many(self._prepared(single), self._room):
            if isinstance(outcome, StoreError):
                self._unclear.append(_Unclear(put, outcome, self._landed))
                self._unclear_bytes += len(put.body)
                self._may_fly = self._may_fly and classify(outcome).kind not in _EVERYBODYS
            else:
                self._done(self._attempts.go_on(put.attempt, partial(_landed, put, outcome)))
                self._landed += 1
            if self._waiting:
                self._concurrency.answered(self._clock.mono_s())

    def _room(self) -> int:
        return threads(self._concurrency.limit, self._permit.pace)

    def _prepared(self, single: SinglePut) -> Iterator[Put]:
        """Read files as there is room for them, until they had better be left to threads."""
        read_s, count = 0.0, 0
        while self._goes_on() and (count < _READS or read_s < count * _SLOW_READ_S):
            try:
                waiting = self._waiting.popleft()
            except IndexError:
                return
            assert not isinstance(waiting, _Unclear)  # noqa: S101  none is waiting yet
            if _size(waiting) > self._flying_bytes:
                self._larger.append(waiting)
                continue
            attempt = self._attempts.begin(waiting)
            try:
                self._attempts.name(attempt)
                put = single.prepare(attempt)
            except Exception as error:  # noqa: BLE001  one file's failure is not its neighbours'
                self._attempts.fail(attempt, error)
                self._done(attempt)
            else:
                read_s, count = read_s + self._clock.mono_s() - attempt.started_s, count + 1
                attempt.bytes_sent = len(put.body)
                yield put

    def _goes_on(self) -> bool:
        attempts = self._attempts
        has_room = self._unclear_bytes < self._half_bytes
        return (
            has_room and self._may_fly and not attempts.in_the_way and not attempts.is_over.is_set()
        )

    # -- one in each thread

    def _drain(self, single: SinglePut, is_enough: Callable[[], bool]) -> None:
        """Work on waiting files until there are none; the job of each thread."""
        while not self._attempts.is_over.is_set() and not is_enough():
            try:
                waiting = self._waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            size = _size(waiting)
            self._gate.enter(size)
            attempt = self._worked_on(waiting, single)
            self._done(attempt)
            self._gate.leave(size)
            if attempt.is_throttled and self._leaves(attempt):
                return

    def _worked_on(self, waiting: Claim | _Unclear, single: SinglePut) -> Attempt:
        if isinstance(waiting, _Unclear):
            return self._attempts.go_on(waiting.put.attempt, partial(self._reconcile, waiting))
        return self._attempts.make(waiting, single.send)

    def _reconcile(self, unclear: _Unclear, _: Attempt) -> Evidence:
        with self._counting:
            passed, self._told = unclear.after > self._told, unclear.after
        if passed:  # others did well in between, and nobody was told yet
            self._permit.passed()
        return unclear.put.reconcile(unclear.error)

    def _leaves(self, attempt: Attempt) -> bool:
        """Whether a thread that was throttled ends; the last one holds back what is left."""
        with self._counting:
            if self._working > 1:
                self._working -= 1
                return True
        self._attempts.in_the_way = attempt.failure
        return False


def _size(waiting: Claim | _Unclear) -> int:
    return waiting.size if isinstance(waiting, _Unclear) else waiting.record.fingerprint.size


def _landed(put: Put, outcome: str | Exception, _: Attempt) -> Evidence:
    if isinstance(outcome, Exception):
        raise outcome
    return put.landed(outcome)

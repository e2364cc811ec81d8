"""How do several threads do one job side by side, so that whoever waits can be interrupted?

Threads are daemons: none is there before a task, none is carried across a fork, and one that hangs
in a request keeps no process from ending. One that has done its job may rest until the next: to
start a thread for each message takes longer than to send a small file.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from traceback import clear_frames

from labferry.ports import Clock

Job = Callable[[], object]
#: Where threads that rest get their next job, and how many do at most.
_RESTING: deque[SimpleQueue[Job]] = deque()
_MOST_RESTING = 2
os.register_at_fork(after_in_child=_RESTING.clear)


def _in_a_thread(job: Job) -> None:
    try:
        jobs = _RESTING.pop()
    except IndexError:
        jobs = SimpleQueue()
        threading.Thread(target=_serve, args=(jobs,), daemon=True).start()
    jobs.put(job)


def _serve(jobs: SimpleQueue[Job]) -> None:
    jobs.get()()
    while len(_RESTING) < _MOST_RESTING:
        _RESTING.append(jobs)
        jobs.get()()


class Crew:
    """`count` threads that each call the job once; the job returns when there is nothing left."""

    def __init__(self, job: Job, count: int) -> None:
        self._job = job
        self._news: SimpleQueue[bool] = SimpleQueue()
        self._working = 0
        self._died: BaseException | None = None
        self.hire(count)

    def hire(self, count: int) -> None:
        """Let more threads do the job; only for who waits."""
        for _ in range(count):
            self._working += 1
            _in_a_thread(self._work)

    def wake(self) -> None:
        """Let `wait` return before its time."""
        self._news.put(False)

    def wait(self, timeout_s: float) -> bool:
        """Wait for news, at most so long; return whether all threads are done.

        Raises: the first exception that ended a thread.
        """
        self._hear(timeout_s)
        if self._died is not None:
            raise self._died
        return not self._working

    @property
    def is_done(self) -> bool:
        """Whether all threads were heard to be done."""
        return not self._working

    def rest(self, clock: Clock, timeout_s: float) -> None:
        """Wait until all threads are done, at most so long."""
        until_s = clock.mono_s() + timeout_s
        while self._hear(until_s - clock.mono_s()):
            pass

    def _hear(self, timeout_s: float) -> bool:
        if not self._working:
            return False
        try:
            self._working -= self._news.get(timeout=max(timeout_s, 0))
        except Empty:
            return False
        return True

    def _work(self) -> None:
        try:
            self._job()
        except BaseException as error:  # noqa: BLE001  raised again where it is waited for
            # What is not done with would keep its buffers until garbage is looked for.
            clear_frames(error.__traceback__)
            self._died = self._died or error
        finally:
            self._news.put(True)


class ByteGate:
    """Keeps the bytes of files in a process's memory below a limit; what is larger passes alone.

    A thread that was given up is inside until it ends.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._inside = 0
        self._changed = threading.Condition()

    def enter(self, size: int, timeout_s: float | None = None) -> bool:
        """Wait until there is room, at most so long; return whether it was entered."""
        with self._changed:
            has_room = self._changed.wait_for(
                lambda: not self._inside or self._inside + size <= self.limit, timeout_s
            )
            if has_room:
                self._inside += size
            return has_room

    def leave(self, size: int) -> None:
        """Make room."""
        with self._changed:
            self._inside -= size
            self._changed.notify_all()

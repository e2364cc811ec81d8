"""Do threads share a job, and can whoever waits for them be interrupted?"""

import os
import signal
import threading
import weakref
from collections import deque

import pytest

from labferry.clock import SystemClock
from tests.waiting import PATIENCE_S, eventually
from workers.crew import ByteGate, Crew


class Stop(BaseException):
    """As a shutdown in mid-task."""


def wait_out(crew: Crew) -> None:
    while not crew.wait(5):
        pass


def test_every_thread_does_the_job_once() -> None:
    seen: deque[int] = deque()
    crew = Crew(lambda: seen.append(threading.get_ident()), 3)
    wait_out(crew)
    assert len(seen) == 3
    assert crew.is_done


def test_a_thread_that_is_done_does_the_next_job() -> None:
    seen: deque[threading.Thread] = deque()
    for _ in range(20):
        wait_out(Crew(lambda: seen.append(threading.current_thread()), 1))
    assert len(seen) == 20
    assert len(set(seen)) < 20


def test_no_more_threads_rest_than_are_often_needed() -> None:
    go, before = threading.Event(), threading.active_count()
    crew = Crew(go.wait, 20)
    go.set()
    wait_out(crew)
    eventually(lambda: threading.active_count() <= before + 2)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_thread_that_rests_is_not_carried_across_a_fork() -> None:
    wait_out(Crew(lambda: None, 1))
    child = os.fork()
    if not child:
        signal.alarm(30)
        wait_out(Crew(lambda: None, 1))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_waiting_ends_early_when_woken() -> None:
    go = threading.Event()
    crew = Crew(go.wait, 1)
    crew.wake()
    assert not crew.wait(60)
    go.set()
    wait_out(crew)


def test_an_exception_in_a_thread_reaches_who_waits() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        wait_out(Crew(fail, 1))


def test_what_a_thread_held_is_let_go_with_its_exception() -> None:
    held: list[weakref.ref[memoryview]] = []

    def fail() -> None:
        buffer = memoryview(bytearray(10))
        held.append(weakref.ref(buffer))
        raise ValueError("no")

    crew = Crew(fail, 1)
    with pytest.raises(ValueError, match="no"):
        wait_out(crew)
    assert held[0]() is None


def test_a_signal_interrupts_the_waiting() -> None:
    go = threading.Event()
    crew = Crew(go.wait, 1)

    def stop(*_: object) -> None:
        raise Stop

    previous = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stop):
            crew.wait(60)
    finally:
        signal.signal(signal.SIGALRM, previous)
    go.set()
    crew.rest(SystemClock(), 10)
    assert crew.is_done


def test_a_thread_that_hangs_is_not_waited_for_longer_than_asked() -> None:
    go = threading.Event()
    crew = Crew(go.wait, 2)
    crew.rest(SystemClock(), 0.05)
    assert not crew.is_done
    go.set()
    crew.rest(SystemClock(), 10)
    assert crew.is_done


def test_a_gate_lets_in_what_fits_and_the_rest_later() -> None:
    gate = ByteGate(10)
    gate.enter(6)
    inside = threading.Event()

    def enter() -> None:
        gate.enter(6)
        inside.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not inside.wait(0.05)
    gate.leave(6)
    assert inside.wait(PATIENCE_S)
    thread.join()


def test_a_gate_is_waited_for_no_longer_than_asked() -> None:
    gate = ByteGate(10)
    assert gate.enter(6, 0)
    assert not gate.enter(6, 0)
    gate.leave(6)
    assert gate.enter(6, 0)


def test_what_is_larger_than_the_gate_passes_alone() -> None:
    gate = ByteGate(10)
    gate.enter(50)
    gate.leave(50)
    gate.enter(10)
    blocked = threading.Thread(target=gate.enter, args=(50,))
    blocked.start()
    gate.leave(10)
    blocked.join(10)
    eventually(lambda: not blocked.is_alive())

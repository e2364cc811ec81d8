"""Does the first signal end the work, and none of them the clean-up?"""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import pytest

from ops.interrupts import Interrupted, Interrupts


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0)  # the interpreter runs the handler between two steps


def test_the_first_signal_interrupts_the_work() -> None:
    with Interrupts() as interrupts, pytest.raises(Interrupted):
        with interrupts.allowed():
            interrupt()


def test_a_second_signal_does_not_cut_the_clean_up_short() -> None:
    done = []

    def put_away() -> None:
        interrupt()
        interrupt()
        done.append("all")

    with Interrupts() as interrupts:
        with pytest.raises(Interrupted), ExitStack() as stack, interrupts.allowed():
            stack.callback(put_away)
            interrupt()
        assert done == ["all"]
        assert interrupts.hurry


def test_a_signal_during_a_clean_up_that_was_due_anyway_is_quiet() -> None:
    with Interrupts() as interrupts:
        with interrupts.allowed():
            pass
        interrupt()


def test_a_signal_waits_until_what_is_started_is_on_record() -> None:
    started = []
    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.allowed():
        with interrupts.postponed():
            interrupt()
            started.append("child")
    assert started == ["child"]


def test_a_signal_before_the_work_begins_is_not_lost() -> None:
    with Interrupts() as interrupts, pytest.raises(Interrupted):
        interrupt()
        with interrupts.allowed():
            pytest.fail("the work began")


def test_sigterm_is_a_polite_end_and_ctrl_c_is_not() -> None:
    assert Interrupted(signal.SIGTERM).asked_politely
    assert not Interrupted(signal.SIGINT).asked_politely


def test_the_handlers_of_before_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_an_interruption_that_python_dropped_is_raised_again() -> None:
    """As in a destructor, or beside a fork: there an exception is printed and forgotten."""
    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.allowed():
        with suppress(Interrupted):
            interrupt()
        interrupts.check()
        pytest.fail("the work went on")


def test_an_interruption_that_was_dropped_is_raised_at_the_end_of_the_work_at_last() -> None:
    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.allowed():
        with suppress(Interrupted):
            interrupt()


INTERRUPTED_FORK = """
import os, signal
from ops.interrupts import Interrupted, Interrupts
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))
with Interrupts() as interrupts:
    try:
        with interrupts.allowed():
            if not os.fork():
                os._exit(0)
            os.wait()
            interrupts.check()
    except Interrupted:
        print("interrupted")
"""


def test_nothing_is_raised_while_a_process_is_forked() -> None:
    """What is raised beside a fork is printed and dropped: it would look like a fault."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_FORK], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("interrupted\n", "", 0)


def test_an_interruption_that_was_waited_for_is_not_raised_again() -> None:
    with Interrupts() as interrupts, interrupts.allowed():
        with suppress(Interrupted):
            interrupt()
        interrupts.answered()
        interrupts.check()

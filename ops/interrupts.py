"""When somebody presses Ctrl-C, what stops, and what is still done in good order?

The first signal interrupts the work once. From then on, and while things are put away, signals only
say that it shall go fast, so that no clean-up is ever cut short:

    with Interrupts() as interrupts, ExitStack() as put_away, interrupts.allowed():
        ...  # Interrupted may be raised here, once; put_away runs undisturbed

Python drops an exception that a signal raises in a destructor or beside a fork. So nothing is
raised while a process is forked, and loops also ask `check`, as the end of the block does.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Who asks so often wants no order any more.
_MEANT = 3


class Interrupted(KeyboardInterrupt):
    """Somebody asked this program to end."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(signal.Signals(signal_number).name)

    @property
    def asked_politely(self) -> bool:
        """Whether it was SIGTERM, with which a supervisor ends a service in good order."""
        return self.signal_number == signal.SIGTERM


class _Fork:
    """Whether this process is being forked just now."""

    now = False
    watched = False

    @classmethod
    def watch(cls) -> None:
        """Begin to know. What is registered last comes first before a fork, and last after it."""
        if not cls.watched:
            cls.watched = True
            os.register_at_fork(before=cls._begin, after_in_parent=cls._end)

    @classmethod
    def _begin(cls) -> None:
        cls.now = True

    @classmethod
    def _end(cls) -> None:
        cls.now = False


class Interrupts:
    """SIGINT, SIGTERM and SIGHUP as one exception at a time when it does no harm."""

    def __init__(self) -> None:
        self._received: list[int] = []
        self._answered = False
        self._may_raise = False
        self._before: dict[int, Any] = {}

    @property
    def hurry(self) -> bool:
        """Whether somebody asked again."""
        return len(self._received) > 1

    @property
    def at_once(self) -> bool:
        """Whether somebody asked for a third time."""
        return len(self._received) >= _MEANT

    def __enter__(self) -> Self:
        _Fork.watch()
        self._before = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let the first signal raise Interrupted in this block."""
        self._may_raise = True
        try:
            self.check()
            yield
            self.check()
        finally:
            self._may_raise = False

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Let a signal raise only at the end of this block, when what it starts is on record."""
        before, self._may_raise = self._may_raise, False
        try:
            yield
        finally:
            self._may_raise = before
        self.check()

    def check(self) -> None:
        """Raise Interrupted if a signal came and this is the work that it is to end."""
        if self._received and self._may_raise and not self._answered and not _Fork.now:
            raise Interrupted(self._received[0])

    def answered(self) -> None:
        """Take note that an interruption was caught and did what it was for."""
        self._answered = True

    def _receive(self, number: int, _: FrameType | None) -> None:
        self._received.append(number)
        if len(self._received) == 1:  # whatever comes while that one leads out is haste
            self.check()

"""How does a command run once for each generation of a run? `labferry consume`.

What comes is kept in the inbox and acknowledged; what is in the inbox is worked on. The command's
lease is renewed while it runs. Who dies over it leaves an entry that says so.
"""

import logging
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from labferry.celery_events import CeleryQueue
from labferry.clock import SystemClock
from labferry.errors import (
    BrokerUnavailable,
    ChangedEvent,
    InboxUnavailable,
    MalformedMessage,
    StoreError,
)
from labferry.events import COMPLETE_KINDS, EventKind
from labferry.failures import Failure, Kind
from labferry.identity import Layout
from labferry.inbox import RENEWALS, Entry, Inbox
from labferry.inbox.entries import STUCK
from labferry.retry import Budget, Verdict, decide
from labferry.s3.store import open_store
from labferry.settings import Settings
from labferry.telemetry import emit
from ops.command_template import CommandTemplate
from ops.exits import Exit
from ops.marker_watch import MarkerWatch
from ops.processes import end_with

#: With so many signals the command is not waited for any more.
_HURRY = 2
#: After a source that does not answer, and between two looks where nothing is to be done.
_TROUBLE_S, _PAUSE_S = 5.0, 0.5


#: What is away now, and comes back.
_FAULTS = (BrokerUnavailable, StoreError, InboxUnavailable)


class Source(Protocol):
    """Where events come from."""

    def look(self, take: Callable[[object], None]) -> bool:
        """Hand on what is there, for a short while; return whether anything was."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def open_source(settings: Settings, *, from_queue: bool, every_s: float) -> Source:
    """Return the queue of [events], or the markers of the bucket, looked at so often."""
    if from_queue:
        return CeleryQueue(settings)
    layout = Layout(settings.store.prefix)
    return MarkerWatch(open_store(settings.store), layout, SystemClock(), every_s=every_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events are this consumer's; no instruments are all."""

    kinds: Collection[EventKind]
    instruments: Collection[str] = ()

    def takes(self, event: object) -> bool:
        """Whether it is one of these, or no event at all: that is for a person."""
        if not isinstance(event, dict) or event.get("event") not in set(EventKind):
            return True
        instrument = str(event.get("run", "")).partition("/")[0]
        named = not self.instruments or instrument in self.instruments
        return named and event["event"] in self.kinds


def wanted(instruments: Collection[str], *, incomplete: bool) -> Wanted:
    """Return the events of complete runs, or also of such as a person closed incomplete."""
    more = {EventKind.INCOMPLETE} if incomplete else set[EventKind]()
    return Wanted(kinds=COMPLETE_KINDS | more, instruments=instruments)


def skip_existing(inbox: Inbox, source: Source, chosen: Wanted) -> int:
    """Note all that is there as done, without doing anything; return how many were new."""
    skipped = 0

    def skip(event: object) -> None:
        nonlocal skipped
        if chosen.takes(event):
            taken = inbox.take(inbox.receive(event).key)
            skipped += bool(taken and inbox.finish(taken))

    source.look(skip)
    return skipped


class Consumer:
    """Runs a command once for each event."""

    def __init__(
        self,
        *,
        inbox: Inbox,
        source: Source,
        command: str,
        wanted: Wanted,
        budget: Budget,
    ) -> None:
        """Raises: SettingsError where the command cannot be read."""
        self._inbox = inbox
        self._source = source
        self._command = CommandTemplate(command)
        self._wanted = wanted
        self._budget = budget
        self._clock = SystemClock()
        self._signals = 0

    def run(self, *, once: bool) -> Exit:
        """Go on until a signal comes, or with `once` until nothing is left that may begin.

        Raises: BrokerUnavailable, StoreError, InboxUnavailable with `once`.
        """
        with self._until_signalled():
            while not self._signals:
                try:
                    if self._turn():
                        continue
                    if once and self._inbox.wait_ms() is None:
                        break
                    self._clock.sleep_s(_PAUSE_S)
                except _FAULTS as error:
                    if once:
                        raise
                    emit("consume.unavailable", level=logging.WARNING, error=str(error))
                    self._clock.sleep_s(_TROUBLE_S)
        self._source.close()
        stuck = any(one.stage in STUCK for one in self._inbox.entries())
        return Exit.PARTIAL if once and stuck else Exit.DONE

    def _turn(self) -> bool:
        """Receive what is there and work off what may begin; return whether there was anything."""
        came = self._source.look(self._receive)
        return self._work_off() or came

    def _receive(self, event: object) -> None:
        """Keep an event; what is rejected is kept, too, and said loudly."""
        if not self._wanted.takes(event):
            return
        try:
            self._inbox.receive(event)
        except (ChangedEvent, MalformedMessage) as error:
            emit("consume.rejected", level=logging.ERROR, error=str(error))

    def _work_off(self) -> bool:
        some = False
        while not self._signals and (entry := self._inbox.take()):
            some = True
            self._work(entry)
        return some

    def _work(self, entry: Entry) -> None:
        emit("consume.begun", subject=entry.key, tries=entry.tries)
        with tempfile.TemporaryFile() as given:
            given.write(entry.content.encode())
            given.seek(0)
            try:
                process = subprocess.Popen(
                    self._command.filled(entry.event),
                    stdin=given,
                    start_new_session=True,
                    preexec_fn=end_with(os.getpid(), signal.SIGKILL),  # noqa: PLW1509  no locks
                )
            except OSError as error:
                self._failed(entry, str(error))
                return
        held = self._wait(process, entry)
        if held is None:
            emit("consume.lost", level=logging.ERROR, subject=entry.key)
        elif process.returncode:
            self._failed(held, f"it ended with {process.returncode}")
        elif self._finished(held):
            emit("consume.done", subject=entry.key)
        else:
            emit("consume.lost", level=logging.ERROR, subject=entry.key)

    def _wait(self, process: "subprocess.Popen[bytes]", entry: Entry) -> Entry | None:
        """Renew the lease until the command ends; None when it is lost, or nobody may wait."""
        held: Entry | None = entry
        while held is not None and self._signals < _HURRY:
            try:
                process.wait(self._inbox.lease_s / RENEWALS)
                return held
            except subprocess.TimeoutExpired:
                held = self._renewed(held)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None

    def _renewed(self, held: Entry) -> Entry | None:
        """Renew the lease; an inbox that is away for a moment costs nothing yet."""
        try:
            return self._inbox.renew(held)
        except InboxUnavailable as error:
            emit("consume.not_renewed", level=logging.WARNING, error=str(error))
            return held

    def _finished(self, held: Entry) -> bool:
        """Note that the work is done; said again while the lease holds, if the inbox is away."""
        until_s = self._clock.mono_s() + self._inbox.lease_s
        while True:
            try:
                return self._inbox.finish(held)
            except InboxUnavailable:
                if self._clock.mono_s() > until_s:
                    raise
                self._clock.sleep_s(_PAUSE_S)

    def _failed(self, entry: Entry, why: str) -> None:
        decision = decide(
            Failure(kind=Kind.TRANSIENT, code="failed"),
            attempt=entry.tries,
            age_s=0,
            budget=self._budget,
            uniform=self._clock.uniform(),
        )
        ends = decision.verdict is Verdict.QUARANTINE
        self._inbox.fail(entry, why, wait_s=None if ends else decision.delay_s)
        what = "consume.given_up" if ends else "consume.failed"
        level = logging.ERROR if ends else logging.WARNING
        emit(what, level=level, subject=entry.key, tries=entry.tries, why=why)

    @contextmanager
    def _until_signalled(self) -> Iterator[None]:
        def count(_: int, __: FrameType | None) -> None:
            self._signals += 1

        names = (signal.SIGINT, signal.SIGTERM)
        before = {name: signal.signal(name, count) for name in names}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

"""Which shares does this host see now, and does this node take their instruments' messages?

A share may be away here and there on another host: then its messages are left to that one. Looks
are cheap and go on, so that the node takes them again by itself. A look at a share that hangs
hangs as well: each has a thread of its own, and no answer is an answer.
"""

import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from labferry.clock import SystemClock
from labferry.errors import LedgerUnavailable, ShareUnavailable
from labferry.failures import classify
from labferry.ledger import open_ledger
from labferry.messages import upload_queue
from labferry.ports import Clock
from labferry.records import Lane
from labferry.settings import Settings
from labferry.telemetry import emit
from workers.gate import Gate
from workers.source import check_share

#: A look that takes longer found a share that is away.
HANGS_S = 10.0
#: Most looks are over by then.
_SOON_S = 0.5

Look = Callable[[Path], None]


class Node(Protocol):
    """What takes messages of instruments, or leaves them to others."""

    def take(self, instrument: str) -> None:
        """Take an instrument's messages."""
        ...

    def leave(self, instrument: str) -> None:
        """Take none any more."""
        ...


class CeleryNode:
    """A Celery worker, by its consumer. May be called from any thread."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._queues = frozenset(consumer.app.amqp.queues.consume_from)

    def queues(self, instrument: str) -> list[str]:
        """Return the queues of an instrument that this node takes messages of."""
        names = {upload_queue(instrument, lane) for lane in Lane}
        return sorted(names & self._queues)

    def take(self, instrument: str) -> None:
        """Consume its queues."""
        for queue in self.queues(instrument):
            self._soon(self._consumer.add_task_queue, queue)

    def leave(self, instrument: str) -> None:
        """Consume them no more."""
        for queue in self.queues(instrument):
            self._soon(self._consumer.cancel_task_queue, queue)

    def _soon(self, act: Callable[[str], None], queue: str) -> None:
        def guarded() -> None:
            try:
                act(queue)
            except Exception as error:  # noqa: BLE001  without a connection; the next one knows it
                emit("node.not_connected", queue=queue, error=str(error))

        self._consumer.call_soon(guarded)


def watch_shares(consumer: Any, settings: Settings) -> "ShareWatch":
    """Return a watch over the shares whose messages a Celery worker takes; it looks already."""
    node = CeleryNode(consumer)
    watch = ShareWatch(
        {name: one.root for name, one in settings.instruments.items() if node.queues(name)},
        node,
        Gate(open_ledger(settings.ledger), settings, socket.gethostname()),
        SystemClock(),
        every_s=settings.breakers.share_look_s,
    )
    watch.start()
    return watch


class ShareWatch:
    """Looks at the shares of one node until it is closed."""

    def __init__(
        self,
        roots: Mapping[str, Path],
        node: Node,
        gate: Gate,
        clock: Clock,
        *,
        every_s: float,
        look: Look = check_share,
    ) -> None:
        self._shares = [_Share(*one, node, gate, clock, look) for one in roots.items()]
        self._every_s = every_s
        self._closed = threading.Event()

    def start(self) -> None:
        """Look from now on, in a thread."""
        threading.Thread(target=self._run, name="shares", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def tick(self) -> None:
        """Look at each share once, and act on what changed."""
        for share in self._shares:
            share.tick()

    def _run(self) -> None:
        while not self._closed.is_set():
            self.tick()
            self._closed.wait(self._every_s)


class _Share:
    """One share, as this host sees it."""

    def __init__(
        self, instrument: str, root: Path, node: Node, gate: Gate, clock: Clock, look: Look
    ) -> None:
        self._instrument = instrument
        self._root = root
        self._node = node
        self._gate = gate
        self._clock = clock
        self._look = look
        self._looking: threading.Thread | None = None
        self._began_s = 0.0
        self._fault: ShareUnavailable | None = None
        self._is_there = True

    def tick(self) -> None:
        if self._looking is None:
            self._began_s = self._clock.mono_s()
            self._looking = threading.Thread(target=self._find_fault, daemon=True)
            self._looking.start()
            self._looking.join(_SOON_S)
        if not self._looking.is_alive():
            self._looking = None
            self._settle(self._fault)
        elif self._clock.mono_s() - self._began_s > HANGS_S:
            why = f"a look at it takes longer than {HANGS_S:g} s"
            self._settle(ShareUnavailable(path=str(self._root), why=why))

    def _find_fault(self) -> None:
        try:
            self._look(self._root)
            self._fault = None
        except ShareUnavailable as error:
            self._fault = error

    def _settle(self, fault: ShareUnavailable | None) -> None:
        """Act on what was seen; the ledger is told each time, as a worker may tell it otherwise."""
        if fault is not None and self._is_there and not self._is_missed():
            return
        if self._is_there != (fault is None):
            self._is_there = fault is None
            if fault is None:
                self._node.take(self._instrument)
            else:
                self._node.leave(self._instrument)
        try:
            if fault is None:
                self._gate.heal_share(self._instrument)
            else:
                self._gate.share_is_away(classify(fault), self._instrument)
        except LedgerUnavailable as error:
            emit("share.not_told", instrument=self._instrument, error=str(error))

    def _is_missed(self) -> bool:
        """Whether there is any work: a root in which nothing was ever seen is not away."""
        try:
            return self._gate.has_runs(self._instrument)
        except LedgerUnavailable:
            return True

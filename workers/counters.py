"""What did this process do since it told the ledger last? Told once a second at most.

A process that is killed takes the last second's counts with it: they are for rates, nothing is
decided by them.
"""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from labferry.errors import LedgerUnavailable
from labferry.ports import Ledger
from labferry.tallies import Tally, What, code_label
from labferry.telemetry import emit

_INTERVAL_S = 1.0

Later = Callable[[float, Callable[[], None]], None]


class Counters:
    """The counts of one process. Safe in threads; make it after a fork."""

    def __init__(self, ledger: Ledger, later: Later | None = None) -> None:
        """`later` calls something after so many seconds, once; unset, in a thread."""
        self._ledger = ledger
        self._later = later or _in_a_thread
        self._lock = threading.Lock()
        self._counts: Counter[Tally] = Counter()
        self._arrivals: defaultdict[str, list[int]] = defaultdict(list)
        self._is_seen_to = False

    def add(
        self, instrument: str, what: What, count: int = 1, *, state: str = "", code: str = ""
    ) -> None:
        """Count something, and see to it that the ledger is told."""
        label = code_label(code) if code else ""
        with self._lock:
            self._counts[Tally(instrument, what, state, label)] += count
            self._see_to_it()

    def arrived(self, instrument: str, since_ms: Iterable[int]) -> None:
        """Count the times to verified of files that were just verified."""
        with self._lock:
            self._arrivals[instrument].extend(since_ms)
            self._see_to_it()

    def send(self) -> None:
        """Tell the ledger now; while it does not answer, the counts are kept."""
        with self._lock:
            counts, arrivals, self._is_seen_to = self._counts, self._arrivals, False
            self._counts, self._arrivals = Counter(), defaultdict(list)
        try:
            if counts or arrivals:
                self._ledger.tally(counts, arrivals)
        except LedgerUnavailable as error:
            emit("counts.kept", level=logging.WARNING, error=str(error))
            with self._lock:
                self._counts.update(counts)
                for instrument, since_ms in arrivals.items():
                    self._arrivals[instrument].extend(since_ms)
                self._see_to_it()

    def _see_to_it(self) -> None:
        if not self._is_seen_to:
            self._is_seen_to = True
            self._later(_INTERVAL_S, self.send)


def _in_a_thread(wait_s: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(wait_s, call)
    timer.daemon = True
    timer.start()

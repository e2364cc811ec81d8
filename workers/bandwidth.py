"""How fast may this process read an instrument's files now?

All workers on all hosts keep to a limit together: each takes bytes of it in the ledger for some
fractions of a second ahead, one call a time, and waits until they are due. Where there is no limit
nothing is taken; what is in force is looked at again every few seconds.
"""

import contextlib
import threading
from collections.abc import Mapping

from labferry.bandwidth import rates_in_force
from labferry.errors import LedgerUnavailable
from labferry.limits import OVERALL, Plan, lowest
from labferry.ports import Clock, Ledger

#: Changes are heard of within this time.
LOOK_S = 3.0
#: Bytes are taken for this long ahead, and no fewer than these.
AHEAD_S = 0.25
LEAST_BYTES = 64 * 1024
#: What was taken and not read within this time is not read later, in a burst.
STALE_S = 1.0
#: A wait is cut into pieces, so that a change is heard of.
_PIECE_S = 1.0


class Bandwidth:
    """The limits as one process keeps to them. Safe in threads."""

    def __init__(self, ledger: Ledger, plans: Mapping[str, Plan], clock: Clock) -> None:
        self._ledger = ledger
        self._plans = plans
        self._clock = clock
        self._allowances: dict[str, Allowance] = {}

    def of(self, instrument: str) -> "Allowance":
        """Return what may be read of an instrument, the same one each time."""
        if instrument not in self._allowances:
            self._allowances[instrument] = Allowance(
                self._ledger, self._plans, self._clock, instrument
            )
        return self._allowances[instrument]


class Allowance:
    """What this process may read of one instrument. Safe in threads."""

    def __init__(
        self, ledger: Ledger, plans: Mapping[str, Plan], clock: Clock, instrument: str
    ) -> None:
        self._ledger = ledger
        self._plans = {name: plans.get(name, Plan()) for name in (OVERALL, instrument)}
        self._clock = clock
        self._instrument = instrument
        self._lock = threading.Lock()
        self._limits: dict[str, int] = {}
        self._looked_s = float("-inf")
        self._left = 0
        self._taken_s = 0.0

    def take(self, size: int) -> int:
        """Wait until bytes may be read; return how many, of so many."""
        self._look()
        if not self._limits or not size:
            return size
        with self._lock:
            if self._clock.mono_s() - self._taken_s > STALE_S:
                self._left = 0
            if not self._left:
                self._left = self._reserve()
            taken = min(size, self._left)
            self._left -= taken
            return taken or size

    def _reserve(self) -> int:
        """Take bytes of the limits, wait until they are due, and return how many."""
        limits = self._limits
        if not limits:
            return 0
        size = max(LEAST_BYTES, int(min(limits.values()) * AHEAD_S))
        until_s = self._clock.mono_s() + self._wait_s(limits, size)
        while (left_s := until_s - self._clock.mono_s()) > 0 and self._limits == limits:
            self._clock.sleep_s(min(left_s, _PIECE_S))
            self._look()
        self._taken_s = self._clock.mono_s()
        return size

    def _wait_s(self, limits: Mapping[str, int], size: int) -> float:
        try:
            return self._ledger.reserve(limits, size)
        except LedgerUnavailable:  # it may be back before the lease ends: alone meanwhile
            return size / min(limits.values())

    def _look(self) -> None:
        """Look at what is in force, if that was not done just now."""
        now_s = self._clock.mono_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        with contextlib.suppress(LedgerUnavailable):  # what was in force still is
            self._limits = lowest(rates_in_force(self._ledger, self._plans))

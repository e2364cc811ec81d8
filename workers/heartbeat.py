"""May this process still work on its files? While a lease is renewed in time and nobody asked to
stop.

A lease is known to be good for its time to live, counted from before the last successful renewal
was sent, less a margin: past that another worker may have it, whatever the ledger would say now.
"""

import logging
import threading
from collections.abc import Sequence

from labferry.errors import Fenced, LedgerUnavailable
from labferry.identity import RunKey
from labferry.ports import Clock, Ledger
from labferry.records import Claim, Outcome, Step
from labferry.settings import LedgerSettings
from labferry.states import Event
from labferry.telemetry import emit

#: Of the time to live; covers the way of the claim's answer and of the next request.
_MARGIN = 1 / 6
#: After a renewal that failed the next one comes sooner, by this factor.
_HURRY = 1 / 3


class Stopping(Exception):
    """The worker shuts down: what is not finished is given back. Crosses no module's border but
    those of a transfer."""


class Heartbeat:
    """The leases of one bundle. Safe in threads; has a thread of its own once it was started."""

    def __init__(
        self,
        ledger: Ledger,
        run: RunKey,
        claims: Sequence[Claim],
        *,
        clock: Clock,
        settings: LedgerSettings,
    ) -> None:
        self._ledger = ledger
        self._run = run
        self._clock = clock
        self._interval_s = settings.heartbeat_s
        self._good_s = settings.lease_ttl_s * (1 - _MARGIN)
        self._held = {claim.path: claim.token for claim in claims}
        self._first_beat_s = clock.mono_s() + self._interval_s
        self._good_until_s = clock.mono_s() + self._good_s
        self.is_stopping = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def check(self, path: str) -> None:
        """Raise unless work on this file may go on.

        Raises: Stopping, Fenced when the lease is lost or must be treated as lost.
        """
        if self.is_stopping:
            raise Stopping
        token = self._held.get(path)
        if token is None or self._clock.mono_s() >= self._good_until_s:
            raise Fenced(file=f"{self._run}/{path}", token=token or 0)

    def let_go(self, path: str) -> None:
        """Leave a finished file out of the renewals."""
        self._held.pop(path, None)

    def beat(self) -> bool:
        """Renew all leases; return whether the ledger answered."""
        asked_s = self._clock.mono_s()
        held = list(self._held.items())
        try:
            kept = self._ledger.renew(self._run, held) if held else []
        except LedgerUnavailable as error:
            emit("lease.not_renewed", level=logging.WARNING, run=str(self._run), error=str(error))
            return False
        for (path, _), is_kept in zip(held, kept, strict=True):
            if not is_kept:
                self.let_go(path)
        self._good_until_s = asked_s + self._good_s
        return True

    def tend(self) -> None:
        """Start the thread if the bundle has lasted for one heartbeat."""
        if self._clock.mono_s() >= self._first_beat_s:
            self.start()

    def start(self) -> None:
        """Renew from now on, until closed, in a thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_thread, name="heartbeat", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ask all who check to stop; leases are renewed on until closed."""
        self.is_stopping = True

    def close(self) -> None:
        """Renew no more."""
        self._closed.set()

    def _run_thread(self) -> None:
        wait_s = self._interval_s
        while not self._closed.wait(wait_s):
            wait_s = self._interval_s if self.beat() else self._interval_s * _HURRY


class Lease:
    """The lease on one file, for whoever has to ask about it at every step."""

    def __init__(self, heartbeat: Heartbeat, ledger: Ledger, run: RunKey, claim: Claim) -> None:
        self._heartbeat = heartbeat
        self._ledger = ledger
        self._run = run
        self._claim = claim

    def check(self) -> None:
        """Raise unless work on the file may go on. Raises: Stopping, Fenced."""
        self._heartbeat.check(self._claim.path)

    def mark_stored(self) -> None:
        """Record that the object is there and not yet proven. Raises: Fenced, LedgerUnavailable."""
        step = Step(path=self._claim.path, token=self._claim.token)
        if self._ledger.move(self._run, Event.STORE, [step]) != [Outcome.DONE]:
            raise Fenced(file=f"{self._run}/{step.path}", token=step.token)

"""How does an attempt at a file begin and end, whoever makes it?

Whatever goes wrong with a file is its own affair; what is everybody's stands in the way of all that
come after it.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from labferry.editions import object_key
from labferry.errors import Fenced, LedgerUnavailable, StoreError
from labferry.failures import Failure, Kind
from labferry.identity import FileKey, Layout, RunKey
from labferry.ports import Clock, Ledger
from labferry.records import Claim, Evidence
from labferry.retry import Budget, is_last
from labferry.tallies import What
from workers.attempt import Attempt, Undone, failure_of
from workers.counters import Counters
from workers.heartbeat import Heartbeat, Lease, Stopping
from workers.permit import Permit

Send = Callable[[Attempt], Evidence]


class Attempts:
    """The attempts of one bundle; `done` are those whose outcome is not told yet. Safe in threads.

    `in_the_way` says why no file is to be begun; `is_over` that nothing is, by order or because the
    ledger is away.
    """

    def __init__(  # noqa: PLR0913  ports, and what they are about
        self,
        run: RunKey,
        *,
        ledger: Ledger,
        layout: Layout,
        clock: Clock,
        heartbeat: Heartbeat,
        budget: Budget,
        permit: Permit,
        counters: Counters,
    ) -> None:
        self.done: deque[Attempt] = deque()
        self.in_the_way = permit.failure
        self.is_over = threading.Event()
        self._run = run
        self._ledger = ledger
        self._layout = layout
        self._clock = clock
        self._heartbeat = heartbeat
        self._budget = budget
        self._permit = permit
        self._sent = partial(counters.add, run.instrument, What.SENT_BYTES)

    def hold_back(self, claims: Sequence[Claim]) -> None:
        """Let what is in the way be the outcome of files that were not begun."""
        self.done.extend(self._begin(claim, self.in_the_way) for claim in claims)

    def make(self, claim: Claim, send: Send) -> Attempt:
        """Work on one file from begin to end."""
        attempt = self.begin(claim)
        if attempt.failure is not None:
            return attempt
        return self.go_on(attempt, partial(self._send_named, send))

    def begin(self, claim: Claim) -> Attempt:
        """Begin with a file; where something is in the way, that is its outcome."""
        return self._begin(claim, self.in_the_way)

    def go_on(self, attempt: Attempt, act: Send) -> Attempt:
        """Do what is left to be done; fill in what comes of it."""
        try:
            attempt.evidence = act(attempt)
            self._permit.passed()
        except Exception as error:  # noqa: BLE001  one file's failure is not its neighbours'
            self.fail(attempt, error)
        attempt.ended_s = self._clock.mono_s()
        return attempt

    def name(self, attempt: Attempt) -> None:
        """Fill in the object key. Raises: BadName, LedgerUnavailable."""
        record = attempt.claim.record
        attempt.key = object_key(self._ledger, self._layout, attempt.file, record)

    def fail(self, attempt: Attempt, error: Exception) -> None:
        """Note why a file has no evidence, and tell everybody whom it concerns."""
        if isinstance(error, Stopping):
            return
        try:
            if isinstance(error, LedgerUnavailable):
                raise error
            if isinstance(error, Fenced):
                attempt.is_lost = True
            else:
                self._judge(attempt, error)
        except LedgerUnavailable:
            self._heartbeat.stop()
            self.is_over.set()

    def _send_named(self, send: Send, attempt: Attempt) -> Evidence:
        self.name(attempt)
        return send(attempt)

    def _begin(self, claim: Claim, failure: Failure | None) -> Attempt:
        now_s = self._clock.mono_s()
        return Attempt(
            claim,
            FileKey(self._run, claim.path),
            Lease(self._heartbeat, self._ledger, self._run, claim),
            started_s=now_s,
            ended_s=now_s,
            failure=failure,
            is_quiet=failure is not None,
            passed=self._permit.passed,
            sent=self._sent,
        )

    def _judge(self, attempt: Attempt, error: Exception) -> None:
        failure = failure_of(error, attempt.file)
        failure, is_noted = self._permit.judge(
            failure,
            of_store=isinstance(error, StoreError | Undone),
            is_last=is_last(attempt.claim.record.attempt + 1, failure.kind, self._budget),
        )
        attempt.failure, attempt.is_quiet = failure, not is_noted
        if failure.kind is Kind.ENVIRONMENT:
            self.in_the_way = failure

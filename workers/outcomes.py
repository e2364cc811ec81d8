"""How is the ledger told what came of a bundle's files? In batches, one call an event.

What was not told for sure is kept and told again: a move that landed before is simply done. A file
whose move does not land is another worker's by now, and is left alone.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from labferry.failures import Cause, Kind
from labferry.identity import RunKey
from labferry.ports import Clock, Ledger
from labferry.records import Claim, Outcome
from labferry.retry import Budget
from labferry.states import Event, State
from labferry.tallies import What
from labferry.telemetry import emit, is_told
from workers.attempt import (
    Attempt,
    FollowUp,
    Result,
    failed,
    given_back,
    left_to_others,
    verified,
)
from workers.counters import Counters
from workers.heartbeat import Heartbeat


class Outcomes:
    """What is known of a bundle's files and not yet told; `results` is what the ledger took."""

    def __init__(  # noqa: PLR0913  ports, and the claims they are about
        self,
        ledger: Ledger,
        run: RunKey,
        claims: Sequence[Claim],
        *,
        heartbeat: Heartbeat,
        budget: Budget,
        clock: Clock,
        worker: str,
        counters: Counters,
    ) -> None:
        self.results: list[Result] = []
        self._ledger = ledger
        self._run = run
        self._heartbeat = heartbeat
        self._budget = budget
        self._clock = clock
        self._worker = worker
        self._counters = counters
        self._open = {claim.path: claim for claim in claims}
        self._pending: defaultdict[Event, list[FollowUp]] = defaultdict(list)

    def add(self, attempts: Iterable[Attempt]) -> None:
        """Note what came of attempts. Raises: LedgerUnavailable."""
        now_ms = None
        for attempt in attempts:
            if attempt.evidence is not None:
                self._pending[Event.VERIFY].append(verified(attempt))
            elif attempt.failure is not None:
                now_ms = self._ledger.now_ms() if now_ms is None else now_ms
                self._add_failed(attempt, now_ms)
            elif attempt.is_lost:
                self._drop(attempt.claim.path)
                self._counters.add(self._run.instrument, What.LEASE_LOST)

    def flush(self) -> None:
        """Tell the ledger. Raises: LedgerUnavailable; what was not told stays."""
        for event, follow_ups in self._pending.items():
            if not follow_ups:
                continue
            steps = [follow_up.step for follow_up in follow_ups]
            outcomes = self._ledger.move(self._run, event, steps)
            self._count(follow_ups, outcomes)
            for follow_up, outcome in zip(follow_ups, outcomes, strict=True):
                self._told(follow_up, outcome)
            self._tell_quiet(event, follow_ups)
            self._pending[event] = []

    def give_back(self, code: str) -> None:
        """Give back what is not finished. Raises: LedgerUnavailable."""
        self._pending[Event.YIELD] = [
            given_back(claim, code, self._worker) for claim in self._open.values()
        ]
        self.flush()

    def _add_failed(self, attempt: Attempt, now_ms: int) -> None:
        failure = attempt.failure
        assert failure is not None  # noqa: S101  the caller has seen it
        if attempt.is_quiet and failure.cause is Cause.SHARE:
            self._pending[Event.YIELD].append(left_to_others(attempt, failure))
            return
        follow_up = failed(
            attempt,
            failure,
            now_ms=now_ms,
            budget=self._budget,
            uniform=self._clock.uniform(),
            worker=self._worker,
            unknowns=self._unknowns(attempt) if failure.kind is Kind.UNKNOWN else None,
        )
        self._pending[follow_up.event].append(follow_up)

    def _unknowns(self, attempt: Attempt) -> int:
        """Count the attempts of this series that failed in unknown ways, this one included."""
        record = attempt.claim.record
        notes = self._ledger.history(attempt.file) if record.attempt else []
        return 1 + sum(note.kind == Kind.UNKNOWN and note.series == record.series for note in notes)

    def _count(self, follow_ups: Sequence[FollowUp], outcomes: Sequence[Outcome]) -> None:
        """Count what the ledger took, and what it did not: that lease was lost."""
        name, add = self._run.instrument, self._counters.add
        told = zip(follow_ups, outcomes, strict=True)
        done = [follow_up.result for follow_up, outcome in told if outcome is Outcome.DONE]
        if lost := len(follow_ups) - len(done):
            add(name, What.LEASE_LOST, lost)
        codes = Counter((one.state, one.failure.code if one.failure else "") for one in done)
        for (state, code), count in codes.items():
            add(name, What.ATTEMPT, count, state=state, code=code)
        verified = [one for one in done if one.state is State.VERIFIED]
        if verified:
            add(name, What.VERIFIED_BYTES, sum(one.bytes for one in verified))
            records = (self._open[one.path].record for one in verified if one.path in self._open)
            self._counters.arrived(name, (record.settled_ms for record in records))

    def _told(self, follow_up: FollowUp, outcome: Outcome) -> None:
        result, claim = follow_up.result, self._drop(follow_up.result.path)
        if outcome is not Outcome.DONE:
            self._say("lease.lost", claim, follow_up, event_refused=str(follow_up.event))
            return
        self.results.append(result)
        if result.failure is not None and follow_up.step.note is not None:
            self._say(
                f"file.{result.state}",
                claim,
                follow_up,
                kind=str(result.failure.kind),
                code=result.failure.code,
                error=result.failure.message,
                delay_s=round(result.delay_s, 1),
            )
        elif is_told(logging.DEBUG):
            level = logging.DEBUG
            self._say(f"file.{result.state}", claim, follow_up, level=level, bytes=result.bytes)

    def _say(
        self,
        event: str,
        claim: Claim | None,
        follow_up: FollowUp,
        level: int = logging.WARNING,
        **fields: object,
    ) -> None:
        """Log what became of one attempt at one file."""
        emit(
            event,
            level=level,
            run=str(self._run),
            file=follow_up.result.path,
            token=follow_up.step.token,
            attempt=claim.record.attempt + 1 if claim else None,
            bundle=claim.bundle if claim else None,
            worker=self._worker,
            **fields,
        )

    def _tell_quiet(self, event: Event, follow_ups: Sequence[FollowUp]) -> None:
        """Log in one line what is held or given back without a line in its history."""
        quiet = [one.result for one in follow_ups if one.result.failure and not one.step.note]
        if quiet and quiet[0].failure:
            emit(
                "bundle.held_back",
                run=str(self._run),
                files=len(quiet),
                event_caused=str(event),
                code=quiet[0].failure.code,
                delay_s=round(quiet[0].delay_s, 1),
            )

    def _drop(self, path: str) -> Claim | None:
        self._heartbeat.let_go(path)
        return self._open.pop(path, None)

"""What came of one attempt at one file, and what follows from it?

An attempt that ends without evidence and without a failure is nobody's news: the lease was lost,
the ledger did not answer, or the worker shuts down.
"""

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from labferry import __version__
from labferry.errors import LabferryError, StoreError
from labferry.failures import DIGESTS, Failure, Kind, classify, classify_undone, unforeseen
from labferry.identity import FileKey
from labferry.records import Claim, Evidence, Note, Step
from labferry.retry import Budget, Decision, Verdict, decide
from labferry.states import MOVE_OF, Event, State
from labferry.telemetry import emit
from labferry.word import Word
from workers.heartbeat import Lease

_EVENT_OF = {
    Verdict.RETRY: Event.FAIL,
    Verdict.HOLD: Event.HOLD,
    Verdict.WAIT_SOURCE: Event.ABANDON,
    Verdict.QUARANTINE: Event.QUARANTINE,
}
_DELAYED = (Verdict.RETRY, Verdict.HOLD)


def _nobody_asks() -> None:
    pass


def _nobody_counts(_size: int) -> None:
    pass


class Undone(Exception):
    """A request whose outcome was open, once the server was asked and shows nothing of it."""

    def __init__(self, error: StoreError) -> None:
        self.error = error
        super().__init__(str(error))


class Damage:
    """What arrives damaged is sent once more, whatever else went wrong, before that is believed."""

    def __init__(self) -> None:
        self._was_seen = False

    def is_first(self, error: StoreError) -> bool:
        """Whether this is damage, and the first that was met."""
        is_first = error.code in DIGESTS and not self._was_seen
        self._was_seen = self._was_seen or is_first
        return is_first


@dataclass(slots=True)
class Attempt:
    """One claim while it is worked on; what comes of it is filled in."""

    claim: Claim
    file: FileKey
    lease: Lease
    started_s: float
    key: str = ""
    bytes_sent: int = 0
    upload_id: str = ""
    ended_s: float = 0.0
    evidence: Evidence | None = None
    failure: Failure | None = None
    is_lost: bool = False
    #: What is in the way is on record elsewhere: no line in the file's history.
    is_quiet: bool = False
    #: Tells that the endpoint took something.
    passed: Callable[[], None] = _nobody_asks
    #: Counts bytes that the endpoint took.
    sent: Callable[[int], None] = _nobody_counts

    @property
    def is_throttled(self) -> bool:
        """Whether the endpoint asked for less."""
        return self.failure is not None and self.failure.kind is Kind.THROTTLED


def failure_of(error: Exception, file: FileKey) -> Failure:
    """Return what kind of failure an attempt's error is; a defect is logged with its traceback."""
    if isinstance(error, Undone):
        return classify_undone(error.error)
    if isinstance(error, LabferryError):
        return classify(error)
    emit(
        "file.unforeseen",
        level=logging.ERROR,
        file=str(file),
        traceback="".join(traceback.format_exception(error)),
    )
    return unforeseen(error)


class Result(NamedTuple):
    """What became of one file: the state it reached, and why it is not `verified`.

    `bytes` is the file's size; `delay_s` the wait until it is due again, where it is parked, and
    `due_ms` when that is, by the ledger's clock.
    """

    path: str
    state: State
    failure: Failure | None = None
    bytes: int = 0
    delay_s: float = 0.0
    due_ms: int = 0


class FollowUp(NamedTuple):
    """The event that an attempt causes, its step in the ledger, and the result if that lands."""

    event: Event
    step: Step
    result: Result


def verified(attempt: Attempt) -> FollowUp:
    """Return what follows from evidence."""
    claim = attempt.claim
    return FollowUp(
        Event.VERIFY,
        Step(path=claim.path, token=claim.token, evidence=attempt.evidence),
        Result(claim.path, State.VERIFIED, None, claim.record.fingerprint.size),
    )


def failed(  # noqa: PLR0913  facts
    attempt: Attempt,
    failure: Failure,
    *,
    now_ms: int,
    budget: Budget,
    uniform: float,
    worker: str,
    unknowns: int | None = None,
) -> FollowUp:
    """Return what follows from a failure; `now_ms` is the ledger's clock, `unknowns` as `decide`
    has it."""
    claim, record = attempt.claim, attempt.claim.record
    spent = record.rounds if failure.kind is Kind.SOURCE else record.attempt
    age_s = (now_ms - record.claimed_ms) / 1000 if record.claimed_ms else 0.0
    decision = decide(
        failure,
        attempt=spent + 1,
        age_s=age_s,
        budget=budget,
        uniform=uniform,
        unknowns=unknowns,
    )
    event = _EVENT_OF[decision.verdict]
    delay_ms = int(decision.delay_s * 1000) if decision.verdict in _DELAYED else None
    step = Step(
        path=claim.path,
        token=claim.token,
        delay_ms=delay_ms,
        note=None if attempt.is_quiet else _note(event, attempt, failure, decision, worker),
    )
    result = Result(
        claim.path,
        MOVE_OF[event].target,
        failure,
        bytes=record.fingerprint.size,
        delay_s=decision.delay_s,
        due_ms=0 if delay_ms is None else now_ms + delay_ms,
    )
    return FollowUp(event, step, result)


def given_back(claim: Claim, code: str, worker: str) -> FollowUp:
    """Return what follows for a file that the worker does not finish, through no fault of it."""
    note = Note(
        event=Event.YIELD,
        kind="given_back",
        code=code,
        message="the worker stopped before the file was done.",
        worker=worker,
        token=claim.token,
        attempt=claim.record.attempt,
        series=claim.record.series,
        version=__version__,
        bundle=claim.bundle,
    )
    step = Step(path=claim.path, token=claim.token, note=note)
    size = claim.record.fingerprint.size
    return FollowUp(Event.YIELD, step, Result(claim.path, State.ELIGIBLE, None, size))


def left_to_others(attempt: Attempt, failure: Failure) -> FollowUp:
    """Return what follows for a file that was not begun and that another host can do at once."""
    claim = attempt.claim
    size = claim.record.fingerprint.size
    result = Result(claim.path, State.ELIGIBLE, failure, size)
    return FollowUp(Event.YIELD, Step(path=claim.path, token=claim.token), result)


def not_claimed(path: str, hold: Word) -> Result:
    """Return what became of a file whose run an operator holds: nothing."""
    failure = Failure(
        kind=Kind.ENVIRONMENT,
        code="held_by_operator",
        message=f"{hold.actor}: {hold.reason}. It comes again once it is released.",
    )
    return Result(path, State.ELIGIBLE, failure)


def _note(
    event: Event, attempt: Attempt, failure: Failure, decision: Decision, worker: str
) -> Note:
    record = attempt.claim.record
    return Note(
        event=event,
        kind=failure.kind,
        code=failure.code,
        message=failure.message,
        decision=decision.reason,
        worker=worker,
        token=attempt.claim.token,
        attempt=record.attempt + 1,
        series=record.series,
        bytes_sent=attempt.bytes_sent,
        upload_id=attempt.upload_id,
        duration_ms=int((attempt.ended_s - attempt.started_s) * 1000),
        version=__version__,
        bundle=attempt.claim.bundle,
    )

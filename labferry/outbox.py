"""How far are the events of a run with one sink, and what follows when it does not take one?

Every sink has a place of its own in each run's outbox, and gives one event after the other: what
comes later waits for what came before. Pure; waits are those of labferry.retry.
"""

from dataclasses import dataclass, replace

from labferry.errors import NotDelivered
from labferry.failures import Failure, Kind
from labferry.identity import RunKey
from labferry.retry import Budget, Verdict, decide

#: Nobody can say whether the sink took it.
UNKNOWN = "unknown"
#: The receiver says that it will never take this.
_REFUSED = frozenset({400, 410, 413, 415, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One sink's place in one run's outbox.

    `position` counts events that were given, or given up; the rest is about the event there:
    `tries` of it failed, of `unknown` nobody knows whether they did; `begun_ms` is set while it is
    being given; `parked` once a person is to decide.
    """

    position: int = 0
    tries: int = 0
    unknown: int = 0
    first_ms: int = 0
    due_ms: int = 0
    begun_ms: int = 0
    parked: bool = False
    code: str = ""
    why: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What of a run's outbox one sink was not given yet; `event` is the next, '' for none."""

    run: RunKey
    sink: str
    delivery: Delivery
    count: int
    event: str = ""


def begun(delivery: Delivery, now_ms: int) -> Delivery:
    """Return the delivery as it goes on record before anything is sent."""
    return replace(delivery, begun_ms=now_ms, first_ms=delivery.first_ms or now_ms)


def moved_on(delivery: Delivery) -> Delivery:
    """Return the delivery once its event was given, or given up."""
    return Delivery(position=delivery.position + 1, revision=delivery.revision)


def again(delivery: Delivery) -> Delivery:
    """Return a parked delivery that is to be tried as if for the first time."""
    return Delivery(position=delivery.position, revision=delivery.revision)


def interrupted(sink: str) -> NotDelivered:
    """Return what a courier that died while it gave an event left behind."""
    return NotDelivered(sink=sink, why="whoever sent it was stopped meanwhile", answered=False)


def after_failure(
    delivery: Delivery,
    error: NotDelivered,
    *,
    now_ms: int,
    budget: Budget,
    uniform: float,
    parks_unknown: bool,
) -> Delivery:
    """Return the delivery after a sink did not take the event, or did not say so."""
    failure = _failure(error)
    unanswered = failure.kind is Kind.AMBIGUOUS
    decision = decide(
        failure,
        attempt=delivery.tries + 1,
        age_s=(now_ms - delivery.first_ms) / 1000,
        budget=budget,
        uniform=uniform,
    )
    return replace(
        delivery,
        tries=delivery.tries + 1,
        unknown=delivery.unknown + unanswered,
        begun_ms=0,
        due_ms=now_ms + int(decision.delay_s * 1000),
        parked=decision.verdict is Verdict.QUARANTINE or (unanswered and parks_unknown),
        code=failure.code,
        why=error.why,
    )


def _failure(error: NotDelivered) -> Failure:
    if not error.answered:
        return Failure(kind=Kind.AMBIGUOUS, code=UNKNOWN, retry_after_s=error.retry_after_s)
    kind = Kind.PERMANENT if error.status in _REFUSED else Kind.TRANSIENT
    code = str(error.status) if error.status else "failed"
    return Failure(kind=kind, code=code, retry_after_s=error.retry_after_s)

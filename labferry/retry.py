"""What follows from a failure: another attempt, a hold, a look at the source, or quarantine?

Facts in, decision out. Waits grow exponentially with full jitter, so that what failed together
does not come back together (AWS architecture blog, "Exponential backoff and jitter").
"""

from dataclasses import dataclass
from enum import StrEnum

from labferry.failures import Failure, Kind

#: What nobody understands is tried this often, then shown to a person.
UNKNOWN_ATTEMPTS = 3


class Verdict(StrEnum):
    """What follows; each has its event in labferry/states.py."""

    RETRY = "retry"  # counts as an attempt; again after the delay
    HOLD = "hold"  # costs nothing; again after the delay
    WAIT_SOURCE = "wait_source"  # costs a round; again once the source is at rest
    QUARANTINE = "quarantine"  # a person decides


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a file may cost; the fields are those of [retry]."""

    attempts: int
    elapsed_s: float
    base_s: float
    cap_s: float
    floor_s: float
    worker_losses: int
    source_rounds: int
    hold_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict, the wait before anything happens, and the reason in words."""

    verdict: Verdict
    delay_s: float = 0.0
    reason: str = ""


def decide(
    failure: Failure,
    *,
    attempt: int,
    age_s: float,
    budget: Budget,
    uniform: float,
    unknowns: int | None = None,
) -> Decision:
    """Return what follows from a failure.

    `attempt` counts, this one included, what the failure's kind is limited by: failed attempts,
    lost workers for `worker_lost`, rounds for `source`; `unknowns` counts those of the attempts
    that failed in unknown ways, all of them where it is None. `age_s` runs from the first attempt;
    `uniform` is a random number in [0, 1).
    """
    if failure.kind is Kind.PERMANENT:
        return _quarantine("repeating cannot help")
    if failure.kind in (Kind.ENVIRONMENT, Kind.THROTTLED):
        return _hold(failure, budget, uniform)
    if failure.kind is Kind.SOURCE:
        return _wait_source(attempt, budget)
    limit = _limit(failure.kind, budget)
    if spent := _spent(failure.kind, attempt, unknowns, limit):
        return _quarantine(spent)
    delay_s = _backoff_s(failure, attempt, budget, uniform)
    if age_s + delay_s > budget.elapsed_s:
        return _quarantine(f"a wait of {delay_s:.1f} s ends after the {budget.elapsed_s:g} s given")
    reason = f"attempt {attempt} of {limit} failed"
    return Decision(verdict=Verdict.RETRY, delay_s=delay_s, reason=reason)


def _limit(kind: Kind, budget: Budget) -> int:
    return budget.worker_losses if kind is Kind.WORKER_LOST else budget.attempts


def _spent(kind: Kind, attempt: int, unknowns: int | None, limit: int) -> str:
    """Return why no attempt is left, or ''."""
    unknown = attempt if unknowns is None else unknowns
    if kind is Kind.UNKNOWN and unknown >= UNKNOWN_ATTEMPTS:
        return f"{unknown} attempts failed in ways that nobody knows"
    return f"{attempt} of {limit} attempts failed" if attempt >= limit else ""


def is_last(attempt: int, kind: Kind, budget: Budget) -> bool:
    """Whether a failure of this kind may be the last that so many attempts allow."""
    limit = _limit(kind, budget)
    return attempt >= (min(limit, UNKNOWN_ATTEMPTS) if kind is Kind.UNKNOWN else limit)


def _wait_source(rounds: int, budget: Budget) -> Decision:
    if rounds > budget.source_rounds:
        return _quarantine(f"the source changed under {rounds} uploads")
    return Decision(verdict=Verdict.WAIT_SOURCE, reason="the source is not at rest")


def _backoff_s(failure: Failure, attempt: int, budget: Budget, uniform: float) -> float:
    # 2.0**1024 overflows; the cap is reached long before.
    ceiling_s = min(budget.cap_s, budget.base_s * 2.0 ** min(attempt - 1, 64))
    jittered_s = budget.floor_s + uniform * (ceiling_s - budget.floor_s)
    return max(jittered_s, failure.retry_after_s or 0.0)


def _hold(failure: Failure, budget: Budget, uniform: float) -> Decision:
    delay_s = budget.hold_s * (0.5 + uniform / 2)
    if failure.retry_after_s is not None:
        # A breaker knows when the next probe is; an endpoint that asks for less names a least wait.
        known = failure.kind is Kind.ENVIRONMENT
        delay_s = failure.retry_after_s if known else max(delay_s, failure.retry_after_s)
    return Decision(verdict=Verdict.HOLD, delay_s=delay_s, reason="the environment is in the way")


def _quarantine(reason: str) -> Decision:
    return Decision(verdict=Verdict.QUARANTINE, reason=reason)

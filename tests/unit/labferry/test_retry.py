"""What follows from each failure? A table, and what holds for every input."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.failures import Failure, Kind
from labferry.retry import Budget, Decision, Verdict, decide

BUDGET = Budget(
    attempts=8,
    elapsed_s=86_400,
    base_s=2,
    cap_s=600,
    floor_s=0.5,
    worker_losses=3,
    source_rounds=20,
    hold_s=30,
)
FREE = (Kind.ENVIRONMENT, Kind.THROTTLED, Kind.SOURCE)


def decided(kind: Kind, attempt: int = 1, **other: float) -> Decision:
    facts: dict[str, Any] = {"age_s": 0.0, "uniform": 0.5, **other}
    retry_after_s = facts.pop("retry_after_s", None)
    failure = Failure(kind=kind, code="c", retry_after_s=retry_after_s)
    return decide(failure, attempt=attempt, budget=BUDGET, **facts)


@pytest.mark.parametrize(
    ("kind", "attempt", "verdict"),
    [
        (Kind.TRANSIENT, 1, Verdict.RETRY),
        (Kind.TRANSIENT, 7, Verdict.RETRY),
        (Kind.TRANSIENT, 8, Verdict.QUARANTINE),
        (Kind.AMBIGUOUS, 7, Verdict.RETRY),
        (Kind.AMBIGUOUS, 8, Verdict.QUARANTINE),
        (Kind.UNKNOWN, 2, Verdict.RETRY),
        (Kind.UNKNOWN, 3, Verdict.QUARANTINE),
        (Kind.WORKER_LOST, 2, Verdict.RETRY),
        (Kind.WORKER_LOST, 3, Verdict.QUARANTINE),
        (Kind.SOURCE, 20, Verdict.WAIT_SOURCE),
        (Kind.SOURCE, 21, Verdict.QUARANTINE),
        (Kind.PERMANENT, 1, Verdict.QUARANTINE),
        (Kind.ENVIRONMENT, 200, Verdict.HOLD),
        (Kind.THROTTLED, 200, Verdict.HOLD),
    ],
)
def test_a_failure_has_its_verdict(kind: Kind, attempt: int, verdict: Verdict) -> None:
    assert decided(kind, attempt).verdict is verdict


@pytest.mark.parametrize(("attempt", "wait_s"), [(1, 2), (2, 4), (3, 8), (7, 128)])
def test_the_ceiling_of_the_wait_doubles(attempt: int, wait_s: float) -> None:
    assert decided(Kind.TRANSIENT, attempt, uniform=1.0).delay_s == wait_s
    assert decided(Kind.TRANSIENT, attempt, uniform=0.0).delay_s == BUDGET.floor_s


def test_an_unknown_failure_never_gets_more_attempts_than_a_known_one() -> None:
    tight = replace(BUDGET, attempts=2)
    failure = Failure(kind=Kind.UNKNOWN, code="c")
    decision = decide(failure, attempt=2, age_s=0, budget=tight, uniform=0)
    assert decision.verdict is Verdict.QUARANTINE


@pytest.mark.parametrize(
    ("attempt", "unknowns", "verdict"),
    [(7, 1, Verdict.RETRY), (8, 1, Verdict.QUARANTINE), (3, 3, Verdict.QUARANTINE)],
)
def test_attempts_that_failed_in_known_ways_are_not_counted_as_unknown(
    attempt: int, unknowns: int, verdict: Verdict
) -> None:
    failure = Failure(kind=Kind.UNKNOWN, code="c")
    decision = decide(
        failure, attempt=attempt, age_s=0, budget=BUDGET, uniform=0, unknowns=unknowns
    )
    assert decision.verdict is verdict


def test_a_wait_that_does_not_fit_is_not_started() -> None:
    assert decided(Kind.TRANSIENT, age_s=86_399, uniform=1.0).verdict is Verdict.QUARANTINE
    assert decided(Kind.TRANSIENT, age_s=86_398, uniform=1.0).verdict is Verdict.RETRY


def test_a_retry_after_beyond_the_budget_is_not_waited_for() -> None:
    assert decided(Kind.TRANSIENT, retry_after_s=90_000).verdict is Verdict.QUARANTINE


failures_ = st.builds(
    Failure,
    kind=st.sampled_from(Kind),
    code=st.just("c"),
    retry_after_s=st.none() | st.floats(0, 1e6),
)
budgets = st.builds(
    lambda floor, base, cap, **rest: Budget(
        floor_s=floor, base_s=floor + base, cap_s=floor + base + cap, **rest
    ),
    floor=st.floats(0, 10),
    base=st.floats(0.1, 100),
    cap=st.floats(0, 1e4),
    attempts=st.integers(1, 200),
    elapsed_s=st.floats(0.1, 1e6),
    worker_losses=st.integers(1, 200),
    source_rounds=st.integers(1, 200),
    hold_s=st.floats(0.1, 1e4),
)
attempts = st.integers(1, 10_000)
ages = st.floats(0, 1e7)
dice = st.floats(0, 1, exclude_max=True)


@given(failures_, attempts, ages, budgets, dice)
def test_a_wait_stays_between_its_bounds(
    failure: Failure, attempt: int, age_s: float, budget: Budget, uniform: float
) -> None:
    decision = decide(failure, attempt=attempt, age_s=age_s, budget=budget, uniform=uniform)
    asked_s = failure.retry_after_s or 0.0
    if decision.verdict is Verdict.RETRY:
        assert budget.floor_s <= decision.delay_s <= max(budget.cap_s, asked_s) * (1 + 1e-9)
        assert age_s + decision.delay_s <= budget.elapsed_s
    if decision.verdict in (Verdict.RETRY, Verdict.HOLD):
        assert decision.delay_s >= asked_s
    else:
        assert decision.delay_s == 0


@given(failures_, attempts, ages, budgets, dice)
def test_budget_is_spent_by_the_right_kinds_alone(
    failure: Failure, attempt: int, age_s: float, budget: Budget, uniform: float
) -> None:
    verdict = decide(failure, attempt=attempt, age_s=age_s, budget=budget, uniform=uniform).verdict
    assert (verdict is Verdict.HOLD) == (failure.kind in (Kind.ENVIRONMENT, Kind.THROTTLED))
    if failure.kind is Kind.PERMANENT:
        assert verdict is Verdict.QUARANTINE
    if verdict is Verdict.RETRY:
        assert failure.kind not in FREE
    if verdict is Verdict.WAIT_SOURCE:
        assert failure.kind is Kind.SOURCE
    limits = {Kind.WORKER_LOST: budget.worker_losses, Kind.SOURCE: budget.source_rounds}
    if verdict is Verdict.RETRY:
        assert attempt < limits.get(failure.kind, budget.attempts)

"""How long may many requests take together, and which of them is worth another try?

One deadline for all of them: a wait that does not fit before it is not begun.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from labferry.errors import LabferryError, StoreError
from labferry.failures import Kind, classify
from labferry.ports import Clock
from labferry.retry import Budget, Verdict, decide

_T = TypeVar("_T")

#: Of these another try can help; what the endpoint lacks, or refuses, it does not.
_WORTH_A_TRY = frozenset({Kind.TRANSIENT, Kind.THROTTLED, Kind.AMBIGUOUS, Kind.UNKNOWN})
#: Without a deadline beside them: the waits of somebody who stands there.
_WAITS = Budget(
    attempts=8,
    elapsed_s=float("inf"),
    base_s=0.5,
    cap_s=20,
    floor_s=0.1,
    worker_losses=1,
    source_rounds=1,
    hold_s=1,
)


class OverBudget(LabferryError):
    """The time given is up, or the next wait would not fit."""


class Patience:
    """A deadline that requests share."""

    def __init__(self, clock: Clock, budget_s: float) -> None:
        self._clock = clock
        self._budget_s = budget_s
        self._until_s = clock.mono_s() + budget_s

    def check(self) -> None:
        """Raises: OverBudget once the time is up."""
        if self._clock.mono_s() > self._until_s:
            raise OverBudget(f"the {self._budget_s:g} s given were over")

    def in_time(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield items while there is time. Raises: OverBudget."""
        for item in items:
            self.check()
            yield item

    def persist(self, call: Callable[[], _T]) -> _T:
        """Return what a call returns, made again where that can help and fits.

        Raises: OverBudget, StoreError.
        """
        attempt = 0
        while True:
            attempt += 1
            self.check()
            try:
                return call()
            except StoreError as error:
                self._wait(error, attempt)

    def _wait(self, error: StoreError, attempt: int) -> None:
        failure = classify(error)
        if failure.kind not in _WORTH_A_TRY:
            raise error
        uniform = self._clock.uniform()
        decision = decide(failure, attempt=attempt, age_s=0, budget=_WAITS, uniform=uniform)
        if decision.verdict is Verdict.QUARANTINE or attempt >= _WAITS.attempts:
            raise error
        if self._clock.mono_s() + decision.delay_s > self._until_s:
            raise OverBudget(
                f"the next try would be in {decision.delay_s:.0f} s, after the "
                f"{self._budget_s:g} s given; before it: {error}"
            ) from error
        self._clock.sleep_s(decision.delay_s)

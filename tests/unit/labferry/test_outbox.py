"""Is a delivery put off, repeated and parked as the one retry policy says?"""

import pytest

from labferry.errors import NotDelivered
from labferry.outbox import Delivery, after_failure, again, begun, interrupted, moved_on
from labferry.retry import Budget

BUDGET = Budget(
    attempts=3,
    elapsed_s=100,
    base_s=2,
    cap_s=60,
    floor_s=1,
    worker_losses=1,
    source_rounds=1,
    hold_s=1,
)


def failed(
    delivery: Delivery, error: NotDelivered, now_ms: int = 1_000, *, parks: bool = False
) -> Delivery:
    return after_failure(
        begun(delivery, now_ms),
        error,
        now_ms=now_ms,
        budget=BUDGET,
        uniform=0.5,
        parks_unknown=parks,
    )


def refusal(status: int | None = None, **facts: float) -> NotDelivered:
    return NotDelivered(sink="hook", why="no", status=status, **facts)  # type: ignore[arg-type]


def test_an_event_that_was_not_taken_is_due_again_and_says_why() -> None:
    after = failed(Delivery(position=4), refusal(500))
    assert (after.position, after.tries, after.due_ms) == (4, 1, 2_500)
    assert (after.code, after.why, after.parked, after.begun_ms) == ("500", "no", False, 0)


def test_the_wait_is_no_shorter_than_the_receiver_asks_for() -> None:
    assert failed(Delivery(), refusal(429, retry_after_s=30)).due_ms == 31_000


def test_what_exhausts_its_attempts_is_parked() -> None:
    delivery = Delivery()
    for _ in range(BUDGET.attempts):
        assert not delivery.parked
        delivery = failed(delivery, refusal())
    assert delivery.parked


def test_what_is_too_old_is_parked() -> None:
    early = failed(Delivery(), refusal(), 1_000)
    assert failed(early, refusal(), 102_000).parked


@pytest.mark.parametrize("status", [400, 410, 413, 415, 422])
def test_what_the_receiver_refuses_for_good_is_parked_at_once(status: int) -> None:
    assert failed(Delivery(), refusal(status)).parked


@pytest.mark.parametrize("status", [401, 403, 404, 409, 500, 503])
def test_what_a_person_can_mend_at_the_receiver_is_tried_again(status: int) -> None:
    assert not failed(Delivery(), refusal(status)).parked


def test_an_unknown_outcome_is_counted_and_repeated_or_parked_by_setting() -> None:
    error = interrupted("hook")
    after = failed(Delivery(), error)
    assert (after.unknown, after.code, after.parked) == (1, "unknown", False)
    assert failed(Delivery(), error, parks=True).parked
    assert not failed(Delivery(), refusal(500), parks=True).parked


def test_the_next_event_begins_anew() -> None:
    stuck = failed(Delivery(position=2, revision=7), refusal(400))
    assert moved_on(stuck) == Delivery(position=3, revision=7)
    assert again(stuck) == Delivery(position=2, revision=7)

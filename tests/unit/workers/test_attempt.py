"""What follows from an attempt, as the ledger is told?"""

from dataclasses import replace
from typing import Any

import pytest

from labferry import __version__
from labferry.failures import Failure, Kind
from labferry.identity import RunKey
from labferry.records import Evidence, Level
from labferry.retry import Budget
from labferry.settings_trouble import RetrySettings
from labferry.states import Event, State
from tests.unit.workers.test_heartbeat import claim
from workers.attempt import Attempt, FollowUp, failed, given_back, verified

BUDGET = Budget(**RetrySettings().model_dump())
UNUSED: Any = None


def attempt_at(**record: Any) -> Attempt:
    one = claim("d/a", token=9)
    one = replace(one, bundle=7, record=replace(one.record, claimed_ms=1000, **record))
    file = RunKey("scope", "r1").file("d/a")
    return Attempt(one, file, UNUSED, started_s=10.0, ended_s=12.5, bytes_sent=4, upload_id="u")


def follow_up(kind: Kind, *, now_ms: int = 2000, **record: int) -> FollowUp:
    failure = Failure(kind=kind, code="Code", message="It failed.")
    return failed(
        attempt_at(**record), failure, now_ms=now_ms, budget=BUDGET, uniform=0.5, worker="host:1"
    )


@pytest.mark.parametrize(
    ("kind", "record", "event", "state"),
    [
        (Kind.TRANSIENT, {}, Event.FAIL, State.FAILED),
        (Kind.TRANSIENT, {"attempt": 7}, Event.QUARANTINE, State.QUARANTINED),
        (Kind.UNKNOWN, {"attempt": 2}, Event.QUARANTINE, State.QUARANTINED),
        (Kind.ENVIRONMENT, {"attempt": 7}, Event.HOLD, State.HELD),
        (Kind.THROTTLED, {}, Event.HOLD, State.HELD),
        (Kind.SOURCE, {"attempt": 7, "rounds": 19}, Event.ABANDON, State.DISCOVERED),
        (Kind.SOURCE, {"rounds": 20}, Event.QUARANTINE, State.QUARANTINED),
        (Kind.PERMANENT, {}, Event.QUARANTINE, State.QUARANTINED),
    ],
)
def test_a_failure_causes_its_event(
    kind: Kind, record: dict[str, int], event: Event, state: State
) -> None:
    following = follow_up(kind, **record)
    assert (following.event, following.result.state) == (event, state)
    assert (following.step.delay_ms is not None) == (event in (Event.FAIL, Event.HOLD))


def test_age_counts_from_the_first_claim_on_the_ledgers_clock() -> None:
    end_ms = 1000 + int(BUDGET.elapsed_s * 1000)
    assert follow_up(Kind.TRANSIENT, now_ms=end_ms - 5000).event is Event.FAIL
    assert follow_up(Kind.TRANSIENT, now_ms=end_ms).event is Event.QUARANTINE


def test_a_failure_is_noted_with_all_its_facts() -> None:
    note = follow_up(Kind.TRANSIENT, attempt=2, series=1).step.note
    assert note is not None
    assert (note.event, note.kind, note.code) == (Event.FAIL, "transient", "Code")
    assert (note.message, note.decision) == ("It failed.", "attempt 3 of 8 failed")
    assert (note.version, note.bundle) == (__version__, 7)
    assert (note.worker, note.token, note.attempt, note.series) == ("host:1", 9, 3, 1)
    assert (note.bytes_sent, note.upload_id, note.duration_ms) == (4, "u", 2500)


def test_the_wait_of_the_step_is_that_of_the_result() -> None:
    following = follow_up(Kind.TRANSIENT)
    assert following.step.delay_ms == int(following.result.delay_s * 1000) == 1250


def test_evidence_verifies() -> None:
    attempt = attempt_at()
    attempt.evidence = Evidence(level=Level.A, crc64=1, etag="e")
    following = verified(attempt)
    assert (following.event, following.step.evidence) == (Event.VERIFY, attempt.evidence)
    assert (following.step.token, following.result.state) == (9, State.VERIFIED)


def test_what_is_given_back_counts_no_attempt() -> None:
    following = given_back(claim("a", token=9), "shutdown", "host:1")
    assert (following.event, following.result.state) == (Event.YIELD, State.ELIGIBLE)
    assert following.step.note is not None
    assert following.step.note.code == "shutdown"

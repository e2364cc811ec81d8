"""Is this run done, and what is its next step? Pure: counts in, decision out."""

from enum import StrEnum

from labferry.records import RunFacts
from labferry.states import State


class RunState(StrEnum):
    """Where a run is; computed from its files, its seal and its marker."""

    OPEN = "open"  # arriving, or not settled yet
    STALE = "stale"  # open, and unchanged for so long that it will not end by itself
    SEALED = "sealed"  # the done rule held: the manifest is frozen, the files are on their way
    INCOMPLETE = "incomplete"  # sealed, but something in it is quarantined, held or discarded
    COMPLETE = "complete"  # the marker is written
    CLOSED = "closed"  # a person ended it: its marker says what is missing


#: States of a run that is over: its newest generation has a marker.
OVER = frozenset({RunState.COMPLETE, RunState.CLOSED})


class NextStep(StrEnum):
    """What a run needs of a worker or a sweep now."""

    WAIT = "wait"
    RELEASE_LAST = "release last"  # all others are verified: the instrument's markers go up
    COMPLETE = "complete"  # all are verified: compare with the bucket, manifest, marker
    RETIRE = "retire"  # complete and nothing moves: the sweep need not look again


#: States that keep a sealed run from completing until an operator acts or the environment heals.
_STUCK = (State.QUARANTINED, State.HELD)  # and what is discarded, unless a person closed the run
#: States of a file that is on its way.
_MOVING = (State.ELIGIBLE, State.UPLOADING, State.UPLOADED, State.FAILED, State.HELD)


def run_state(facts: RunFacts) -> RunState:
    """Return where the run's newest generation is."""
    if facts.is_over:
        return RunState.CLOSED if is_lacking(facts) else RunState.COMPLETE
    if is_open(facts):
        rests_s = (facts.now_ms - facts.changed_ms) / 1000
        return RunState.STALE if facts.stale_s and rests_s > facts.stale_s else RunState.OPEN
    if any(facts.counts[state] for state in _STUCK) or (_given_up(facts) and not facts.closed):
        return RunState.INCOMPLETE
    return RunState.SEALED


def is_open(facts: RunFacts) -> bool:
    """Whether more of the run may come before its list of files is frozen."""
    return not facts.is_over and not facts.sealed_ms


def is_lacking(facts: RunFacts) -> bool:
    """Whether a person ended the run before it was whole."""
    return facts.closed is not None and (facts.unfinished or _given_up(facts) > 0)


def _given_up(facts: RunFacts) -> int:
    return facts.counts[State.DISCARDED]


def may_put_away(facts: RunFacts) -> bool:
    """Whether a run is over and nothing of it waits for anybody: its records may leave the ledger.

    What was given up may be sent in again: its records are taken back for that.
    """
    at_rest = facts.counts[State.VERIFIED] + facts.counts[State.SKIPPED] + _given_up(facts)
    is_here = facts.is_over and facts.archive is None
    return is_here and at_rest == sum(facts.counts.values()) and not facts.sent + facts.reasons_due


def next_step(facts: RunFacts) -> NextStep:
    """Return what the run needs now."""
    moving = any(facts.counts[state] for state in _MOVING) or facts.sent
    if facts.hold is not None:
        return NextStep.WAIT
    if facts.is_over:
        busy = moving or facts.counts[State.DISCOVERED] or facts.reasons_due
        return NextStep.WAIT if busy else NextStep.RETIRE
    if run_state(facts) is not RunState.SEALED or any(facts.counts[state] for state in _MOVING):
        return NextStep.WAIT
    return NextStep.RELEASE_LAST if facts.counts[State.DISCOVERED] else NextStep.COMPLETE

"""Which states can a file be in, and who may move it from where to where?

This table is the only place that knows. The Lua scripts of the ledger are given the allowed
sources and the target of an event as arguments; docs/states.md shows the table as a diagram.
One event has one actor and one target. A fencing token is demanded exactly when the actor is
the holder of the lease.
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a file is; each state names the one thing that will move it next."""

    DISCOVERED = "discovered"  # seen; the next scan settles or changes it
    ELIGIBLE = "eligible"  # settled; waits for a message, the sweep publishes it
    UPLOADING = "uploading"  # claimed; the lease holder moves it, else the lease expires
    UPLOADED = "uploaded"  # stored, not yet proven; as for uploading
    VERIFIED = "verified"  # proven at the destination; at rest
    FAILED = "failed"  # parked until its due time, then the sweep retries it
    HELD = "held"  # waits for the environment until its due time, no budget spent
    QUARANTINED = "quarantined"  # a dead letter: an operator decides
    DISCARDED = "discarded"  # an operator gave it up, on record; at rest
    SKIPPED = "skipped"  # not ours to move (rule, vanished, not regular); at rest

    @property
    def wire(self) -> str:
        """The one letter that stands for this state in a ledger record."""
        return _WIRE[self]


_WIRE = {
    State.DISCOVERED: "d",
    State.ELIGIBLE: "e",
    State.UPLOADING: "u",
    State.UPLOADED: "p",
    State.VERIFIED: "v",
    State.FAILED: "f",
    State.HELD: "h",
    State.QUARANTINED: "q",
    State.DISCARDED: "x",
    State.SKIPPED: "s",
}
STATE_OF_WIRE = {letter: state for state, letter in _WIRE.items()}

#: A lease exists exactly in these states.
LEASED = frozenset({State.UPLOADING, State.UPLOADED})
#: Nothing but a change of the source or a person moves a file on from these.
AT_REST = frozenset({State.VERIFIED, State.QUARANTINED, State.DISCARDED, State.SKIPPED})


class Actor(StrEnum):
    """Who causes an event."""

    PRODUCER = "producer"  # the agent beside the instrument
    WORKER = "worker"  # a worker that does not hold the lease yet
    HOLDER = "holder"  # the worker that holds the lease; proves it by its token
    SWEEPER = "sweeper"  # the periodic sweep
    OPERATOR = "operator"  # a person, through the command
    REBUILD = "rebuild"  # `labferry reconcile --rebuild`, once the ledger was lost


class Event(StrEnum):
    """What happens to a file."""

    DISCOVER = "discover"  # a scan saw it for the first time
    CHANGE = "change"  # a scan saw other facts than before
    SETTLE = "settle"  # unchanged for the settle window
    SKIP = "skip"  # excluded, vanished or not a regular file
    REFUSE = "refuse"  # a file whose name no object key can hold
    REAPPEAR = "reappear"  # a skipped file is there after all
    CONFLICT = "conflict"  # the source changed after it was verified
    SUPERSEDE = "supersede"  # it did, and by the profile that is a new edition
    RECHECK = "recheck"  # a list of checksums came after it was verified
    LOSE = "lose"  # its object is not in the bucket any more, or is another one
    CLAIM = "claim"  # a worker takes the lease and a new token
    STORE = "store"  # the object is there, not yet proven
    VERIFY = "verify"  # proven, with evidence
    FAIL = "fail"  # an attempt failed and may be repeated
    HOLD = "hold"  # the environment is in the way
    ABANDON = "abandon"  # the source changed under the upload
    YIELD = "yield"  # the worker shuts down and gives the file back
    QUARANTINE = "quarantine"  # no further attempt makes sense
    EXPIRE = "expire"  # the lease ran out: the worker was lost
    RETRY = "retry"  # the due time of a failed or held file came
    EXHAUST = "exhaust"  # the budget ended without an attempt of ours running
    REPLAY = "replay"  # an operator sends it in again
    REVISE = "revise"  # an operator sends it in again; its source changed, so it settles first
    DISCARD = "discard"  # an operator gives it up
    CLOSE = "close"  # an operator ends its run without it
    RECALL = "recall"  # the bucket tells that it was a dead letter, or it lost its object


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One row of the table."""

    event: Event
    actor: Actor
    sources: frozenset[State]
    target: State

    @property
    def needs_token(self) -> bool:
        """Whether the caller must prove that it holds the lease."""
        return self.actor is Actor.HOLDER


def _move(event: Event, actor: Actor, *sources: State, to: State) -> Move:
    return Move(event=event, actor=actor, sources=frozenset(sources), target=to)


_S, _A, _E = State, Actor, Event
#: What an operator who closes a run gives up.
_UNFINISHED = (_S.DISCOVERED, _S.ELIGIBLE, _S.FAILED, _S.HELD, _S.QUARANTINED)
#: DISCOVER has no source: it creates the record.
MOVES = (
    _move(_E.DISCOVER, _A.PRODUCER, to=_S.DISCOVERED),
    _move(_E.CHANGE, _A.PRODUCER, _S.DISCOVERED, _S.ELIGIBLE, to=_S.DISCOVERED),
    _move(_E.SETTLE, _A.PRODUCER, _S.DISCOVERED, to=_S.ELIGIBLE),
    _move(_E.SKIP, _A.PRODUCER, _S.DISCOVERED, to=_S.SKIPPED),
    _move(_E.REFUSE, _A.PRODUCER, _S.DISCOVERED, to=_S.QUARANTINED),
    _move(_E.REAPPEAR, _A.PRODUCER, _S.SKIPPED, to=_S.DISCOVERED),
    _move(_E.CONFLICT, _A.PRODUCER, _S.VERIFIED, to=_S.QUARANTINED),
    _move(_E.SUPERSEDE, _A.PRODUCER, _S.VERIFIED, to=_S.DISCOVERED),
    _move(_E.RECHECK, _A.PRODUCER, _S.VERIFIED, to=_S.ELIGIBLE),
    _move(_E.LOSE, _A.SWEEPER, _S.VERIFIED, to=_S.QUARANTINED),
    _move(_E.CLAIM, _A.WORKER, _S.ELIGIBLE, to=_S.UPLOADING),
    _move(_E.STORE, _A.HOLDER, _S.UPLOADING, to=_S.UPLOADED),
    _move(_E.VERIFY, _A.HOLDER, _S.UPLOADING, _S.UPLOADED, to=_S.VERIFIED),
    _move(_E.FAIL, _A.HOLDER, _S.UPLOADING, _S.UPLOADED, to=_S.FAILED),
    _move(_E.HOLD, _A.HOLDER, _S.UPLOADING, _S.UPLOADED, to=_S.HELD),
    _move(_E.ABANDON, _A.HOLDER, _S.UPLOADING, _S.UPLOADED, to=_S.DISCOVERED),
    _move(_E.YIELD, _A.HOLDER, _S.UPLOADING, _S.UPLOADED, to=_S.ELIGIBLE),
    _move(_E.QUARANTINE, _A.HOLDER, _S.UPLOADING, _S.UPLOADED, to=_S.QUARANTINED),
    _move(_E.EXPIRE, _A.SWEEPER, _S.UPLOADING, _S.UPLOADED, to=_S.FAILED),
    _move(_E.RETRY, _A.SWEEPER, _S.FAILED, _S.HELD, to=_S.ELIGIBLE),
    _move(_E.EXHAUST, _A.SWEEPER, _S.UPLOADING, _S.UPLOADED, _S.FAILED, to=_S.QUARANTINED),
    _move(_E.REPLAY, _A.OPERATOR, _S.QUARANTINED, _S.DISCARDED, to=_S.ELIGIBLE),
    _move(_E.REVISE, _A.OPERATOR, _S.QUARANTINED, _S.DISCARDED, to=_S.DISCOVERED),
    _move(_E.DISCARD, _A.OPERATOR, _S.QUARANTINED, to=_S.DISCARDED),
    _move(_E.CLOSE, _A.OPERATOR, *_UNFINISHED, to=_S.DISCARDED),
    _move(_E.RECALL, _A.REBUILD, _S.DISCOVERED, _S.ELIGIBLE, _S.VERIFIED, to=_S.QUARANTINED),
)
MOVE_OF = {move.event: move for move in MOVES}


def advance(state: State, event: Event) -> State | None:
    """Return where the event leads from this state, or None when it is not possible there."""
    move = MOVE_OF[event]
    return move.target if state in move.sources else None


def mermaid() -> str:
    """Return the table as a Mermaid state diagram, for docs/states.md."""
    lines = ["stateDiagram-v2"]
    for move in MOVES:
        sources: list[str] = sorted(move.sources) or ["[*]"]
        lines += [f"    {one} --> {move.target}: {move.event} ({move.actor})" for one in sources]
    return "\n".join(lines)

"""Whose files go first, and how many ride in a message, so that taking turns is fair?

Pure. Workers take one message of each instrument in turn. So messages of all instruments are to be
worth about the same, and one of a higher rank is not to share its turns with the others.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from labferry.passes import Space
from labferry.records import Lane, RunFacts
from labferry.states import LEASED, State

#: What a share that will be full soon adds to a priority, which is 100 at most, and -100 at least.
URGENT = 1000
LEAST_URGENT = URGENT - 100
#: An instrument of which nothing moved for so long keeps no other one waiting.
MOVING_MS = 60_000
#: Messages in which a cap is handed out: while one is done, the others are under way.
_CAP_MESSAGES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one instrument has to send: files without a message by lane, files that a message of its
    own has or needs, its rank, and whether its work goes on."""

    rank: int
    ready: Mapping[Lane, int] = field(default_factory=dict)
    bundle_files: int = 1
    moves: bool = True


def rank_of(priority: int, space: Space | None, urgent_left_s: float) -> int:
    """Return an instrument's rank: its priority, or above all where its share is full soon."""
    left_s = space.left_s if space else None
    is_urgent = left_s is not None and left_s < urgent_left_s
    return priority + (URGENT if is_urgent else 0)


def turn_of(
    runs: Sequence[RunFacts], rank: int, window: int, *, moves: bool, cap: int | None = None
) -> Turn:
    """Return the turn of an instrument with these runs; what a person holds has none, and what is
    above the cap cannot go."""
    free = [facts for facts in runs if facts.hold is None]
    ready = {lane: sum(facts.ready[lane] for facts in free) for lane in Lane}
    sent = sum(facts.sent for facts in free)
    files = max(needed(ready[Lane.SMALL], window), ceil(_carried(free) / sent) if sent else 1)
    room = free_of(runs, cap)
    return Turn(
        rank=rank,
        ready={lane: min(count, room) for lane, count in ready.items()},
        bundle_files=min(files, most_of(cap)),
        moves=moves,
    )


def _carried(runs: Iterable[RunFacts]) -> int:
    """Return how many files ride in messages."""
    return max(0, sum(facts.counts[State.ELIGIBLE] - sum(facts.ready.values()) for facts in runs))


def free_of(runs: Sequence[RunFacts], cap: int | None) -> int:
    """Return how many files of an instrument with these runs may be sent: those that are neither
    under way nor in messages. What a person holds is not claimed, and what is under way of it ends.
    """
    if cap is None:
        return sys.maxsize
    leased = sum(facts.counts[state] for facts in runs for state in LEASED)
    return max(0, cap - leased - _carried(facts for facts in runs if facts.hold is None))


def most_of(cap: int | None) -> int:
    """Return how many files a message may have at most, for a cap to be used well."""
    return sys.maxsize if cap is None else ceil(cap / _CAP_MESSAGES)


def needed(backlog: int, window: int) -> int:
    """Return how many files a message needs: one where the backlog fits the window, else as many as
    let it fill a quarter, so that what arrives next finds room, and a message costs little."""
    return 1 if backlog <= window else ceil(backlog / max(1, window // 4))


def bundle_files(own: int, others: Sequence[Turn], window: int) -> int:
    """Return how many files a message may have: what the backlog needs, or what others' have."""
    return max(needed(own, window), *(turn.bundle_files for turn in others), 1)


def is_outranked(rank: int, lane: Lane, others: Sequence[Turn]) -> bool:
    """Whether another instrument's files of the lane go first."""
    return any(turn.rank > rank and turn.moves and turn.ready.get(lane) for turn in others)

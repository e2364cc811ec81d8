"""Whose files go first, and how many ride in a message, so that taking turns is fair?

Pure. Workers take one message of each instrument in turn. So messages of all instruments are to be
worth about the same, and one of a higher rank is not to share its turns with the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from labferry.passes import Space
from labferry.records import Lane, RunFacts
from labferry.states import State

#: What a share that will be full soon adds to a priority, which is 100 at most, and -100 at least.
URGENT = 1000
LEAST_URGENT = URGENT - 100
#: An instrument of which nothing moved for so long keeps no other one waiting.
MOVING_MS = 60_000


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


def turn_of(runs: Iterable[RunFacts], rank: int, window: int, *, moves: bool) -> Turn:
    """Return the turn of an instrument with these runs; what a person holds has none."""
    free = [facts for facts in runs if facts.hold is None]
    ready = {lane: sum(facts.ready[lane] for facts in free) for lane in Lane}
    sent = sum(facts.sent for facts in free)
    carried = sum(facts.counts[State.ELIGIBLE] for facts in free) - sum(ready.values())
    return Turn(
        rank=rank,
        ready=ready,
        bundle_files=max(
            needed(ready[Lane.SMALL], window), ceil(max(carried, 0) / sent) if sent else 1
        ),
        moves=moves,
    )


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

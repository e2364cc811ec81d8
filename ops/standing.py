"""How does each instrument stand now: what waits longest, and when did something move last?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from labferry.completion import RunState, run_state
from labferry.identity import RunKey
from labferry.passes import Waiting
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.states import AT_REST, State
from labferry.tallies import Tallies
from ops.watching import Watched, read_watching

#: States in which a worker could go on with a file, or does.
MOVABLE = (State.ELIGIBLE, State.UPLOADING, State.UPLOADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One instrument at `now_ms`; another `_ms` of 0 is never.

    `waiting_ms` is since when the file waits that waits longest for a worker, `dead_ms` since when
    the oldest dead letter is one, `moved_ms` when a worker began, sent or ended something last.
    `watched` says whether its share is looked at, `waiting` why its open runs are not done.
    """

    instrument: str
    now_ms: int
    runs: tuple[RunFacts, ...]
    waiting_ms: int = 0
    dead_ms: int = 0
    moved_ms: int = 0
    watched: Watched = field(default_factory=Watched)
    waiting: Mapping[str, Waiting] = field(default_factory=dict)

    def count(self, *states: State) -> int:
        """Return how many files are in these states."""
        return sum(facts.counts[state] for facts in self.runs for state in states)

    def size(self, *states: State) -> int:
        """Return how many bytes the files in these states have."""
        return sum(facts.sizes[state] for facts in self.runs for state in states)

    @property
    def backlog(self) -> int:
        """Return how many files are not at rest."""
        return self.count(*_MOVING)

    @property
    def backlog_bytes(self) -> int:
        """Return their bytes."""
        return self.size(*_MOVING)

    @property
    def waits_s(self) -> float:
        """Return how long the file waits that waits longest for a worker."""
        return (self.now_ms - self.waiting_ms) / 1000 if self.waiting_ms else 0.0

    @property
    def dead_s(self) -> float:
        """Return how old the oldest dead letter is."""
        return (self.now_ms - self.dead_ms) / 1000 if self.dead_ms else 0.0

    @property
    def still_s(self) -> float:
        """Return how long nothing moved although a worker could go on; 0 where none could.

        What was held by a person or came just now was not overlooked before.
        """
        movable = [
            facts
            for facts in self.runs
            if facts.hold is None and any(facts.counts[state] for state in MOVABLE)
        ]
        if not movable:
            return 0.0
        changed_ms = max(facts.changed_ms for facts in movable)
        return (self.now_ms - max(self.moved_ms, self.waiting_ms, changed_ms)) / 1000


#: A run in another state waits for nothing at the source.
_WAITS = frozenset({RunState.OPEN, RunState.STALE})
_MOVING = tuple(state for state in State if state not in AT_REST)


def read_standings(
    ledger: Ledger,
    runs: Sequence[RunFacts],
    instruments: Iterable[str] = (),
    tallies: Tallies | None = None,
) -> list[Standing]:
    """Return how the instruments of these runs stand, and those that have none, by name.

    `tallies` are read where they are not given.
    """
    moved_ms = (tallies or ledger.tallies()).moved_ms
    now_ms = ledger.now_ms()
    watching = read_watching(ledger, now_ms)
    of_name: dict[str, list[RunFacts]] = {name: [] for name in instruments}
    for facts in runs:
        of_name.setdefault(facts.run.instrument, []).append(facts)
    return [
        Standing(
            instrument=name,
            now_ms=now_ms,
            runs=tuple(found),
            waiting_ms=ledger.waiting_since(_with(State.ELIGIBLE, _not_held(found))),
            dead_ms=ledger.dead_since(_with(State.QUARANTINED, found)),
            moved_ms=moved_ms.get(name, 0),
            watched=watching.instruments.get(name, Watched()),
            waiting={
                str(one.run): watching.waiting[str(one.run)]
                for one in found
                if run_state(one) in _WAITS and str(one.run) in watching.waiting
            },
        )
        for name, found in sorted(of_name.items())
    ]


def _not_held(runs: Iterable[RunFacts]) -> Iterator[RunFacts]:
    return (one for one in runs if one.hold is None)


def _with(state: State, runs: Iterable[RunFacts]) -> list[RunKey]:
    return [one.run for one in runs if one.counts[state]]

"""What would a pass record? It is asked of a ledger that answers as the real one and keeps nothing.

What the pass would have moved counts in what it is told of its runs, so that it concludes what a
real one would. A run that is not on record yet stays unknown.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import Fingerprint, Outcome, RunFacts, Step
from labferry.states import MOVE_OF, Event, State

#: What a pass asks, and only reads.
_ASKED = frozenset({
    "conditions", "find_records", "look", "now_ms", "passes", "records", "runs", "active_runs",
    "turns",
})  # fmt: skip
#: What a pass tells, and goes on whatever the answer.
_TOLD = frozenset({"alert", "forget_pass", "note_sight", "tell_pass", "tell_waiting"})
#: After these a run is not quiet.
_ARRIVALS = frozenset({Event.DISCOVER, Event.CHANGE, Event.REAPPEAR, Event.SUPERSEDE})


def dry(ledger: Ledger) -> Ledger:
    """Return a ledger for one pass that reads this one and keeps nothing of what it is told.

    It has no other call than those of a pass.
    """
    return cast("Ledger", _DryLedger(ledger))


class _DryLedger:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._counts: dict[RunKey, Counter[State]] = defaultdict(Counter)
        self._changed_ms: dict[RunKey, int] = {}

    def __getattr__(self, name: str) -> Any:
        if name in _TOLD:
            return lambda *_, **__: None
        if name in _ASKED:
            return getattr(self._ledger, name)
        raise AttributeError(name)

    def find_facts(self, run: RunKey) -> RunFacts | None:
        facts = self._ledger.find_facts(run)
        return self._counted(run, facts) if facts else None

    def facts_of(self, runs: Sequence[RunKey]) -> list[RunFacts]:
        return [self._counted(facts.run, facts) for facts in self._ledger.facts_of(runs)]

    def _counted(self, run: RunKey, facts: RunFacts) -> RunFacts:
        counts = {state: facts.counts[state] + self._counts[run][state] for state in State}
        changed_ms = self._changed_ms.get(run, facts.changed_ms)
        return replace(facts, counts=counts, changed_ms=changed_ms)

    def discover(self, run: RunKey, seen: Sequence[tuple[str, Fingerprint]]) -> int:
        self._note(run, Event.DISCOVER, Counter({State.DISCOVERED: len(seen)}))
        return len(seen)

    def move(self, run: RunKey, event: Event, steps: Sequence[Step]) -> list[Outcome]:
        """Say of every step that it was done: the pass chose them by what is on record."""
        if steps:
            moved = Counter({MOVE_OF[event].target: len(steps)})
            moved.subtract(self._states(run, event, steps))
            self._note(run, event, moved)
        return [Outcome.DONE for _ in steps]

    def _states(self, run: RunKey, event: Event, steps: Sequence[Step]) -> list[State]:
        """Return what the files are; what this pass discovered is on no record."""
        sources = MOVE_OF[event].sources
        if len(sources) == 1:
            return [*sources] * len(steps)
        _, seen = self._ledger.look(run, [step.path for step in steps])
        return [one.state if one else State.DISCOVERED for one in seen]

    def _note(self, run: RunKey, event: Event, moved: Counter[State]) -> None:
        self._counts[run].update(moved)
        if event in _ARRIVALS:
            self._changed_ms[run] = self._ledger.now_ms()

    def seal(self, run: RunKey, last: Sequence[str], file_count: int) -> bool:
        """Say whether the run would be sealed, as the ledger's own script does."""
        facts = self.find_facts(run)
        if facts is None:
            return False
        known = sum(facts.counts.values()) - facts.counts[State.SKIPPED]
        return known >= file_count and facts.counts[State.DISCOVERED] == len(last)

    def take(self, *_: object, **__: object) -> list[object]:
        """Give nothing to publish."""
        return []

    def leadership(self, *_: object, **__: object) -> "_DryLedger":
        return self

    def keep(self) -> bool:
        """Lead nothing: no worker is asked for anything."""
        return False

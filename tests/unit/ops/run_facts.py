"""Run facts by hand, for what only looks at counts."""

from labferry.identity import RunKey
from labferry.records import Lane, RunFacts
from labferry.states import State


def run_facts(
    run: str = "scope/run 1",
    *,
    size: int = 1000,
    sealed_ms: int = 0,
    completed: int = 0,
    marker: str = "",
    generation: int = 1,
    **counts: int,
) -> RunFacts:
    """Return facts with so many files in the named states, each of `size` bytes."""
    by_state = {state: counts.get(state.value, 0) for state in State}
    return RunFacts(
        run=RunKey.parse(run),
        generation=generation,
        opened_ms=0,
        changed_ms=0,
        sealed_ms=sealed_ms,
        completed=completed,
        marker=marker,
        counts=by_state,
        sizes={state: count * size for state, count in by_state.items()},
        ready=dict.fromkeys(Lane, 0),
        sent=0,
        now_ms=0,
    )

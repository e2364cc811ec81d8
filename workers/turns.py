"""What does each instrument have to send, and whose share will be full soon? Told at each sweep."""

from collections.abc import Mapping, Sequence

from labferry.passes import watch_of
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.settings import Settings
from labferry.turns import MOVING_MS, turn_of


def tell_turns(ledger: Ledger, runs: Mapping[str, Sequence[RunFacts]], settings: Settings) -> None:
    """Record the turns of the instruments that have active runs."""
    now_ms, moved_ms, passes = ledger.now_ms(), ledger.tallies().moved_ms, ledger.passes()
    turns = {}
    for name, facts in runs.items():
        _, said = watch_of(passes, name, now_ms)
        turns[name] = turn_of(
            facts,
            settings.rank(name, said.space if said else None),
            settings.broker.window_messages,
            moves=now_ms - moved_ms.get(name, 0) < MOVING_MS,
            cap=settings.cap(name),
        )
    ledger.tell_turns(turns)

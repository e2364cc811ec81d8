"""Which eligible files become messages now? As many as fit an instrument's window, bundled.

A million eligible files do not become a million messages: they wait in the ledger. The ledger
records a bundle as sent before it is published here; the other order would lose it with a crash.
While something stands in the way of all, the window is shut, but for one file that is tried.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

from labferry.breakers import Breaker, Conditions, Phase, in_force, names_of, window
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import Bundle, Lane, RunFacts
from labferry.settings import Settings
from labferry.states import LEASED
from labferry.turns import Turn, bundle_files, free_of, is_outranked, most_of
from labferry.wakeup_port import Wakeups

#: Files taken in one call, so that the ledger is never blocked for more than some 10 ms.
TAKEN_AT_ONCE = 5000


def top_up(
    ledger: Ledger,
    wakeups: Wakeups,
    runs: Sequence[RunFacts],
    settings: Settings,
    *,
    trickles: bool = False,
) -> int:
    """Publish messages for one instrument's runs, oldest first; return how many.

    While an instrument of a higher rank has files to send, this one gets no message; with
    `trickles` one a lane, if none waits: so nobody starves.

    Half of the free window is for large files, so that a flood of small ones cannot shut them out;
    where there is room for one message alone, it is a small file's, which tells sooner. A run
    that an operator holds gets none, and takes no room. Of an instrument with a cap no more files
    go out than it leaves; there is often room for one alone, so a coin, the ledger's clock, says
    which lane goes first.
    """
    if not runs:
        return 0
    broker, sent = settings.broker, 0
    instrument, coin = runs[0].run.instrument, runs[0].now_ms % 2 == 0
    cap = settings.cap(instrument)
    free = free_of(runs, cap)
    others, rank = _others(ledger, instrument, settings)
    runs = [facts for facts in runs if facts.hold is None]
    backlog = sum(facts.ready[Lane.SMALL] for facts in runs)
    wanted = bundle_files(backlog, others, broker.window_messages)
    most_small = min(broker.bundle_max_files, wanted, most_of(cap))
    room, is_canary = _room(ledger.conditions(), runs, most_small, settings)
    waits = any(facts.sent for facts in runs)
    small, large = (Lane.SMALL, room), (Lane.LARGE, ceil(room / 2) if cap is None else room)
    for lane, share in (small, large) if is_canary or (cap and coin) else (large, small):
        most = max(1, min(free, 1 if is_canary or lane is Lane.LARGE else most_small))
        least = int(trickles and not waits)
        until = min(room, sent + (least if is_outranked(rank, lane, others) else share))
        for facts in sorted(runs, key=lambda facts: facts.opened_ms):
            bundles = min(until - sent, facts.ready[lane], free // most)
            if bundles > 0:
                limits = _Limits(bundles, most, broker.bundle_max_bytes)
                for taken in _take(ledger, facts.run, lane, limits):
                    wakeups.upload(taken)
                    sent += len(taken)
                    free -= sum(len(one.paths) for one in taken)
    return sent


def _others(ledger: Ledger, instrument: str, settings: Settings) -> tuple[list[Turn], int]:
    """Return the turns of all other instruments, and the rank of this one."""
    turns = ledger.turns()
    own = turns.pop(instrument, None)
    return list(turns.values()), own.rank if own else settings.rank(instrument, None)


def _room(
    conditions: Conditions, runs: Sequence[RunFacts], most_files: int, settings: Settings
) -> tuple[int, bool]:
    """Return how many messages may be added, and whether that is a canary."""
    rules = settings.breakers.rules(settings.ledger.lease_ttl_s)
    breakers = in_force(conditions, names_of(settings.store.endpoint), rules)
    whole = settings.broker.window_messages
    allowed = window(breakers, conditions.now_ms, whole, rules)
    room = allowed - sum(facts.sent for facts in runs)
    if allowed < whole and _is_ramp(breakers):
        # What is claimed weighs on an endpoint that just came back as much as what is not.
        claimed = sum(facts.counts[state] for facts in runs for state in LEASED)
        room -= ceil(claimed / most_files)
    return room, allowed == 1 < whole


def _is_ramp(breakers: Sequence[Breaker]) -> bool:
    return any(one.phase is Phase.RAMP for one in breakers)


class _Limits(NamedTuple):
    bundles: int
    most_files: int
    most_bytes: int


def _take(ledger: Ledger, run: RunKey, lane: Lane, limits: _Limits) -> Iterator[list[Bundle]]:
    left = limits.bundles
    while left > 0:
        taken = ledger.take(
            run,
            lane,
            bundles=min(left, max(1, TAKEN_AT_ONCE // limits.most_files)),
            max_files=limits.most_files,
            max_bytes=limits.most_bytes,
        )
        if not taken:
            return
        left -= len(taken)
        yield taken

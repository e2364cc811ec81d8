"""What is done beside the sweep, again and again, by one of all sweeps at a time?

Each has a thread of its own and a lock in the ledger: what hangs keeps nothing else from its work,
and when its process dies, another's thread goes on.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event as Flag

from labferry.errors import LabferryError
from labferry.ledger import open_ledger
from labferry.ports import Leadership, Ledger
from labferry.settings import LedgerSettings
from labferry.telemetry import emit

_INTERVAL_S = 1.0
#: Deliveries that one thread may have under way; another goes on when it is gone.
_KEEP_DELIVERIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """`make` gives the round, which may raise LabferryError; `keep_s` is how long one may take."""

    name: str
    make: Callable[[Ledger], Callable[[], None]]
    keep_s: float


def keep_s(delivery_s: float) -> float:
    """Return how long a lock is kept by whoever delivers, one delivery taking at most so long."""
    return delivery_s * _KEEP_DELIVERIES + 1


def start_rounds(rounds: Rounds, settings: LedgerSettings, stop: Flag) -> threading.Thread:
    """Start the thread; it ends soon after `stop` is set."""
    thread = threading.Thread(
        target=_serve, args=(rounds, settings, stop), name=rounds.name, daemon=True
    )
    thread.start()
    return thread


def _serve(rounds: Rounds, settings: LedgerSettings, stop: Flag) -> None:
    ledger = open_ledger(settings)
    leader = ledger.leadership(rounds.name, keep_s=rounds.keep_s)
    do_round = rounds.make(ledger)
    while not stop.wait(_INTERVAL_S):
        _try_round(rounds.name, do_round, leader)
    try:
        leader.release()
    except LabferryError:
        emit("rounds.not_released", level=logging.WARNING, rounds=rounds.name)


def _try_round(name: str, do_round: Callable[[], None], leader: Leadership) -> None:
    try:
        if leader.keep():
            do_round()
    except LabferryError as error:
        emit("rounds.failed", level=logging.WARNING, rounds=name, error=str(error))

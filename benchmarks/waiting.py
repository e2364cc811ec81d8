"""When has a run come as far as a benchmark waits for? By its facts on the ledger."""

import time
from collections.abc import Callable

from labferry.identity import RunKey
from labferry.ledger import RedisLedger
from labferry.records import RunFacts

TIMEOUT_S = 600
POLL_S = 0.05


def await_facts(
    ledger: RedisLedger, run: RunKey, what: str, is_so: Callable[[RunFacts], bool]
) -> RunFacts:
    """Return the facts of a run as soon as they are so. Raises: RuntimeError when time is up."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        facts = ledger.find_facts(run)
        if facts is not None and is_so(facts):
            return facts
        if time.monotonic() > deadline:
            raise RuntimeError(f"{run}: {what}: not within {TIMEOUT_S} s: {facts}")
        time.sleep(POLL_S)

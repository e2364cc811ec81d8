"""What stands between this process and the endpoint, and who changes it?

Breakers and pace are on record in the ledger, for all workers alike; each change is swapped in for
what was seen, so that of many who meet the same trouble one makes it known.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from labferry.alerts import breaker_key, breaker_text
from labferry.breakers import (
    Admission,
    Breaker,
    Conditions,
    Phase,
    admit,
    breaker_name,
    cleared,
    healed,
    holds,
    in_force,
    names_of,
    opened,
    still_failing,
    struck,
    wait_of,
)
from labferry.failures import Cause, Failure
from labferry.ports import Ledger
from labferry.settings import Settings
from labferry.telemetry import emit
from labferry.throttle import share_of, throttled

#: A change that met another one so often is left to the others.
_TRIES = 10
#: A held file is due a moment after the probe.
AFTER_PROBE_S = 0.1

Change = Callable[[Breaker | None, int], Breaker | None]
End = Callable[[Breaker | None, Breaker, int], Breaker | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of all that stands in the way: may something be done, and at which pace?"""

    admission: Admission
    seen: Sequence[Breaker]
    pace: float


class Gate:
    """The breakers of one endpoint and one host, and the endpoint's pace. Safe in threads."""

    def __init__(self, ledger: Ledger, settings: Settings, host: str) -> None:
        self._ledger = ledger
        self._host = host
        self._endpoint = settings.store.endpoint
        self._names = names_of(self._endpoint, host)
        self.rules = settings.breakers.rules(settings.ledger.lease_ttl_s)

    def look(self) -> Look:
        """Return what stands in the way now."""
        return self.read(self._ledger.conditions())

    def read(self, conditions: Conditions) -> Look:
        """Return what stands in the way by what was on record just now."""
        seen = in_force(conditions, self._names, self.rules)
        pace = next((one for one in conditions.paces if one.name == self._endpoint), None)
        return Look(
            admission=admit(seen, conditions.now_ms, self.rules),
            seen=seen,
            pace=share_of(pace, conditions.now_ms, self.rules.recovery_ms),
        )

    def begin_probe(self, seen: Breaker, probe: Breaker) -> bool:
        """Become the one that probes; False where somebody else did."""
        won = self._ledger.swap_breaker(seen, probe)
        if won:
            emit("breaker.probing", name=probe.name, probe=probe.probes)
        return won

    def end_probe(self, probe: Breaker, end: End) -> None:
        """Record what came of a probe."""
        self._change(probe.name, lambda seen, now_ms: end(seen, probe, now_ms))

    def open(self, failure: Failure, instrument: str = "") -> Failure:
        """Open the breaker that counts a failure; return it with the wait until a next probe."""
        name = self._name(failure.cause or Cause.ENDPOINT, instrument)
        breaker, now_ms = self._change(
            name, lambda seen, now_ms: opened(seen, name, failure, now_ms, self.rules)
        )
        if breaker is None or not holds(breaker):
            return failure
        wait_s = wait_of(breaker, now_ms, self.rules) / 1000 + AFTER_PROBE_S
        return replace(failure, retry_after_s=max(wait_s, failure.retry_after_s or 0))

    def has_runs(self, instrument: str) -> bool:
        """Whether there may be something to do for an instrument."""
        return any(run.instrument == instrument for run in self._ledger.active_runs())

    def share_is_away(self, failure: Failure, instrument: str) -> None:
        """Open the breaker of a share on this host, or note that it still is away."""
        name = self._name(Cause.SHARE, instrument)
        self._change(
            name, lambda seen, now_ms: still_failing(seen, name, failure, now_ms, self.rules)
        )

    def heal_share(self, instrument: str) -> None:
        """Close the breaker of a share that was seen again on this host."""
        self._change(self._name(Cause.SHARE, instrument), healed)

    def strike(self, failure: Failure) -> Breaker | None:
        """Count a failure that may be the endpoint's; return its breaker."""
        name = self._name(Cause.ENDPOINT)

        def change(seen: Breaker | None, now_ms: int) -> Breaker | None:
            if seen is not None and holds(seen):
                return None
            return struck(seen, name, failure, now_ms, self.rules)

        return self._change(name, change)[0]

    def clear_strikes(self) -> None:
        """Forget failures in a row, after a success."""
        self._change(self._name(Cause.ENDPOINT), lambda seen, _: cleared(seen))

    def slow_down(self, failure: Failure) -> bool:
        """Halve the endpoint's pace, if that was not done just now; return whether it was whole."""
        conditions = self._ledger.conditions()
        seen = next((one for one in conditions.paces if one.name == self._endpoint), None)
        new = throttled(seen, self._endpoint, failure, conditions.now_ms, self.rules.recovery_ms)
        if new is None or not self._ledger.swap_pace(seen, new):
            return False
        emit("endpoint.throttled", level=logging.WARNING, pace=new.share, code=new.code)
        return share_of(seen, conditions.now_ms, self.rules.recovery_ms) >= 1

    def _change(self, name: str, change: Change) -> tuple[Breaker | None, int]:
        """Change a breaker; return it as it is on record then, and the ledger's clock."""
        for _ in range(_TRIES):
            conditions = self._ledger.conditions()
            seen = next((one for one in conditions.breakers if one.name == name), None)
            new = change(seen, conditions.now_ms)
            if new is None:
                break
            # However often it opens, the key is that of the first time.
            opens = new.phase is Phase.OPEN
            alert = (breaker_key(new), breaker_text(new)) if opens else None
            if self._ledger.swap_breaker(seen, new, alert):
                _tell(seen, new)
                return new, conditions.now_ms
        return seen, conditions.now_ms

    def _name(self, cause: Cause, instrument: str = "") -> str:
        return breaker_name(cause, endpoint=self._endpoint, host=self._host, instrument=instrument)


def _tell(seen: Breaker | None, new: Breaker) -> None:
    if new.phase is (seen.phase if seen else Phase.CLOSED):
        return
    why = {"code": new.code, "error": new.message, "wait_s": round(new.wait_ms / 1000, 1)}
    emit(
        f"breaker.{new.phase}",
        level=logging.WARNING if new.phase is Phase.OPEN else logging.INFO,
        name=new.name,
        opened=new.opened,
        probes=new.probes,
        **(why if holds(new) else {}),
    )

"""May this bundle be worked on now, and what does it mean for all others what it meets?"""

import threading
from dataclasses import dataclass, field

from labferry.breakers import Breaker, holds, probe_failed, probe_left, probe_passed
from labferry.failures import Cause, Failure, Kind, Scope
from workers.blame import Blame
from workers.gate import AFTER_PROBE_S, End, Gate, Look

#: So many failures in a row make it worth asking whose fault they are.
STRIKES = 3


@dataclass(slots=True)
class Permit:
    """What one bundle, or one completion, may do. Safe in threads.

    `failure` says why nothing may be done; `probes` are the breakers for which this process alone
    tries one file; `pace` is the share of its threads that may work.
    """

    gate: Gate
    blame: Blame
    instrument: str = ""
    pace: float = 1.0
    failure: Failure | None = None
    probes: list[Breaker] = field(default_factory=list)
    struck: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_probe(self) -> bool:
        """Whether one file is tried for all, and nothing came of it yet."""
        return bool(self.probes)

    def passed(self) -> None:
        """Tell that the endpoint took something. Cheap where that is no news.

        Raises: LedgerUnavailable.
        """
        if not self.probes and not self.struck:
            return
        with self._lock:
            was_struck, self.struck = self.struck, False
        if not self._end(probe_passed) and was_struck:
            self.gate.clear_strikes()

    def leave(self) -> None:
        """Give back a probe of which nothing came; the next who comes may. Raises:
        LedgerUnavailable."""
        self._end(probe_left)

    def judge(self, failure: Failure, *, of_store: bool, is_last: bool) -> tuple[Failure, bool]:
        """Return a failure as it counts, and whether it is worth a line in the file's history.

        Everybody is told who must know: a breaker opens, a pace is halved. What stands in
        everybody's way comes back with the wait until the next probe. `of_store` where the object
        store gave it, `is_last` where the file's budget ends with it. Raises: LedgerUnavailable.
        """
        if failure.kind is Kind.ENVIRONMENT:
            return self._blocked(failure)
        if failure.kind is Kind.THROTTLED:
            return failure, self.gate.slow_down(failure)
        if of_store and self._is_suspect(failure, is_last=is_last):
            if systemic := self.blame.find_systemic(failure):
                return self._blocked(systemic)
            self.struck = True
            self.passed()
        return failure, True

    def refuse(self, failure: Failure) -> None:
        """Judge what was met before the first file; nothing may be done if it meets all of them.

        Raises: LedgerUnavailable.
        """
        judged, _ = self.judge(failure, of_store=True, is_last=False)
        if judged.kind in (Kind.ENVIRONMENT, Kind.THROTTLED):
            self.failure = judged

    def _is_suspect(self, failure: Failure, *, is_last: bool) -> bool:
        """Whether a failure may be the endpoint's, and it is time to ask."""
        if failure.kind is Kind.PERMANENT:
            return failure.scope is Scope.RUN
        if failure.kind not in (Kind.TRANSIENT, Kind.UNKNOWN):
            return False
        if self.probes or is_last:
            return True
        self.struck = True
        breaker = self.gate.strike(failure)
        return breaker is not None and (holds(breaker) or breaker.strikes >= STRIKES)

    def _blocked(self, failure: Failure) -> tuple[Failure, bool]:
        cause, rules = failure.cause or Cause.ENDPOINT, self.gate.rules

        def end(seen: Breaker | None, probe: Breaker, now_ms: int) -> Breaker | None:
            if probe.cause is not cause:
                return probe_left(seen, probe, now_ms)
            return probe_failed(seen, probe, failure, now_ms, rules)

        was_probe = self._end(end)
        return self.gate.open(failure, self.instrument), not was_probe

    def _end(self, end: End) -> bool:
        """End the probes in some way; return whether there were any."""
        with self._lock:
            probes, self.probes = self.probes, []
        for probe in probes:
            self.gate.end_probe(probe, end)
        return bool(probes)


def ask_permit(gate: Gate, blame: Blame, instrument: str, look: Look) -> Permit:
    """Return what may be done by what was seen; of all processes one at a time may probe.

    While credentials are, or just were, in the way, each message begins with those that are there
    now: a process that kept old ones would fail where the others pass again.
    Raises: LedgerUnavailable.
    """
    if any(one.cause is Cause.CREDENTIALS for one in look.seen):
        blame.renew_credentials()
    permit = Permit(gate, blame, instrument, look.pace)
    permit.struck = any(one.strikes for one in look.seen)
    by_name = {one.name: one for one in look.seen}
    for probe in look.admission.probes:
        if not gate.begin_probe(by_name[probe.name], probe):
            permit.leave()
            permit.failure = _held(probe, gate.rules.probe_ms)
            return permit
        permit.probes.append(probe)
    if blocker := look.admission.blocker:
        permit.failure = _held(blocker, look.admission.wait_ms)
    return permit


def _held(blocker: Breaker, wait_ms: int) -> Failure:
    return Failure(
        kind=Kind.ENVIRONMENT,
        code=blocker.code,
        message=f"held: {blocker.message}",
        scope=blocker.cause.scope,
        cause=blocker.cause,
        retry_after_s=wait_ms / 1000 + AFTER_PROBE_S,
    )

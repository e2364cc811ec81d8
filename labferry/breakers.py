"""May the object store be asked now, and how much at a time?

Pure: what is on record, the ledger's clock and the rules in, what is to be on record out. Whoever
changes a record swaps it for the one it has seen, so that of many who try at once one succeeds.
A breaker counts what stands in the way of many files; while it is open they are held and cost
nothing, one at a time probes, and a ramp follows the first that passes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from labferry.failures import Cause, Failure, Scope
from labferry.throttle import Pace

#: What nobody touched for so long is nobody's any more: its host, or its need, is gone.
FORGOTTEN_MS = 3_600_000
#: A window is whole again after so many doublings, however large it is.
RAMP_DOUBLINGS = 16


class Phase(StrEnum):
    """Where a breaker is."""

    CLOSED = "closed"  # failures in a row are counted, nothing is held
    OPEN = "open"  # files are held until the next probe
    PROBING = "probing"  # one worker tries one file, the others wait
    RAMP = "ramp"  # it passed: more and more messages, until the window is whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """One thing that can stand in the way of many files.

    `since_ms` is when it opened first, `opened` how often since then, `probes` how many tried;
    `wait_ms` lies between two probes, `next_ms` is when the next may come. `strikes` are failures
    in a row that may be the endpoint's. `revision` grows with every change.
    """

    name: str
    cause: Cause
    phase: Phase
    code: str
    message: str
    since_ms: int
    at_ms: int
    next_ms: int = 0
    wait_ms: int = 0
    opened: int = 0
    probes: int = 0
    strikes: int = 0
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """All breakers and paces on record, at an instant of the ledger's clock."""

    now_ms: int
    breakers: tuple[Breaker, ...] = ()
    paces: tuple[Pace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How breakers behave.

    The first probe comes after `probe_ms`, which doubles up to `cap_ms`; a probe that does not
    report ends after `lease_ms`; in a ramp the window doubles every `ramp_ms`, and a pace, once
    the endpoint asks for nothing, every `recovery_ms`.
    """

    probe_ms: int
    cap_ms: int
    lease_ms: int
    ramp_ms: int
    recovery_ms: int


def breaker_name(cause: Cause, *, endpoint: str, host: str, instrument: str = "") -> str:
    """Return the name of the breaker that counts a cause."""
    if cause is Cause.SHARE:
        return f"{cause}:{instrument}@{host}"
    return f"{cause}:{host}" if cause.scope is Scope.HOST else f"{cause}:{endpoint}"


def names_of(endpoint: str, host: str | None = None) -> frozenset[str]:
    """Return the breakers that stop the work on an endpoint; with `host`, of a worker on it.

    Shares are not among them: whoever would read one looks at it.
    """
    causes = [cause for cause in Cause if cause.scope is Scope.ENDPOINT]
    if host is not None:
        causes.append(Cause.LOCAL)
    return frozenset(breaker_name(one, endpoint=endpoint, host=host or "") for one in causes)


# -- what is on record is looked at


def is_over(breaker: Breaker, now_ms: int, rules: Rules) -> bool:
    """Whether a breaker is as good as not on record.

    After its ramp it is remembered for a while: what comes back soon is the same trouble.
    """
    rest_ms = now_ms - max(breaker.at_ms, breaker.next_ms)
    if breaker.phase is Phase.RAMP:
        return rest_ms >= max(rules.ramp_ms * RAMP_DOUBLINGS, breaker.wait_ms * 2)
    return rest_ms >= max(FORGOTTEN_MS, breaker.wait_ms * 2)


def in_force(conditions: Conditions, names: Iterable[str], rules: Rules) -> list[Breaker]:
    """Return the breakers of these names that are not over."""
    wanted = frozenset(names)
    return [
        one
        for one in conditions.breakers
        if one.name in wanted and not is_over(one, conditions.now_ms, rules)
    ]


def holds(breaker: Breaker) -> bool:
    """Whether files are held by it."""
    return breaker.phase in (Phase.OPEN, Phase.PROBING)


def window(breakers: Sequence[Breaker], now_ms: int, whole: int, rules: Rules) -> int:
    """Return how many unclaimed messages an instrument may have.

    One, the canary's, where a probe is due; none where one is not due or under way.
    """
    return min((_window(one, now_ms, whole, rules) for one in breakers), default=whole)


def _window(breaker: Breaker, now_ms: int, whole: int, rules: Rules) -> int:
    if holds(breaker):
        return min(int(now_ms >= breaker.next_ms), whole)
    if breaker.phase is Phase.RAMP:
        doublings = max(now_ms - breaker.at_ms, 0) // max(rules.ramp_ms, 1)
        return min(1 << min(doublings, RAMP_DOUBLINGS), whole)
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether a worker may ask the endpoint.

    `blocker` says why not, then `wait_ms` until it is worth another look; `probes` are breakers
    that may be probed, as they are to be on record once this worker does.
    """

    blocker: Breaker | None = None
    wait_ms: int = 0
    probes: tuple[Breaker, ...] = field(default=())


def admit(breakers: Sequence[Breaker], now_ms: int, rules: Rules) -> Admission:
    """Return whether a worker may go on, must wait, or is to probe all that are due."""
    shut = [one for one in breakers if wait_of(one, now_ms, rules)]
    if shut:
        blocker = max(shut, key=lambda one: wait_of(one, now_ms, rules))
        return Admission(blocker=blocker, wait_ms=wait_of(blocker, now_ms, rules))
    return Admission(probes=tuple(_probing(one, now_ms, rules) for one in breakers if holds(one)))


def wait_of(breaker: Breaker, now_ms: int, rules: Rules) -> int:
    """Return how long a file is held by a breaker now.

    A probe under way ends when it ends: its answer is worth a look before its lease is over.
    """
    if not holds(breaker):
        return 0
    left_ms = max(breaker.next_ms - now_ms, 0)
    return min(left_ms, rules.probe_ms) if breaker.phase is Phase.PROBING else left_ms


def _probing(breaker: Breaker, now_ms: int, rules: Rules) -> Breaker:
    return replace(
        breaker,
        phase=Phase.PROBING,
        at_ms=now_ms,
        next_ms=now_ms + rules.lease_ms,
        probes=breaker.probes + 1,
    )


# -- what is to be on record


def opened(
    seen: Breaker | None, name: str, failure: Failure, now_ms: int, rules: Rules
) -> Breaker | None:
    """Return the breaker once a failure opened it; None where that changes nothing."""
    if seen is None or is_over(seen, now_ms, rules) or seen.phase is Phase.CLOSED:
        return _open(_new(name, failure, now_ms), failure, now_ms, rules.probe_ms)
    if holds(seen):
        return None
    return _open(seen, failure, now_ms, min(seen.wait_ms * 2, rules.cap_ms))


def still_failing(
    seen: Breaker | None, name: str, failure: Failure, now_ms: int, rules: Rules
) -> Breaker | None:
    """Return the breaker of what was looked at again and still fails; None before it is due."""
    if seen is None or is_over(seen, now_ms, rules) or not holds(seen):
        return opened(seen, name, failure, now_ms, rules)
    if now_ms < seen.next_ms:
        return None
    return _open(seen, failure, now_ms, min(seen.wait_ms * 2, rules.cap_ms))


def probe_failed(
    seen: Breaker | None, probed: Breaker, failure: Failure, now_ms: int, rules: Rules
) -> Breaker | None:
    """Return the breaker after a probe that failed; None where another probes by now."""
    if seen is None or not _same_probe(seen, probed) or seen.probes != probed.probes:
        return None
    return _open(seen, failure, now_ms, min(seen.wait_ms * 2, rules.cap_ms))


def probe_passed(seen: Breaker | None, probed: Breaker, now_ms: int) -> Breaker | None:
    """Return the breaker after a probe that passed; late is as good as in time."""
    if seen is None or not _same_probe(seen, probed):
        return None
    return replace(seen, phase=Phase.RAMP, at_ms=now_ms, next_ms=0, strikes=0)


def probe_left(seen: Breaker | None, probed: Breaker, now_ms: int) -> Breaker | None:
    """Return the breaker after a probe that says nothing, for instance of a file that is gone."""
    if seen is None or seen.phase is not Phase.PROBING or seen.probes != probed.probes:
        return None
    return replace(seen, phase=Phase.OPEN, at_ms=now_ms, next_ms=now_ms)


def struck(seen: Breaker | None, name: str, failure: Failure, now_ms: int, rules: Rules) -> Breaker:
    """Return the breaker with one more failure that may be the endpoint's."""
    if seen is None or is_over(seen, now_ms, rules):
        seen = _new(name, failure, now_ms)
    at_ms = now_ms if seen.phase is Phase.CLOSED else seen.at_ms
    return replace(seen, strikes=seen.strikes + 1, at_ms=at_ms)


def cleared(seen: Breaker | None) -> Breaker | None:
    """Return the breaker without strikes, after a success; None where there are none."""
    return replace(seen, strikes=0) if seen is not None and seen.strikes else None


def healed(seen: Breaker | None, now_ms: int) -> Breaker | None:
    """Return the breaker of what was seen to be well again, without a probe."""
    if seen is None or not holds(seen):
        return None
    return replace(seen, phase=Phase.RAMP, at_ms=now_ms, next_ms=0, strikes=0)


def _same_probe(seen: Breaker, probed: Breaker) -> bool:
    return holds(seen) and seen.since_ms == probed.since_ms


def _new(name: str, failure: Failure, now_ms: int) -> Breaker:
    return Breaker(
        name=name,
        cause=failure.cause or Cause.ENDPOINT,
        phase=Phase.CLOSED,
        code=failure.code,
        message=failure.message,
        since_ms=now_ms,
        at_ms=now_ms,
    )


def _open(breaker: Breaker, failure: Failure, now_ms: int, wait_ms: int) -> Breaker:
    asked_ms = int((failure.retry_after_s or 0) * 1000)
    is_new = breaker.phase in (Phase.CLOSED, Phase.RAMP)
    return replace(
        breaker,
        phase=Phase.OPEN,
        code=failure.code,
        message=failure.message,
        at_ms=now_ms,
        wait_ms=wait_ms,
        next_ms=now_ms + max(wait_ms, asked_ms),
        opened=breaker.opened + is_new,
        strikes=0,
    )

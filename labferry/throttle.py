"""How much is asked of an endpoint that asked for less? Half, and then more and more again.

Pure; all workers share the pace, as each of them is a part of what was too much.
"""

from dataclasses import dataclass

from labferry.failures import Failure

#: An endpoint is asked for half as much at most this often, and for no less than this.
HALVING_MS = 1000
LEAST_PACE = 1 / 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How much an endpoint that asked for less is asked for since an instant; it grows again."""

    name: str
    share: float
    at_ms: int
    code: str
    message: str
    revision: int = 0


def share_of(pace: Pace | None, now_ms: int, recovery_ms: int) -> float:
    """Return the share of its threads that a worker may use, from nearly 0 to 1."""
    if pace is None:
        return 1.0
    doublings = max(now_ms - pace.at_ms, 0) / max(recovery_ms, 1)
    growth: float = 2.0 ** min(doublings, 64)
    return min(pace.share * growth, 1.0)


def throttled(
    seen: Pace | None, name: str, failure: Failure, now_ms: int, recovery_ms: int
) -> Pace | None:
    """Return the pace once the endpoint asked for less; None where it was halved just now."""
    if seen is not None and now_ms - seen.at_ms < HALVING_MS:
        return None
    return Pace(
        name=name,
        share=max(share_of(seen, now_ms, recovery_ms) / 2, LEAST_PACE),
        at_ms=now_ms,
        code=failure.code,
        message=failure.message,
        revision=seen.revision if seen else 0,
    )


def threads(wanted: int, share: float) -> int:
    """Return how many of so many threads may work at that pace; never none."""
    return max(1, int(wanted * share))

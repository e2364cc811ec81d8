"""How many requests may be under way at an endpoint? As many as make it faster, and no more.

Nobody sets this by hand: every now and then twice as many are tried, and kept if that was faster by
a good part; and half as many, kept if that was hardly slower. A far endpoint is filled by that, and
a slow one not flooded. Pure.
"""

from dataclasses import dataclass, field

#: What is measured: so many answers for each that is under way, and for so long, at least.
_ROUNDS = 4
_SHORTEST_S = 0.2
#: Twice as many stay if the rate grew by this, half as many if it fell to this.
_FASTER, _HARDLY_SLOWER = 1.25, 0.9
#: After a try that was no good there is none for this long.
_REST_S = 10.0


@dataclass(slots=True)
class Concurrency:
    """The number of requests that may be under way, from `least` to `most`.

    A pause longer than `gap_s` is none of the endpoint's.
    """

    least: int
    most: int
    gap_s: float = 1.0
    limit: int = field(init=False)
    _before: tuple[int, float] | None = None
    _answers: int = 0
    _busy_s: float = 0.0
    _seen_s: float = float("-inf")
    _rests_until_s: float = float("-inf")
    _next_is_more: bool = True

    def __post_init__(self) -> None:
        self.limit = self.least

    def answered(self, now_s: float) -> None:
        """Note an answer that came while as many were under way as may be."""
        gap_s = now_s - self._seen_s
        self._seen_s = now_s
        if gap_s > self.gap_s:
            return
        self._answers += 1
        self._busy_s += gap_s
        if self._answers >= _ROUNDS * self.limit and self._busy_s >= _SHORTEST_S:
            rate = self._answers / self._busy_s
            self._answers, self._busy_s = 0, 0.0
            self._decide(rate, now_s)

    def pause(self) -> None:
        """Let the time until the next answer count for nothing."""
        self._seen_s = float("-inf")

    def _decide(self, rate: float, now_s: float) -> None:
        before = self._before  # a thread that was given up may come in between
        if before is not None:
            limit_before, rate_before = before
            grew = self.limit > limit_before
            if rate < rate_before * (_FASTER if grew else _HARDLY_SLOWER):
                self.limit, self._before = limit_before, None
                self._next_is_more = not grew
                self._rests_until_s = now_s + _REST_S
                return
        if now_s >= self._rests_until_s:
            self._try_another(rate)

    def _try_another(self, rate: float) -> None:
        wanted = self.limit * 2 if self._next_is_more else self.limit // 2
        wanted = min(max(wanted, self.least), self.most)
        if wanted == self.limit:
            self._before, self._next_is_more = None, not self._next_is_more
            return
        self._before, self.limit = (self.limit, rate), wanted

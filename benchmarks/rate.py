"""At how many files a second does a run go, while it goes at its full pace?

The rate is that of the eight tenths in the middle: neither the start nor the last lease counts.
"""

import time

#: What is over sooner took so long.
_INSTANT_S = 0.05


class Rate:
    """Files a second, from a tenth of them to nine tenths."""

    def __init__(self, files: int) -> None:
        """`files` is how many there are."""
        self._least, self._most = files // 10, files * 9 // 10
        self._seen: list[tuple[float, int]] = []

    def look(self, verified: int) -> None:
        """Note how many are verified now."""
        if verified >= self._least and (not self._seen or self._seen[-1][1] < self._most):
            self._seen.append((time.monotonic(), verified))

    @property
    def is_between(self) -> bool:
        """Whether it is being measured."""
        return bool(self._seen) and self._seen[-1][1] < self._most

    @property
    def per_s(self) -> float:
        """Return the rate."""
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / max(last_s - first_s, _INSTANT_S)

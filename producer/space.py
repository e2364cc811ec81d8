"""How much room is left on a share, and how fast is it filled? By looks at it, never by its files.

Everything that lies on the share counts, whoever writes it: that is what stops an acquisition.
"""

import os
from collections import deque
from pathlib import Path

from labferry.passes import Space

#: A rate is taken over this long, and not before the shortest time.
WINDOW_S = 1800.0
SHORTEST_S = 60.0


class SpaceLooks:
    """Looks at one share; `known` is what was told of it before."""

    def __init__(self, root: Path, known: Space | None = None) -> None:
        self._root = root
        self._fills_bytes_per_s = known.fills_bytes_per_s if known else 0.0
        self._seen: deque[tuple[float, int]] = deque()

    def look(self, now_s: float) -> Space | None:
        """Return what is seen now, on a clock that only grows; None where it cannot be told."""
        try:
            found = os.statvfs(self._root)
        except OSError:
            return None
        return self.observe(now_s, found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def observe(self, now_s: float, free_bytes: int, total_bytes: int) -> Space:
        """Return the room with the rate at which it went over the last while."""
        self._seen.append((now_s, free_bytes))
        while len(self._seen) > 1 and now_s - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        then_s, free_then = self._seen[0]
        if now_s - then_s >= SHORTEST_S:
            self._fills_bytes_per_s = max(0.0, (free_then - free_bytes) / (now_s - then_s))
        return Space(
            free_bytes=free_bytes,
            total_bytes=total_bytes,
            fills_bytes_per_s=round(self._fills_bytes_per_s, 1),
        )

"""Which completion markers are there? For consumers that reach the bucket and no queue."""

import logging
from collections.abc import Callable, Iterator

from labferry.errors import MalformedMessage, StoreError
from labferry.events import read_event, run_event
from labferry.identity import Layout
from labferry.manifest import join_marker, read_marker
from labferry.ports import Clock, ObjectStore
from labferry.telemetry import emit

_NAMES = ("/complete.json", "/incomplete.json")


class MarkerWatch:
    """Makes of each marker the event that labferry tells of it; each is read once."""

    def __init__(self, store: ObjectStore, layout: Layout, clock: Clock, *, every_s: float) -> None:
        self._store = store
        self._layout = layout
        self._clock = clock
        self._every_s = every_s
        self._next_s = clock.mono_s()
        self._seen: set[str] = set()

    def look(self, take: Callable[[object], None]) -> bool:
        """Hand on what is new, if it is time to look; return whether anything was.

        Raises: StoreError when the bucket cannot be listed.
        """
        if self._clock.mono_s() < self._next_s:
            return False
        self._next_s = self._clock.mono_s() + self._every_s
        new = [key for key in self._keys() if key not in self._seen]
        for key in new:
            self._hand_on(key, take)
        return bool(new)

    def _keys(self) -> Iterator[str]:
        for one in self._store.list_objects(self._layout.everything("runs")):
            if one.key.endswith(_NAMES):
                yield one.key

    def _hand_on(self, key: str, take: Callable[[object], None]) -> None:
        """Read one marker; one that cannot be read keeps no other from being handed on."""
        try:
            marker = read_marker(join_marker(self._store.read(key)))
            take(read_event(run_event(marker, key, self._store.bucket)))
            self._seen.add(key)
        except (StoreError, MalformedMessage) as error:
            emit("marker.unread", level=logging.ERROR, key=key, error=str(error))
            if isinstance(error, MalformedMessage):
                self._seen.add(key)

    def close(self) -> None:
        """Nothing is held open."""

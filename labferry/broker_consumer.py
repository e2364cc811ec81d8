"""How often does a Celery worker publish its events? Some times a second, whatever comes in.

Celery does it after each of the three events that a message has: with a message a file, that took
nearly half of what its main process had to do.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer

#: Nobody who looks at Flower sees so short a wait.
_EVENTS_S = 0.1


class Consumer(CeleryConsumer):
    """Celery's own, but for that."""

    hub: Any
    _flush_events: Callable[[], None]
    _flushed_s = float("-inf")

    def on_send_event_buffered(self) -> None:  # type: ignore[override]  # the stubs are wrong
        """See to it that what is buffered is published soon."""
        now_s = monotonic()
        # By the clock and not by a flag: a timer is gone with a connection that was lost.
        if self.hub is not None and now_s >= self._flushed_s:
            self._flushed_s = now_s + _EVENTS_S
            self.hub.call_later(_EVENTS_S, self._flush_events)

    def shutdown(self) -> None:
        """Publish what is buffered, and end."""
        self._flush_events()
        super().shutdown()

"""How often are Celery's events published?"""

from collections.abc import Callable

import pytest

from labferry import broker_consumer
from labferry.broker_consumer import Consumer


class Hub:
    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, wait_s: float, call: Callable[[], None]) -> None:
        self.later.append((wait_s, call))


class Dispatcher:
    flushes = 0

    def flush(self) -> None:
        self.flushes += 1


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [0.0]
    monkeypatch.setattr(broker_consumer, "monotonic", lambda: clock[0])
    return clock


def consumer() -> Consumer:
    made = Consumer.__new__(Consumer)
    made.hub = Hub()
    made.event_dispatcher = Dispatcher()  # type: ignore[attr-defined]  # the stubs are older
    return made


def test_events_that_come_together_are_published_together(now_s: list[float]) -> None:
    made = consumer()
    for now_s[0] in (0.0, 0.01, 0.09):
        made.on_send_event_buffered()
    ((wait_s, flush),) = made.hub.later
    assert wait_s == pytest.approx(0.1)
    flush()
    assert made.event_dispatcher.flushes == 1  # type: ignore[attr-defined]


def test_an_event_after_that_is_published_too_whatever_became_of_the_timer(
    now_s: list[float],
) -> None:
    made = consumer()
    made.on_send_event_buffered()
    made.hub.later.clear()  # as with a connection that was lost
    now_s[0] = 0.1
    made.on_send_event_buffered()
    assert len(made.hub.later) == 1

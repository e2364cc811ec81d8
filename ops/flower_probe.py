"""Does Flower still hear the workers? If not, it ends, and is started again by who started it.

A half-open connection to the broker is never noticed by its event stream: pages stay as they
were, for ever. Workers send a heartbeat every two seconds, so what Flower counts must grow. A
thread of Flower's own process looks, and listens for itself over a new connection.
"""

import json
import logging
import os
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Callable

from labferry.broker import workers_are_heard
from labferry.clock import SystemClock
from labferry.settings import Settings
from labferry.telemetry import emit
from ops.flower_access import flower_url

_LOOKS = 6  # in the time after which silence is believed
_ANSWER_S = 10.0
#: Workers send a heartbeat every two seconds.
_LISTEN_S = 8.0
#: Exit status of a Flower that hears nothing. Source: EX_SOFTWARE of sysexits.h.
SILENT_EXIT = 70


class Stream:
    """What was heard, and since when nothing new was."""

    def __init__(self, limit_s: float, now_s: float) -> None:
        self._limit_s = limit_s
        self._heard: int | None = None
        self._since_s = now_s

    def is_silent(self, heard: int | None, now_s: float) -> bool:
        """Take in how many events were counted, None where Flower does not answer.

        Return whether nothing was new for too long; workers that are not there send nothing.
        """
        if heard is not None and heard != self._heard:
            self._heard, self._since_s = heard, now_s
        return now_s - self._since_s >= self._limit_s

    def excuse(self, now_s: float) -> None:
        """Begin anew: nobody was there to be heard."""
        self._since_s = now_s


def watch_stream(settings: Settings) -> None:
    """Watch this process's Flower in a thread."""
    threading.Thread(target=_watch, args=[settings], name="flower-probe", daemon=True).start()


def _watch(settings: Settings) -> None:
    clock, limit_s = SystemClock(), settings.flower.silent_s
    look = _look(settings)
    stream = Stream(limit_s, clock.mono_s())
    while True:
        clock.sleep_s(limit_s / _LOOKS)
        heard = look()
        if not stream.is_silent(heard, clock.mono_s()):
            continue
        if heard is not None and not workers_are_heard(settings, _LISTEN_S):
            stream.excuse(clock.mono_s())
            continue
        settings.logs.apply("flower")
        emit("flower.silent", level=logging.WARNING, for_s=limit_s, answers=heard is not None)
        os._exit(SILENT_EXIT)  # its own way out waits for what hangs


def _look(settings: Settings) -> Callable[[], int | None]:
    """Return what counts the events that Flower heard, by its own page."""
    flower = settings.flower
    request = urllib.request.Request(f"{flower_url(flower)}workers?json=1")  # noqa: S310  our own
    if password := flower.basic_auth.get_secret_value():
        request.add_header("Authorization", f"Basic {b64encode(password.encode()).decode()}")

    def look() -> int | None:
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310
                return _heard(json.load(answer))
        except (OSError, ValueError):
            return None

    return look


def _heard(found: dict[str, list[dict[str, object]]]) -> int:
    """Count the events of all workers: each has a number for every kind, such as task-failed."""
    return sum(
        number
        for worker in found["data"]
        for kind, number in worker.items()
        if kind.startswith(("worker-", "task-")) and isinstance(number, int)
    )

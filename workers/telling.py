"""How is each event given to each sink, at least once, in the order of its run?

What is about to be given goes on record first: whoever finds such a record without its end says
that the outcome is unknown, and repeats it or leaves it to a person, by setting. A sink that does
not answer is left in peace for a while; no other sink, and no upload, waits for it.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from labferry.alerts import parked_key, parked_text
from labferry.celery_events import CeleryTask
from labferry.clock import SystemClock
from labferry.dead_letter import iso
from labferry.errors import MalformedMessage, NotDelivered
from labferry.event_sinks import EventSink, Parcel, open_event_sinks
from labferry.events import DELIVERY, read_event
from labferry.identity import RunKey
from labferry.outbox import UNKNOWN, Delivery, Waiting, after_failure, begun, interrupted, moved_on
from labferry.ports import Clock, Ledger
from labferry.retry import Budget
from labferry.settings import Settings
from labferry.telemetry import emit
from workers.rounds import Rounds, keep_s

#: A sink that is new to the ledger is not told of what is older.
_NEW_MS = 24 * 3_600_000
#: What is told of a run longer ago than this is in its outbox for certain.
_UNDERWAY_MS = 120_000
#: What is no event no receiver would take.
_NO_EVENT = 400
#: Between two looks for outboxes of which everybody was told everything.
_TIDY_S = 60.0


class Teller:
    """Gives events to one sink."""

    def __init__(self, ledger: Ledger, sink: EventSink, clock: Clock, settings: Settings) -> None:
        self._ledger = ledger
        self._sink = sink
        self._clock = clock
        self._kinds = frozenset(settings.events.kinds)
        self._parks_unknown = settings.events.on_unknown == "park" and not sink.is_repeatable
        self._round_s = settings.events.timeout_s
        of_events = {
            "attempts": settings.events.attempts,
            "elapsed_s": settings.events.elapsed_s,
        }
        self._budget = Budget(**{**settings.retry.model_dump(), **of_events})
        self._rests_until_s = float("-inf")
        #: Runs of which nothing is left to be told, as long as they were told of at this instant.
        self._settled: dict[RunKey, int] = {}

    def round(self) -> None:
        """Give what is due, until nothing is, the time is up or the sink does not answer.

        Raises: LedgerUnavailable.
        """
        now_s = self._clock.mono_s()
        if now_s < self._rests_until_s:
            return
        while self._pass(now_s + self._round_s):
            pass

    def _pass(self, until_s: float) -> bool:
        """Give the next event of each run; return whether there may be more to give."""
        told_ms = dict(self._ledger.open_outboxes())
        since_ms = self._ledger.sink_since(self._sink.name)
        self._settled = {run: at for run, at in self._settled.items() if told_ms.get(run) == at}
        runs = [run for run in told_ms if run not in self._settled]
        some = False
        for one in self._ledger.waiting_events(self._sink.name, runs):
            now_s, now_ms = self._clock.mono_s(), self._ledger.now_ms()
            if not one.event and told_ms[one.run] < now_ms - _UNDERWAY_MS:
                self._settled[one.run] = told_ms[one.run]
            if now_s < self._rests_until_s or now_s > until_s:
                return False
            if not one.event or one.delivery.parked or one.delivery.due_ms > now_ms:
                continue
            if not one.delivery.revision and told_ms[one.run] < since_ms - _NEW_MS:
                self._swap(one, Delivery(position=one.count))
            elif self._give(one, now_ms):
                some = True
        return some

    def _give(self, waiting: Waiting, now_ms: int) -> bool:
        """Give one event; return whether its run's next one may follow."""
        try:
            event = read_event(waiting.event)
        except MalformedMessage as error:
            why = NotDelivered(sink=self._sink.name, why=str(error), status=_NO_EVENT)
            return self._failed(waiting, why)
        if event["event"] not in self._kinds:
            return self._swap(waiting, moved_on(waiting.delivery)) is not None
        if waiting.delivery.begun_ms:
            return self._failed(waiting, interrupted(self._sink.name))
        started = self._swap(waiting, begun(waiting.delivery, now_ms))
        if started is None:
            return False
        parcel, is_unknown = (
            _parcel(event, started.delivery, now_ms),
            started.delivery.code == UNKNOWN,
        )
        found = is_unknown and self._sink.has(parcel)
        try:
            if not found:
                self._sink.deliver(parcel)
        except NotDelivered as error:
            return self._failed(started, error)
        what = "event.found" if found else "event.delivered"
        emit(what, id=event["id"], kind=event["event"], sink=self._sink.name)
        return self._swap(started, moved_on(started.delivery)) is not None

    def _failed(self, waiting: Waiting, error: NotDelivered) -> bool:
        """Record that an event was not taken, or that nobody knows; return False."""
        now_ms = self._ledger.now_ms()
        after = after_failure(
            waiting.delivery,
            error,
            now_ms=now_ms,
            budget=self._budget,
            uniform=self._clock.uniform(),
            parks_unknown=self._parks_unknown,
        )
        if not error.answered or error.status is None:
            self._rests_until_s = self._clock.mono_s() + (after.due_ms - now_ms) / 1000
        if after.parked:
            text = parked_text(waiting.run, error.sink, after.tries, error.why)
            key = parked_key(waiting.run, error.sink, waiting.delivery.position, now_ms)
            self._ledger.alert(key, text, 0)
        self._swap(waiting, after)
        emit(
            "event.parked" if after.parked else "event.undelivered",
            level=logging.WARNING,
            run=str(waiting.run),
            sink=error.sink,
            tries=after.tries,
            unknown=after.unknown,
            error=error.why,
        )
        return False

    def _swap(self, seen: Waiting, new: Delivery) -> Waiting | None:
        """Record a delivery; None where somebody else changed it meanwhile."""
        if not self._ledger.swap_delivery(seen.run, seen.sink, seen.delivery, new):
            return None
        return _with(seen, new)


class Tidier:
    """Closes the outboxes of which every sink was told everything, and no new one would be."""

    def __init__(self, ledger: Ledger, sinks: Sequence[str], clock: Clock) -> None:
        self._ledger = ledger
        self._sinks = sinks
        self._clock = clock
        self._next_s = clock.mono_s()

    def round(self) -> None:
        """Look if it is time to. Raises: LedgerUnavailable."""
        if self._clock.mono_s() < self._next_s:
            return
        self._next_s = self._clock.mono_s() + _TIDY_S
        old_ms = self._ledger.now_ms() - _NEW_MS
        runs = [run for run, told_ms in self._ledger.open_outboxes() if told_ms < old_ms]
        waiting = [self._ledger.waiting_events(sink, runs) for sink in self._sinks]
        busy = {one.run for one in chain(*waiting) if one.event}
        for run in runs:
            if run not in busy:
                self._ledger.close_outbox(run)


def event_rounds(settings: Settings) -> Iterator[Rounds]:
    """Yield what is to be done again and again for each sink of the settings."""
    sinks: list[EventSink] = list(open_event_sinks(settings))
    if settings.events.celery_task:
        sinks.append(CeleryTask(settings))
    kept_s = keep_s(settings.events.timeout_s)
    for sink in sinks:
        make = partial(_teller, sink, settings)
        yield Rounds(name=f"events:{sink.name}", make=make, keep_s=kept_s)
    names = [sink.name for sink in sinks]
    yield Rounds(name="events:tidy", make=partial(_tidier, names), keep_s=kept_s)


def _teller(sink: EventSink, settings: Settings, ledger: Ledger) -> Callable[[], None]:
    return Teller(ledger, sink, SystemClock(), settings).round


def _tidier(names: Sequence[str], ledger: Ledger) -> Callable[[], None]:
    return Tidier(ledger, names, SystemClock()).round


def _parcel(event: dict[str, object], delivery: Delivery, now_ms: int) -> Parcel:
    of_delivery = {
        "attempt": delivery.tries + 1,
        "unknown": delivery.unknown,
        "sent_at": iso(now_ms),
    }
    body = json.dumps({**event, DELIVERY: of_delivery}, sort_keys=True, ensure_ascii=False)
    return Parcel(
        kind=str(event["event"]),
        id=str(event["id"]),
        run=str(event["run"]),
        body=body.encode(),
        sent_ms=now_ms,
    )


def _with(waiting: Waiting, delivery: Delivery) -> Waiting:
    """Return what waits with its delivery as it is on record now."""
    kept = replace(delivery, revision=waiting.delivery.revision + 1)
    return replace(waiting, delivery=kept)

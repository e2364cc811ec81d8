"""Which events are others to be told, and how far is each sink?"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from labferry.identity import RunKey
from labferry.ledger.keys import EVENT_SINKS, OUTBOXES, RunKeys, run_keys_of
from labferry.ledger.section import LONGEST_CALL_MS, Section
from labferry.ledger.server import Argument, to_ms
from labferry.outbox import Delivery, Waiting
from labferry.versioned import known, read_versioned, write_versioned

_VERSION = 1


class Outboxes(Section):
    """The part of the ledger that holds events and their deliveries."""

    def tell(self, run: RunKey, events: Sequence[str]) -> None:
        """Add events to a run's outbox."""
        if events:
            self._open_outbox(run)
            self._server.ask(self._server.client.rpush, RunKeys(run).outbox, *events)
            self._open_outbox(run)

    def told(self, run: RunKey) -> list[str]:
        """Return all events of a run."""
        lines = self._server.ask(self._server.client.lrange, RunKeys(run).outbox, 0, -1)
        return [line.decode() for line in lines]

    def _open_outbox(self, run: RunKey) -> None:
        """Note that something is told of a run: before it is, and again after, in case that took
        longer than any call should."""
        self._server.script("activate", [OUTBOXES], [str(run)])

    def open_outboxes(self) -> list[tuple[RunKey, int]]:
        """Return the runs of which somebody may be told something yet."""
        client = self._server.client
        found = self._server.ask(client.zrange, OUTBOXES, 0, -1, withscores=True)
        runs = run_keys_of(name for name, _ in found)
        return [(run, int(at_ms)) for run, (_, at_ms) in zip(runs, found, strict=True)]

    def close_outbox(self, run: RunKey) -> None:
        """Leave a run out until something is told of it again."""
        self._server.script("retire", [OUTBOXES], [str(run), LONGEST_CALL_MS])

    def sink_since(self, sink: str) -> int:
        """Return since when a sink is on record."""
        client = self._server.client
        now_ms = to_ms(self._server.ask(client.time))
        self._server.ask(client.hsetnx, EVENT_SINKS, sink, now_ms)
        return int(self._server.ask(client.hget, EVENT_SINKS, sink) or now_ms)

    def event_sinks(self) -> list[str]:
        """Return the sinks on record."""
        found = self._server.ask(self._server.client.hkeys, EVENT_SINKS)
        return sorted(name.decode() for name in found)

    def waiting_events(self, sink: str, runs: Sequence[RunKey]) -> list[Waiting]:
        """Return what a sink was given of each run, and the event that is next."""
        if not runs:
            return []

        def fill(pipe: Any) -> None:
            for run in runs:
                pipe.hget(RunKeys(run).deliveries, sink)
                pipe.llen(RunKeys(run).outbox)

        replies = self._server.pipeline(fill)
        places = [_unpack(value) for value in replies[::2]]
        return self._with_events(
            Waiting(run=run, sink=sink, delivery=place, count=count)
            for run, place, count in zip(runs, places, replies[1::2], strict=True)
        )

    def swap_delivery(self, run: RunKey, sink: str, seen: Delivery, new: Delivery) -> bool:
        """Put a sink's place in the place of the one that was seen."""
        args: list[Argument] = [sink, seen.revision, _pack(new, seen.revision + 1), "", ""]
        if seen.parked and not new.parked:
            self._open_outbox(run)
        return bool(self._server.script("swap", [RunKeys(run).deliveries], args))

    def parked_deliveries(self) -> list[Waiting]:
        """Return the deliveries that wait for a person."""
        runs = [run for run, _ in self.open_outboxes()]
        if not runs:
            return []

        def fill(pipe: Any) -> None:
            for run in runs:
                pipe.hgetall(RunKeys(run).deliveries)
                pipe.llen(RunKeys(run).outbox)

        replies = self._server.pipeline(fill)
        return self._with_events(
            Waiting(run=run, sink=sink.decode(), delivery=place, count=count)
            for run, places, count in zip(runs, replies[::2], replies[1::2], strict=True)
            for sink, value in sorted(places.items())
            if (place := _unpack(value)).parked
        )

    def _with_events(self, found: Iterable[Waiting]) -> list[Waiting]:
        """Return the same, each with the event that stands at its position."""
        waiting = list(found)

        def fill(pipe: Any) -> None:
            for one in waiting:
                pipe.lindex(RunKeys(one.run).outbox, one.delivery.position)

        events = self._server.pipeline(fill) if waiting else []
        return [
            replace(one, event=(event or b"").decode())
            for one, event in zip(waiting, events, strict=True)
        ]


def _pack(delivery: Delivery, revision: int) -> str:
    kept = {name: value for name, value in asdict(delivery).items() if name != "revision"}
    return f"{revision} {write_versioned(_VERSION, kept)}"


def _unpack(value: bytes | None) -> Delivery:
    """Read a sink's place; the first one where there is none. Raises: MalformedMessage."""
    if value is None:
        return Delivery()
    revision, _, text = value.partition(b" ")

    def make(found: dict[str, Any]) -> Delivery:
        return Delivery(**known(Delivery, found), revision=int(revision))

    return read_versioned(text, _VERSION, "a delivery", make)

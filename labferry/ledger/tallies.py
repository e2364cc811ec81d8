"""How much was done for each instrument, and what waits longest?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgpack

from labferry.identity import RunKey
from labferry.ledger.keys import MOVED, TALLIES, RunKeys, leader
from labferry.ledger.layout import pack_lane, unpack_record
from labferry.ledger.section import Section
from labferry.ledger.server import Argument, pack
from labferry.records import Lane
from labferry.states import State
from labferry.tallies import BEYOND, BOUNDS_S, MOVES, Tallies, Tally, What

#: Where a bundle's record, as take.lua packs it, has its files.
_PATHS = 4


class TallyRecords(Section):
    """The part of the ledger that counts."""

    def tally(self, counts: Mapping[Tally, int], arrivals: Mapping[str, Sequence[int]]) -> None:
        """Add to counters, count times until now, and date what moved."""
        args: list[Argument] = [
            pack([part for tally, count in counts.items() for part in (tally.field, count)]),
            pack([_waits(name, since_ms) for name, since_ms in arrivals.items()]),
            pack(BOUNDS_S),
            BEYOND,
            pack(sorted({tally.instrument for tally in counts if tally.what in MOVES})),
        ]
        self._server.script("tally", [TALLIES, MOVED], args)

    def tallies(self) -> Tallies:
        """Return all counters; a field of a newer labferry is left out."""

        def fill(pipe: Any) -> None:
            pipe.hgetall(TALLIES)
            pipe.hgetall(MOVED)

        counts, moved = self._server.pipeline(fill)
        return Tallies(
            counts=dict(_readable(counts)),
            moved_ms={name.decode(): int(at_ms) for name, at_ms in moved.items()},
        )

    def waiting_since(self, runs: Sequence[RunKey]) -> int:
        """Return when the file settled that waits longest for a worker in any of the runs, or 0."""
        keys = [RunKeys(run) for run in runs]

        def heads(pipe: Any) -> None:
            for one in keys:
                pipe.zrange(one.sent, 0, -1)
                for lane in Lane:
                    pipe.lindex(one.ready + pack_lane(lane).decode(), 0)

        found = self._server.pipeline(heads) if keys else []
        width = 1 + len(Lane)
        firsts = self._firsts(keys, found[::width])
        waiting = [
            [path for path in (*first, *found[n * width + 1 : (n + 1) * width]) if path]
            for n, first in enumerate(firsts)
        ]
        return min(self._settled(keys, waiting), default=0)

    def _firsts(
        self, keys: Sequence[RunKeys], numbers: Sequence[Sequence[bytes]]
    ) -> list[list[bytes]]:
        """Return of each run the first file of each bundle that was sent."""

        def fill(pipe: Any) -> None:
            for one, of_run in zip(keys, numbers, strict=True):
                pipe.hmget(one.bundles, of_run or [b""])

        # One may be claimed since its number was read.
        found = self._server.pipeline(fill) if keys else []
        return [
            [msgpack.unpackb(one, raw=True)[_PATHS][0] for one in bundles if one]
            for bundles in found
        ]

    def _settled(
        self, keys: Sequence[RunKeys], waiting: Sequence[Sequence[bytes]]
    ) -> Iterator[int]:
        """Yield when each of these files settled, if it is still eligible."""

        def fill(pipe: Any) -> None:
            for one, paths in zip(keys, waiting, strict=True):
                pipe.hmget(one.files, paths or [b""])

        for values in self._server.pipeline(fill) if keys else []:
            records = (unpack_record(value) for value in values if value)
            yield from (one.settled_ms for one in records if one.state is State.ELIGIBLE)

    def dead_since(self, runs: Sequence[RunKey]) -> int:
        """Return since when the oldest dead letter of any of the runs is one, or 0."""

        def fill(pipe: Any) -> None:
            for run in runs:
                pipe.zrange(RunKeys(run).dead, 0, 0, withscores=True)

        found = self._server.pipeline(fill) if runs else []
        return min((int(oldest[0][1]) for oldest in found if oldest), default=0)

    def is_led(self, name: str) -> bool:
        """Whether somebody holds that leadership."""
        return bool(self._server.ask(self._server.client.exists, leader(name)))


def _waits(instrument: str, since_ms: Sequence[int]) -> tuple[object, ...]:
    wait = Tally(instrument, What.WAIT)
    return wait.field, wait._replace(what=What.WAITED_MS).field, list(since_ms)


def _readable(counts: Mapping[bytes, bytes]) -> Iterable[tuple[Tally, int]]:
    for name, count in counts.items():
        try:
            yield Tally.parse(name.decode()), int(count)
        except ValueError:
            continue

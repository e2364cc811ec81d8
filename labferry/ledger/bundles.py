"""Which files ride in one message, and which messages are to be sent?"""

from collections.abc import Sequence

from labferry.identity import RunKey
from labferry.ledger.keys import RunKeys
from labferry.ledger.layout import letters, pack_lane, unpack_lane
from labferry.ledger.section import Section
from labferry.records import Bundle, Lane
from labferry.states import MOVE_OF, Event, State

#: The longest time until an unclaimed message is sent again.
_LONGEST_RESEND_MS = 3_600_000
#: Due files moved in one step, so that no other client waits for long, and steps of one call.
_DUE_AT_ONCE = 5000
_MOST_SLICES = 40


class Bundles(Section):
    """The part of the ledger that makes bundles and remembers them until they are claimed."""

    def take(
        self, run: RunKey, lane: Lane, *, bundles: int, max_files: int, max_bytes: int
    ) -> list[Bundle]:
        """Make bundles of eligible files and record them as sent."""
        keys, letter = RunKeys(run), pack_lane(lane)
        replies = self._server.script(
            "take",
            [keys.files, keys.meta, keys.ready + letter.decode(), keys.sent, keys.bundles],
            [State.ELIGIBLE.wire, letter, bundles, max_files, max_bytes, self._resend_ms],
        )
        return [
            Bundle(
                run=run,
                number=number,
                lane=lane,
                paths=_decode(paths),
                attempt=attempt,
                series=series,
            )
            for number, attempt, series, paths in replies
        ]

    def take_due(self, run: RunKey, limit: int) -> list[Bundle]:
        """Retry files whose due time has come."""
        bundles: list[Bundle] = []
        for _ in range(_MOST_SLICES):
            slice_of = min(_DUE_AT_ONCE, limit - len(bundles))
            due, found = self._take_due(run, slice_of)
            bundles += found
            if due < slice_of or len(bundles) >= limit:
                break
        return bundles

    def _take_due(self, run: RunKey, limit: int) -> tuple[int, list[Bundle]]:
        """Return how many files were due, and the bundles of those that failed."""
        keys, move = RunKeys(run), MOVE_OF[Event.RETRY]
        due, *replies = self._server.script(
            "take_due",
            [keys.files, keys.meta, keys.due, keys.sent, keys.bundles, keys.ready],
            [
                letters(move.sources),
                State.HELD.wire,
                move.target.wire,
                limit,
                self._resend_ms,
            ],
        )
        return due, [
            Bundle(
                run=run,
                number=number,
                lane=unpack_lane(lane),
                paths=(path.decode(),),
                attempt=attempt,
                series=series,
            )
            for number, attempt, series, lane, path in replies
        ]

    def take_unclaimed(self, run: RunKey, limit: int) -> list[Bundle]:
        """Return bundles to be sent again."""
        keys = RunKeys(run)
        args = [limit, self._resend_ms, _LONGEST_RESEND_MS]
        return [
            Bundle(
                run=run,
                number=number,
                lane=unpack_lane(lane),
                paths=_decode(paths),
                tries=tries,
                attempt=attempt,
                series=series,
            )
            for number, lane, tries, attempt, series, paths in self._server.script(
                "take_unclaimed", [keys.sent, keys.bundles], args
            )
        ]


def _decode(paths: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(path.decode() for path in paths)

"""Which files are dead letters, and of which does the bucket not tell yet?"""

from collections.abc import Iterator, Sequence
from typing import Any

from labferry.dead_letter import DeadFile, DeadLetter
from labferry.identity import RunKey
from labferry.ledger.files import OUTCOMES, activate
from labferry.ledger.keys import RunKeys
from labferry.ledger.layout import letters as letters_of
from labferry.ledger.layout import unpack_record
from labferry.ledger.notes import pack_line, unpack_note
from labferry.ledger.section import Section
from labferry.ledger.server import Argument, pack
from labferry.records import Outcome
from labferry.states import MOVE_OF, Event, State

_SCAN_COUNT = 500


class DeadLetters(Section):
    """The part of the ledger that holds dead letters; never trimmed."""

    def dead_files(self, run: RunKey, *, notes: int = 0) -> Iterator[DeadFile]:
        """Yield the dead letters of a run, in no order; a path may come twice."""
        key, cursor = RunKeys(run).dead, 0
        while True:
            cursor, page = self._server.ask(
                self._server.client.zscan, key, cursor, count=_SCAN_COUNT
            )
            yield from self._dead_files(run, page, notes)
            if not cursor:
                return

    def _dead_files(
        self, run: RunKey, page: Sequence[tuple[bytes, float]], notes: int
    ) -> Iterator[DeadFile]:
        keys = RunKeys(run)
        paths = [path for path, _ in page]

        def fill(pipe: Any) -> None:
            pipe.hmget(keys.files, paths)
            for path in paths:
                pipe.lrange(keys.history + path.decode(), -notes, -1)

        values, *histories = self._server.pipeline(fill) if paths else [[]]
        for (path, since_ms), value, lines in zip(page, values, histories, strict=True):
            # It may have moved on since the index was read.
            if value and (record := unpack_record(value)).state is State.QUARANTINED:
                yield DeadFile(
                    path=path.decode(),
                    since_ms=int(since_ms),
                    record=record,
                    notes=tuple(unpack_note(line) for line in lines),
                )

    def reasons_due(self, run: RunKey, after: int, limit: int) -> list[tuple[str, int]]:
        """Return files of which the bucket does not tell yet, each with its change's number."""
        found = self._server.ask(
            self._server.client.zrangebyscore,
            RunKeys(run).reasons,
            f"({after}",
            "+inf",
            start=0,
            num=limit,
            withscores=True,
        )
        return [(path.decode(), int(number)) for path, number in found]

    def reasons_written(self, run: RunKey, written: Sequence[tuple[str, int]]) -> None:
        """Take files off that list, but for those that changed since."""
        keys = RunKeys(run)
        args: list[Argument] = [field for one in written for field in one]
        if args:
            self._server.script("reasons_written", [keys.meta, keys.reasons], args)

    def recall(self, run: RunKey, letters: Sequence[DeadLetter], *, is_told: bool) -> list[Outcome]:
        """Put files back among the dead letters, with their histories."""
        keys, move = RunKeys(run), MOVE_OF[Event.RECALL]
        if not letters:
            return []
        activate(self._server, run, Event.RECALL)
        packed = [
            (
                one.file.path,
                bytes([one.record.attempt, one.record.lost, one.record.rounds, one.record.series]),
                one.at_ms,
                [pack_line(note) for note in one.notes],
            )
            for one in letters
        ]
        replies = self._server.script(
            "recall",
            [keys.files, keys.meta, keys.history, keys.dead, keys.reasons],
            [letters_of(move.sources), move.target.wire, int(is_told), pack(packed)],
        )
        return [OUTCOMES[reply] for reply in replies]

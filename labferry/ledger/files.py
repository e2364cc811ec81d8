"""What does the ledger know of files, and how do they move?"""

from collections.abc import Iterator, Sequence
from typing import Any

from labferry.errors import Refused
from labferry.identity import FileKey, RunKey
from labferry.ledger.effects import EFFECT_OF, changes_letter, flags
from labferry.ledger.keys import ACTIVE, RUNS, RunKeys
from labferry.ledger.layout import (
    PLACE_OF,
    letters,
    pack_evidence,
    pack_fingerprint,
    pack_lane,
    unpack_record,
    unpack_seen,
)
from labferry.ledger.notes import pack_note, unpack_note
from labferry.ledger.section import Section
from labferry.ledger.server import Argument, Key, Server, pack, to_ms
from labferry.records import FileRecord, Fingerprint, Lane, Note, Outcome, Seen, Step
from labferry.states import MOVE_OF, Actor, Event

OUTCOMES = (
    Outcome.DONE, Outcome.ILLEGAL, Outcome.FENCED, Outcome.MISSING, Outcome.DIFFERENT,
    Outcome.DONE,
)  # fmt: skip
_SCAN_COUNT = 1000


class Files(Section):
    """The part of the ledger that holds files."""

    def look(self, run: RunKey, paths: Sequence[str]) -> tuple[int, list[Seen | None]]:
        """Return the ledger's clock, and what it knows of each path."""
        keys = RunKeys(run)

        def fill(pipe: Any) -> None:
            pipe.time()
            if paths:
                pipe.hmget(keys.files, paths)

        now, *values = self._server.pipeline(fill)
        found = values[0] if values else []
        return to_ms(now), [unpack_seen(value) if value else None for value in found]

    def discover(self, run: RunKey, seen: Sequence[tuple[str, Fingerprint]]) -> int:
        """Record files never seen before."""
        if not seen:
            return 0
        keys = RunKeys(run)
        # The index first: a run that is on no index would be forgotten, the reverse is harmless.
        self._server.ask(self._server.client.sadd, RUNS, str(run))
        self._server.script("activate", [ACTIVE], [str(run)])
        batch = [(path, pack_fingerprint(*fingerprint)) for path, fingerprint in seen]
        args: list[Argument] = [
            MOVE_OF[Event.DISCOVER].target.wire,
            pack_lane(Lane.SMALL),
            pack(batch),
        ]
        return int(self._server.script("discover", [keys.files, keys.meta], args))

    def move(self, run: RunKey, event: Event, steps: Sequence[Step]) -> list[Outcome]:
        """Apply one event to many files."""
        if MOVE_OF[event].actor is Actor.OPERATOR:
            raise Refused(what=event, why="it has no line in the audit", step="Use `act`.")
        if not steps:
            return []
        activate(self._server, run, event)
        args = move_args(event, [pack_step(step, event) for step in steps])
        replies = self._server.script("move", move_keys(RunKeys(run)), args)
        return [OUTCOMES[reply] for reply in replies]

    def records(self, run: RunKey) -> Iterator[tuple[str, FileRecord]]:
        """Yield every file of a run, in no order; a path may come twice."""
        keys, client, cursor = RunKeys(run), self._server.client, 0
        while True:
            cursor, page = self._server.ask(client.hscan, keys.files, cursor, count=_SCAN_COUNT)
            for path, value in page.items():
                yield path.decode(), unpack_record(value)
            if not cursor:
                return

    def find_record(self, file: FileKey) -> FileRecord | None:
        """Return what is known of one file."""
        key = RunKeys(file.run).files
        value = self._server.ask(self._server.client.hget, key, file.path)
        return unpack_record(value) if value else None

    def find_records(self, run: RunKey, paths: Sequence[str]) -> list[FileRecord | None]:
        """Return all that is known of some files of a run, in their order."""
        if not paths:
            return []
        values = self._server.ask(self._server.client.hmget, RunKeys(run).files, paths)
        return [unpack_record(value) if value else None for value in values]

    def find_due(self, file: FileKey) -> int | None:
        """Return when its lease ends or it is due again."""
        keys = RunKeys(file.run)

        def fill(pipe: Any) -> None:
            pipe.zscore(keys.leases, file.path)
            pipe.zscore(keys.due, file.path)

        times = [at_ms for at_ms in self._server.pipeline(fill) if at_ms is not None]
        return int(max(times)) if times else None

    def history(self, file: FileKey) -> list[Note]:
        """Return what was out of the ordinary, oldest first."""
        key = RunKeys(file.run).history + file.path
        lines = self._server.ask(self._server.client.lrange, key, 0, -1)
        return [unpack_note(line) for line in lines]


def read_records(
    server: Server, run: RunKey, paths: Sequence[bytes]
) -> list[tuple[str, FileRecord]]:
    """Return those of the files that are on record."""
    if not paths:
        return []
    values = server.ask(server.client.hmget, RunKeys(run).files, paths)
    found = zip(paths, values, strict=True)
    return [(path.decode(), unpack_record(value)) for path, value in found if value]


def activate(server: Server, run: RunKey, event: Event) -> None:
    """Put a run on the index of active runs, before an event that leaves something to do."""
    if EFFECT_OF[event].queues or changes_letter(event):
        server.script("activate", [ACTIVE], [str(run)])


def move_keys(keys: RunKeys) -> list[Key]:
    """Return the keys that move.lua takes."""
    return [
        keys.files, keys.meta, keys.leases, keys.due, keys.history, keys.ready, keys.upload,
        keys.dead, keys.reasons,
    ]  # fmt: skip


def move_args(event: Event, steps: Sequence[tuple[object, ...]]) -> list[Argument]:
    """Return the arguments that move.lua takes."""
    move, effect = MOVE_OF[event], EFFECT_OF[event]
    return [
        letters(move.sources),
        move.target.wire,
        flags(event),
        PLACE_OF.get(effect.counts, 0),
        PLACE_OF.get(effect.dates or effect.forgets, 0),
        pack(steps),
    ]


def pack_step(step: Step, event: Event) -> tuple[object, ...]:
    """Return a step as move.lua reads it. Raises: Refused without evidence where it is demanded."""
    effect = EFFECT_OF[event]
    if effect.proves and step.evidence is None:
        raise Refused(
            what=step.path, why="it has no evidence", step="Only what is proven is verified."
        )
    fingerprint = step.fingerprint if effect.expects or effect.records else None
    return (
        step.path,
        step.token,
        pack_fingerprint(*fingerprint) if fingerprint else b"",
        pack_lane(step.lane),
        pack_evidence(step.evidence if effect.proves else None),
        step.delay_ms or 0,
        pack_note(step.note),
    )

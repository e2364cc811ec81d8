"""How does a batch of replays go on? Step by step, by whichever sweep leads.

Nothing but the ledger remembers it: a sweep that dies anywhere is followed by another that goes on.
A file is noted as sent before its replay is put on record, so that what was noted and not done is
done by the next step; and a replay is guarded by the ledger, so that two sweeps do it once.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from labferry.audit import Act
from labferry.batch import (
    MOST_UNDER_WAY,
    OPEN,
    Batch,
    Item,
    Setback,
    Stage,
    after_sending,
    before_sending,
    is_unsent,
    left_because,
    room,
)
from labferry.error_fingerprint import error_fingerprint
from labferry.ports import Ledger
from labferry.records import FileRecord, Note, Outcome, Step
from labferry.states import MOVE_OF, Actor, State
from labferry.telemetry import emit

#: Files of one act: its line in the audit names each.
ACT_FILES = 500
#: Waiting files looked at for one that is to be sent, and left in one step.
_LOOKED_AT = 100
_LEFT_AT_ONCE = 5000


class Batches:
    """Goes on with all batches on a ledger; `tick` may run anywhere, any number of times."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def tick(self) -> None:
        """Take the next step of every open batch. Raises: LedgerUnavailable."""
        for batch in self._ledger.open_batches():
            self._step(batch)

    def _step(self, batch: Batch) -> None:
        now_ms = self._ledger.now_ms()
        sent = self._ledger.batch_items(batch.id, Stage.SENT, MOST_UNDER_WAY)
        followed = self._follow(batch, sent)
        if followed is None:
            return
        batch, under_way = followed
        of_cause = Counter(item.cause for item in under_way)
        before = of_cause.total()
        for number, cause in enumerate(batch.causes):
            if why := left_because(batch, cause):
                self._leave(batch, number, why)
                continue
            space = room(
                batch,
                cause,
                under_way=of_cause.total(),
                of_cause=of_cause[number],
                now_ms=now_ms,
            )
            of_cause[number] += self._send(batch, number, space) if space else 0
        self._conclude(batch, now_ms, has_sent=of_cause.total() > before)

    def _follow(self, batch: Batch, sent: Sequence[Item]) -> tuple[Batch, list[Item]] | None:
        """Note what became of what was sent; return the batch and what is still on its way.

        None when somebody else changed the batch meanwhile: the next step sees it.
        """
        causes, items, unsent = list(batch.causes), [], []
        records = self._ledger.known([item.file for item in sent])
        for item, record in zip(sent, records, strict=True):
            if is_unsent(item, record):
                unsent.append(item)
                continue
            setbacks = self._setbacks(item, record)
            after, causes[item.cause] = after_sending(item, record, setbacks, causes[item.cause])
            items.append(after)
        # What a file says of its cause goes on record before the file is off the list.
        changed = self._save(batch, replace(batch, causes=tuple(causes)))
        if changed is None:
            return None
        ended = [item for item in items if item.stage not in OPEN]
        self._ledger.put_items(batch.id, Stage.SENT, ended)
        self._replay(changed, unsent)
        return changed, [*(item for item in items if item.stage in OPEN), *unsent]

    def _setbacks(self, item: Item, record: FileRecord | None) -> list[Setback]:
        if record is None or not _has_failed(record):
            return []
        return [
            Setback(
                fingerprint=error_fingerprint(note.kind, note.code, note.message, item.file),
                code=note.code,
                is_final=MOVE_OF[note.event].target is State.QUARANTINED,
            )
            for note in self._ledger.history(item.file)
            if note.series > item.series and MOVE_OF[note.event].actor is not Actor.OPERATOR
        ]

    def _send(self, batch: Batch, cause: int, space: int) -> int:
        """Send waiting files of a cause, so many at most; return how many."""
        count = 0
        while count < space:
            limit = max(_LOOKED_AT, space - count)
            waiting = self._ledger.batch_items(batch.id, Stage.WAITING, limit, cause=cause)
            records = self._ledger.known([item.file for item in waiting])
            judged = [
                before_sending(item, record) for item, record in zip(waiting, records, strict=True)
            ]
            ended = [item for item in judged if item.stage is not Stage.SENT]
            self._ledger.put_items(batch.id, Stage.WAITING, ended)
            chosen = [item for item in judged if item.stage is Stage.SENT][: space - count]
            noted = self._ledger.put_items(batch.id, Stage.WAITING, chosen)
            ours = [item for item, is_ours in zip(chosen, noted, strict=True) if is_ours]
            self._replay(batch, ours)
            count += len(ours)
            if len(waiting) < limit or not (ended or chosen):
                break
        return count

    def _replay(self, batch: Batch, items: Sequence[Item]) -> None:
        """Put replays on record, each act with who, why and the batch."""
        act = replace(batch.act, selector=f"{batch.act.selector} (batch {batch.id})")

        def place(item: Item) -> tuple[str, str]:
            return str(item.file.run), item.event

        for _, group in groupby(sorted(items, key=place), key=place):
            alike = list(group)
            for first in range(0, len(alike), ACT_FILES):
                self._act(batch, act, alike[first : first + ACT_FILES])

    def _act(self, batch: Batch, act: Act, items: Sequence[Item]) -> None:
        steps = [
            Step(path=item.file.path, fingerprint=item.revised, note=_note(batch, act, item))
            for item in items
        ]
        outcomes = self._ledger.act(items[0].file.run, items[0].event, steps, act)
        others = [
            item.end(Stage.NO_OP, "it was sent in again meanwhile")
            for item, outcome in zip(items, outcomes, strict=True)
            if outcome is not Outcome.DONE
        ]
        self._ledger.put_items(batch.id, Stage.SENT, others)
        emit("batch.sent", batch=batch.id, run=str(items[0].file.run), files=len(items))

    def _leave(self, batch: Batch, cause: int, why: str) -> None:
        waiting = self._ledger.batch_items(batch.id, Stage.WAITING, _LEFT_AT_ONCE, cause=cause)
        left = [item.end(Stage.LEFT, why) for item in waiting]
        self._ledger.put_items(batch.id, Stage.WAITING, left)

    def _conclude(self, batch: Batch, now_ms: int, *, has_sent: bool) -> None:
        """Note when files were sent, or that the batch has ended."""
        now = self._ledger.find_batch(batch.id)
        if now is None:
            return
        if not any(now.counts.get(stage) for stage in OPEN):
            self._save(now, replace(now, ended_ms=now_ms))
            counts = {str(stage): count for stage, count in now.counts.items() if count}
            emit("batch.ended", batch=batch.id, counts=counts)
        elif has_sent:
            self._save(now, replace(now, sent_ms=now_ms))

    def _save(self, seen: Batch, new: Batch) -> Batch | None:
        """Record a batch; None when somebody changed it meanwhile."""
        if seen == new:
            return new
        for before, cause in zip(seen.causes, new.causes, strict=True):
            if cause.stopped and not before.stopped:
                emit(
                    "batch.cause_stopped",
                    level=logging.WARNING,
                    batch=seen.id,
                    fingerprint=cause.fingerprint,
                    why=cause.stopped,
                )
        if not self._ledger.swap_batch(seen, new):
            return None
        return replace(new, revision=seen.revision + 1)


def _has_failed(record: FileRecord) -> bool:
    return bool(record.attempt or record.lost) or record.state is State.QUARANTINED


def _note(batch: Batch, act: Act, item: Item) -> Note:
    return Note(
        event=item.event,
        kind="operator",
        code=act.what,
        message=act.reason,
        worker=act.actor,
        series=item.series + 1,
        decision=f"batch {batch.id}",
    )

"""Batches of replays in memory; a part of MemoryLedger."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from labferry.batch import OPEN, Batch, Item, Stage
from labferry.identity import FileKey
from labferry.records import FileRecord


@dataclass(slots=True)
class Held:
    """One batch with its items."""

    batch: Batch | None = None
    items: dict[FileKey, Item] = field(default_factory=dict)
    ended: list[FileKey] = field(default_factory=list)

    def put(self, seen: Stage | None, item: Item) -> bool:
        known = self.items.get(item.file)
        if (known.stage if known else None) is not seen:
            return False
        self.items[item.file] = item
        if item.stage not in OPEN:
            self.ended.append(item.file)
        return True

    def shown(self) -> Batch | None:
        counts = dict(Counter(item.stage for item in self.items.values()))
        return replace(self.batch, counts=counts) if self.batch else None


class MemoryBatches:
    """The BatchLedger port in memory; every call is made under the ledger's lock."""

    lock: threading.RLock

    def __init__(self) -> None:
        self._batches: dict[str, Held] = {}
        self._batch_ids = 0
        super().__init__()

    def new_batch_id(self) -> str:
        with self.lock:
            self._batch_ids += 1
            return str(self._batch_ids)

    def open_batch(self, batch: Batch, items: Sequence[Item]) -> Batch:
        with self.lock:
            held = self._batches.setdefault(batch.id, Held())
            for item in items:
                held.put(None, item)
            held.batch = held.batch or replace(batch, revision=1)
            return held.shown() or batch

    def find_batch(self, batch: str) -> Batch | None:
        with self.lock:
            return self._batches[batch].shown() if batch in self._batches else None

    def batches(self) -> list[Batch]:
        with self.lock:
            shown = [held.shown() for held in self._batches.values()]
            return sorted((one for one in shown if one), key=lambda one: int(one.id))

    def open_batches(self) -> list[Batch]:
        return [one for one in self.batches() if one.is_open]

    def swap_batch(self, seen: Batch, new: Batch) -> bool:
        with self.lock:
            held = self._batches[seen.id]
            if held.batch is None or held.batch.revision != seen.revision:
                return False
            held.batch = replace(new, revision=seen.revision + 1)
            return True

    def batch_items(
        self, batch: str, stage: Stage, limit: int, *, cause: int | None = None
    ) -> list[Item]:
        with self.lock:
            items = self._batches[batch].items.values() if batch in self._batches else []
            found = [one for one in items if one.stage is stage and cause in (None, one.cause)]
            return sorted(found, key=lambda one: (one.cause, one.order))[:limit]

    def put_items(self, batch: str, seen: Stage, items: Sequence[Item]) -> list[bool]:
        with self.lock:
            return [self._batches[batch].put(seen, item) for item in items]

    def ended_items(self, batch: str, first: int, limit: int) -> list[Item]:
        with self.lock:
            held = self._batches.get(batch, Held())
            return [held.items[file] for file in held.ended[first : first + limit]]

    def known(self, files: Sequence[FileKey]) -> list[FileRecord | None]:
        with self.lock:
            return [self.find_record(file) for file in files]

    def find_record(self, file: FileKey) -> FileRecord | None:
        raise NotImplementedError

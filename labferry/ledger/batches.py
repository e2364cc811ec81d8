"""Which batches of replays are on record, and where is each of their files?"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from labferry.audit import Act
from labferry.batch import OPEN, Batch, Cause, Item, Stage
from labferry.errors import LedgerUnavailable, MalformedMessage
from labferry.identity import FileKey, RunKey
from labferry.ledger.keys import BATCH_IDS, BATCHES, OPEN_BATCHES, BatchKeys, RunKeys
from labferry.ledger.layout import unpack_record
from labferry.ledger.section import Section
from labferry.ledger.server import Argument, Key, pack
from labferry.records import FileRecord, Fingerprint
from labferry.states import State
from labferry.versioned import known, read_versioned, write_versioned

_VERSION = 1
#: Items put in one step, so that no other client waits for long.
_AT_ONCE = 1000
#: Room for the items of one cause in the order of all.
_OF_A_CAUSE = 10**9


class BatchRecords(Section):
    """The part of the ledger that holds batches."""

    def new_batch_id(self) -> str:
        """Return an id that no batch has."""
        return str(self._server.ask(self._server.client.incr, BATCH_IDS))

    def open_batch(self, batch: Batch, items: Sequence[Item]) -> Batch:
        """Record a batch."""
        for first in range(0, len(items), _AT_ONCE):
            self._put(batch.id, "", items[first : first + _AT_ONCE])
        self._server.ask(self._server.client.sadd, OPEN_BATCHES, batch.id)
        args: list[Argument] = [batch.id, 0, _pack(batch, 1), "", ""]
        self._server.script("swap", [BATCHES], args)
        found = self.find_batch(batch.id)
        if found is None:
            raise LedgerUnavailable(url=self._server.url, why="it lost a batch just recorded")
        return found

    def find_batch(self, batch: str) -> Batch | None:
        """Return a batch with the counts of its files."""
        found = self._find([batch])
        return found[0] if found else None

    def batches(self) -> list[Batch]:
        """Return all batches on record, oldest first."""
        return self._find(self._server.ask(self._server.client.hkeys, BATCHES))

    def open_batches(self) -> list[Batch]:
        """Return those that have not ended, oldest first."""
        return self._find(self._server.ask(self._server.client.smembers, OPEN_BATCHES))

    def swap_batch(self, seen: Batch, new: Batch) -> bool:
        """Put a batch in the place of the one that was seen."""
        args: list[Argument] = [seen.id, seen.revision, _pack(new, seen.revision + 1), "", ""]
        swapped = bool(self._server.script("swap", [BATCHES], args))
        if swapped and not new.is_open:
            self._server.ask(self._server.client.srem, OPEN_BATCHES, seen.id)
        return swapped

    def batch_items(
        self, batch: str, stage: Stage, limit: int, *, cause: int | None = None
    ) -> list[Item]:
        """Return items that wait or are sent, in their order."""
        first, last = ("-inf", "+inf")
        if cause is not None:
            first, last = str(cause * _OF_A_CAUSE), f"({(cause + 1) * _OF_A_CAUSE}"
        key = BatchKeys(batch).stages + stage
        client = self._server.client
        files = self._server.ask(client.zrangebyscore, key, first, last, start=0, num=limit)
        return self._items(batch, files)

    def put_items(self, batch: str, seen: Stage, items: Sequence[Item]) -> list[bool]:
        """Put items in the place of those that were seen at a stage."""
        replies: list[bool] = []
        for first in range(0, len(items), _AT_ONCE):
            replies += self._put(batch, seen, items[first : first + _AT_ONCE])
        return replies

    def ended_items(self, batch: str, first: int, limit: int) -> list[Item]:
        """Return items that came to their end, from a place on."""
        key = BatchKeys(batch).ended
        files = self._server.ask(self._server.client.lrange, key, first, first + limit - 1)
        return self._items(batch, files)

    def known(self, files: Sequence[FileKey]) -> list[FileRecord | None]:
        """Return what is on record of files, of any run."""
        if not files:
            return []

        def fill(pipe: Any) -> None:
            for file in files:
                pipe.hget(RunKeys(file.run).files, file.path)

        return [unpack_record(value) if value else None for value in self._server.pipeline(fill)]

    def _put(self, batch: str, seen: str, items: Sequence[Item]) -> list[bool]:
        steps = [
            (
                str(item.file),
                str(item.stage),
                item.stage in OPEN,
                item.cause * _OF_A_CAUSE + item.order,
                f"{item.stage} {_pack_item(item)}",
            )
            for item in items
        ]
        keys = BatchKeys(batch)
        names: list[Key] = [keys.items, keys.counts, keys.ended, keys.stages]
        replies = self._server.script("put_items", names, [str(seen), pack(steps)])
        return [reply == 1 for reply in replies]

    def _items(self, batch: str, files: Sequence[bytes]) -> list[Item]:
        if not files:
            return []
        values = self._server.ask(self._server.client.hmget, BatchKeys(batch).items, files)
        return [_unpack_item(value) for value in values if value]

    def _find(self, names: Sequence[bytes | str]) -> list[Batch]:
        ids = sorted((one.decode() if isinstance(one, bytes) else one for one in names), key=_order)
        if not ids:
            return []

        def fill(pipe: Any) -> None:
            pipe.hmget(BATCHES, ids)
            for one in ids:
                pipe.hgetall(BatchKeys(one).counts)

        values, *counts = self._server.pipeline(fill)
        return [
            _unpack(one, value, count)
            for one, value, count in zip(ids, values, counts, strict=True)
            if value
        ]


def _order(name: str) -> tuple[int, str]:
    return (int(name), name) if name.isdecimal() else (0, name)


def _pack(batch: Batch, revision: int) -> str:
    kept = {
        name: value
        for name, value in asdict(batch).items()
        if name not in {"id", "revision", "counts"}
    }
    return f"{revision} {write_versioned(_VERSION, kept)}"


def _unpack(name: str, value: bytes, counts: dict[bytes, bytes]) -> Batch:
    """Read a batch. Raises: MalformedMessage."""
    revision, _, text = value.partition(b" ")

    def make(found: dict[str, Any]) -> Batch:
        fields = known(Batch, found) | {
            "act": Act(**known(Act, found["act"])),
            "causes": tuple(Cause(**known(Cause, cause)) for cause in found["causes"]),
            "counts": {Stage(key.decode()): int(count) for key, count in counts.items()},
        }
        return Batch(id=name, revision=int(revision), **fields)

    return read_versioned(text, _VERSION, "a batch", make)


def _pack_item(item: Item) -> str:
    revised = list(item.revised) if item.revised else None
    fields = {
        "file": [item.file.run.instrument, item.file.run.run, item.file.path],
        "revised": revised,
        **{name: getattr(item, name) for name in ("cause", "order", "series", "state", "why")},
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def _unpack_item(value: bytes) -> Item:
    """Read an item. Raises: MalformedMessage."""
    stage, _, text = value.partition(b" ")
    try:
        fields = json.loads(text)
        instrument, run, path = fields.pop("file")
        revised = fields.pop("revised", None)
        item = Item(
            file=FileKey(RunKey(instrument, run), path),
            revised=Fingerprint(*revised) if revised else None,
            stage=Stage(stage.decode()),
            **known(Item, fields),
        )
        return replace(item, state=State(item.state))
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedMessage(what="an item of a batch", why=str(error)) from error

"""What does labferry ask of the ledger about batches of replays?"""

from collections.abc import Sequence
from typing import Protocol

from labferry.batch import Batch, Item, Stage
from labferry.identity import FileKey
from labferry.records import FileRecord


class BatchLedger(Protocol):
    """The part of the ledger that holds batches, each with an item for every file."""

    def new_batch_id(self) -> str:
        """Return an id that no batch has."""
        ...

    def open_batch(self, batch: Batch, items: Sequence[Item]) -> Batch:
        """Record a batch: its items first, then the batch, which is found from then on only."""
        ...

    def find_batch(self, batch: str) -> Batch | None:
        """Return a batch with the counts of its files, or None."""
        ...

    def batches(self) -> list[Batch]:
        """Return all batches on record, oldest first."""
        ...

    def open_batches(self) -> list[Batch]:
        """Return those that have not ended, oldest first."""
        ...

    def swap_batch(self, seen: Batch, new: Batch) -> bool:
        """Put a batch in the place of the one that was seen; False where another is there."""
        ...

    def batch_items(
        self, batch: str, stage: Stage, limit: int, *, cause: int | None = None
    ) -> list[Item]:
        """Return items that wait or are sent, in their order; of one cause where it is named."""
        ...

    def put_items(self, batch: str, seen: Stage, items: Sequence[Item]) -> list[bool]:
        """Put items in the place of those that were seen at a stage; False where one is at
        another stage by now, and is left."""
        ...

    def ended_items(self, batch: str, first: int, limit: int) -> list[Item]:
        """Return items that came to their end, in the order in which they did, from a place on."""
        ...

    def known(self, files: Sequence[FileKey]) -> list[FileRecord | None]:
        """Return what is on record of files, of any run."""
        ...

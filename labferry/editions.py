"""Under which key does a file's object lie, once the source changed after it was verified?

The first edition keeps its key for ever. Each later one has a key of its own, below `editions/`;
which one a file is at is what its history says: how often a verified object was left behind.
"""

from collections.abc import Iterable

from labferry.identity import FileKey, Layout
from labferry.ports import Ledger
from labferry.records import FileRecord, Note
from labferry.states import Event

#: A verified object stands under the key that the file had until then.
_LEAVES_BEHIND = frozenset({Event.SUPERSEDE, Event.CONFLICT})


def edition(ledger: Ledger, file: FileKey, record: FileRecord) -> int:
    """Return which edition of the file the record is about, from 1."""
    if not record.series:  # every such event is followed by a new series
        return 1
    return edition_after(ledger.history(file))


def edition_after(history: Iterable[Note]) -> int:
    """Return which edition a file with this history is at."""
    return 1 + sum(note.event in _LEAVES_BEHIND for note in history)


def object_key(ledger: Ledger, layout: Layout, file: FileKey, record: FileRecord) -> str:
    """Return the object key of the record's edition. Raises: BadName, LedgerUnavailable."""
    return layout.edition(file, edition(ledger, file, record))

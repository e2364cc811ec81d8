"""A file's record, with only what matters given."""

from dataclasses import replace
from typing import Any

from labferry.records import FileRecord, Fingerprint, Lane
from labferry.states import State

_NEW = FileRecord(
    state=State.DISCOVERED,
    attempt=0,
    lost=0,
    rounds=0,
    series=0,
    token=0,
    holder=0,
    fingerprint=Fingerprint(10, 1, 2, 3),
    lane=Lane.SMALL,
    discovered_ms=1,
    changed_ms=1,
    settled_ms=0,
    claimed_ms=0,
    verified_ms=0,
)


def record(state: State, **fields: Any) -> FileRecord:
    """Return a record in this state."""
    return replace(_NEW, state=state, **fields)

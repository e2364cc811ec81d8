"""Do two versions of labferry side by side read each other's records, or say that they cannot?"""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from labferry.archive import Archive
from labferry.archive_lines import ArchivedFile, file_line, read_line
from labferry.audit import Act
from labferry.batch import Batch, Cause, Item
from labferry.errors import MalformedMessage
from labferry.identity import RunKey
from labferry.inbox.entries import Entry, unpack
from labferry.ledger import batches, limits, outboxes
from labferry.ledger.archives import pack_archive, unpack_archive
from labferry.ledger.holds import pack_word, unpack_word
from labferry.ledger.plans import pack_proof, unpack_proof
from labferry.limits import Limit
from labferry.outbox import Delivery
from labferry.records import Note
from labferry.states import Event, State
from labferry.versioned import known, read_versioned, write_versioned
from labferry.word import Word
from tests.dock import PROVEN
from tests.ledger_world import EVIDENCE
from tests.unit.labferry.records_by_hand import record

ACT = Act(actor="ada", reason="backup", what="hold")
ARCHIVE = Archive(key="k", sha256="s", files=7)
ARCHIVED = ArchivedFile(
    path="a",
    record=record(State.VERIFIED, evidence=EVIDENCE),
    history=(Note(event=Event.FAIL, kind="transient", code="c", message="m"),),
)
BATCH = Batch(
    id="b", act=ACT, created_ms=1, causes=(Cause(fingerprint="f", code="c", count=1),), revision=2
)
ITEM = Item(file=RunKey("seq", "r").file("a"), cause=0, order=0, series=0, state=State.QUARANTINED)
LIMIT = Limit(bytes_per_s=1, actor="ada", reason="backup", at_ms=1)
DELIVERY = Delivery(position=3, revision=2)
ENTRY = Entry(key="seq/r/1", digest="d", content="{}", first_ms=1)


def newer(text: str) -> bytes:
    """Return a record as a newer version might write it, under the same number."""
    before, brace, rest = text.partition("{")
    found = json.loads(brace + rest)
    inside = [found.get("act"), found.get("evidence")]
    for place in (found, *inside, *found.get("causes", ()), *found.get("history", ())):
        if place is not None:
            place["of_a_newer_version"] = {"anything": [1]}
    return (before + json.dumps(found)).encode()


RECORDS: dict[str, tuple[Callable[[], object], object]] = {
    "limit": (
        lambda: limits._unpack(newer(write_versioned(1, {**_fields(LIMIT)}))),
        LIMIT,
    ),
    "hold": (
        lambda: unpack_word(newer(pack_word(ACT, 5))),
        Word(actor="ada", reason="backup", at_ms=5),
    ),
    "archived file": (lambda: read_line(newer(file_line(ARCHIVED).decode())), ARCHIVED),
    "archive": (lambda: unpack_archive(newer(pack_archive(ARCHIVE))), ARCHIVE),
    "proof": (lambda: unpack_proof(newer(pack_proof(PROVEN))), PROVEN),
    "batch": (lambda: batches._unpack("b", newer(batches._pack(BATCH, 2)), {}), BATCH),
    "item": (lambda: batches._unpack_item(b"waiting " + newer(batches._pack_item(ITEM))), ITEM),
    "delivery": (lambda: outboxes._unpack(newer(outboxes._pack(DELIVERY, 2))), DELIVERY),
    "inbox": (lambda: unpack(newer(ENTRY.pack()).decode(), 4), replace(ENTRY, revision=4)),
}


def _fields(limit: Limit) -> dict[str, object]:
    return {name: getattr(limit, name) for name in Limit.__dataclass_fields__}


@pytest.mark.parametrize("name", RECORDS)
def test_what_a_newer_version_adds_to_a_record_is_left_out(name: str) -> None:
    read, expected = RECORDS[name]
    assert read() == expected


def test_a_record_of_another_number_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="version is not known"):
        read_versioned(write_versioned(2, {}), 1, "a record", dict)


def test_only_fields_of_the_record_are_known() -> None:
    assert known(Archive, {"key": "k", "colour": "red"}) == {"key": "k"}

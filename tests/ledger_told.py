"""What does a ledger tell, but for instants and numbers that chance gives?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labferry.audit import Entry, read_line
from labferry.records import Bundle, Claim, FileRecord
from labferry.word import Word
from tests.ledger_world import World

DATES = ("discovered_ms", "changed_ms", "settled_ms", "claimed_ms", "verified_ms")


def timeless(record: FileRecord) -> FileRecord:
    """Return the record with each instant, and its token, told only as set or not."""
    told: dict[str, Any] = {name: int(getattr(record, name) > 0) for name in (*DATES, "token")}
    return replace(record, **told)


def plain(claims: list[Claim]) -> list[Claim]:
    return [replace(claim, token=1, record=timeless(claim.record)) for claim in claims]


def renumbered(bundles: list[Bundle]) -> list[Bundle]:
    return sorted((replace(one, number=0) for one in bundles), key=lambda one: one.paths)


def told(world: World, paths: Sequence[str]) -> dict[str, Any]:
    """Return all that a ledger tells of these paths and of all runs."""
    ledger = world.ledger
    known: dict[str, Any] = {"runs": ledger.runs(), "active": ledger.active_runs()}
    for run in ledger.runs():
        facts = world.facts(run)
        known[str(run)] = replace(
            facts,
            opened_ms=0,
            changed_ms=0,
            finished_ms=0,
            moves=0,
            now_ms=0,
            sealed_ms=int(facts.sealed_ms > 0),
            hold=_undated(facts.hold),
            closed=_undated(facts.closed),
        )
        known[f"{run} records"] = {p: timeless(record) for p, record in ledger.records(run)}
        known[f"{run} markers"] = ledger.markers(run)
        known[f"{run} lapsed"] = sorted(path for path, _ in ledger.lapsed(run, 100))
        known[f"{run} dead"] = sorted(one.path for one in ledger.dead_files(run))
        known[f"{run} reasons"] = sorted(path for path, _ in ledger.reasons_due(run, 0, 100))
        known[f"{run} audit"] = [_in_order(read_line(line)) for line in ledger.audit(run)]
        known[f"{run} bytes"] = ledger.bytes_under_way(run)
        for path in paths:
            file = run.file(path)
            upload = ledger.find_upload(file)
            known[str(file)] = (
                [replace(note, at_ms=0, bundle=0, token=0) for note in ledger.history(file)],
                replace(upload, attempt_token="", complete_sent_ms=0) if upload else None,
                ledger.find_due(file) is not None,
            )
    return known


def _in_order(entry: Entry) -> Entry:
    files = sorted(entry.files, key=lambda change: str(change["path"]))
    return replace(entry, at_ms=0, nonce="", files=tuple(files))


def _undated(word: Word | None) -> Word | None:
    return replace(word, at_ms=0) if word else None

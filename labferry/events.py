"""What are others told of a run or a file? One event each, JSON with a version.

An event is made of what is in the bucket alone, so that the same fact is the same event, whoever
tells it and how often. docs/events-v1.schema.json describes them. Pure.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from labferry.dead_letter import DeadLetter, iso
from labferry.errors import MalformedMessage
from labferry.manifest import Marker, gap_fields

VERSION = 1
#: What a delivery adds; it is no part of what is told.
DELIVERY = "delivery"
#: Characters of a name for an execution; Step Functions and Nextflow take so many.
_NAME_CHARACTERS = 80
_DIGEST_CHARACTERS = 10


class EventKind(StrEnum):
    """What happened."""

    COMPLETED = "run.completed"  # the first generation of a run is complete
    GENERATION = "run.generation"  # a later one is: late or changed files, or what was left out
    INCOMPLETE = "run.incomplete"  # a person closed the run: its manifest says what is missing
    DEAD_LETTERED = "file.dead_lettered"  # a file stopped and waits for a person


#: Of these a consumer does its work.
COMPLETE_KINDS = frozenset({EventKind.COMPLETED, EventKind.GENERATION})


def run_event(marker: Marker, marker_key: str, bucket: str) -> str:
    """Return the event of a generation's marker as JSON text."""
    later = EventKind.GENERATION if marker.generation > 1 else EventKind.COMPLETED
    fields = {
        "version": VERSION,
        "event": EventKind.INCOMPLETE if marker.gap else later,
        "id": f"{marker.run}/{marker.generation}/{marker.sha256}",
        "instrument": marker.run.instrument,
        "run": str(marker.run),
        "generation": marker.generation,
        "bucket": bucket,
        "marker": marker_key,
        "manifest": marker.manifest,
        "manifest_sha256": marker.sha256,
        "files": marker.files,
        "bytes": marker.size,
        "total_files": marker.total_files,
        **gap_fields(marker.gap),
    }
    return _text(fields)


def dead_letter_event(letter: DeadLetter, reason_key: str, bucket: str) -> str:
    """Return the event of a file that became a dead letter, as JSON text."""
    fields = {
        "version": VERSION,
        "event": EventKind.DEAD_LETTERED,
        "id": f"{letter.file}/{letter.record.series}/{letter.at_ms}",
        "instrument": letter.file.run.instrument,
        "run": str(letter.file.run),
        "file": str(letter.file),
        "bucket": bucket,
        "reason": reason_key,
        "at": iso(letter.at_ms),
        "kind": letter.kind,
        "code": letter.code,
        "message": letter.cause.message,
        "fingerprint": letter.fingerprint,
    }
    return _text(fields)


def read_event(content: str | bytes) -> dict[str, Any]:
    """Return the event of a JSON text. Raises: MalformedMessage."""
    try:
        return check_event(json.loads(content))
    except ValueError as error:
        raise MalformedMessage(what="an event", why=str(error)) from error


def check_event(fields: object) -> dict[str, Any]:
    """Return an event whose version and kind are known. Raises: MalformedMessage."""
    if not isinstance(fields, dict):
        raise MalformedMessage(what="an event", why="it is not an object")
    if fields.get("version") != VERSION:
        raise MalformedMessage(what="an event", why=f"version {fields.get('version')!r} is new")
    if fields.get("event") not in set(EventKind):
        raise MalformedMessage(what="an event", why=f"{fields.get('event')!r} is not known")
    texts = ["id", "run"]
    if fields["event"] != EventKind.DEAD_LETTERED:
        texts += ["bucket", "marker", "manifest", "manifest_sha256"]
        if type(fields.get("generation")) is not int:
            raise MalformedMessage(what="an event", why="'generation' is not a number")
    if wrong := [name for name in texts if not isinstance(fields.get(name), str)]:
        raise MalformedMessage(what="an event", why=f"{', '.join(wrong)}: not a text")
    return fields


def subject(event: Mapping[str, Any]) -> str:
    """Return what an event is about: a run's generation, else its id. Work on it is done once."""
    return f"{event['run']}/{event['generation']}" if "generation" in event else str(event["id"])


def digest(event: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what an event tells, however it was delivered."""
    told = {name: value for name, value in event.items() if name != DELIVERY}
    return hashlib.sha256(_text(told).encode()).hexdigest()


def execution_name(event: Mapping[str, Any]) -> str:
    """Return a name for the work on an event, always the same one for the same event.

    Lower-case letters, digits and single hyphens, a letter first, at most 80: Step Functions, AWS
    Batch and Nextflow take it.
    """
    mark = hashlib.sha256(str(event["id"]).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    words = re.sub("[^a-z0-9]+", "-", subject(event).lower()).strip("-")
    room = _NAME_CHARACTERS - len(f"run--{mark}")
    return f"run-{words[:room].strip('-')}-{mark}"


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

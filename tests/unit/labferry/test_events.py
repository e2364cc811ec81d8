"""Is the same fact the same event, and can a stranger read it from the schema alone?"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from labferry.dead_letter import DeadLetter
from labferry.errors import MalformedMessage
from labferry.events import (
    EventKind,
    check_event,
    dead_letter_event,
    digest,
    execution_name,
    read_event,
    run_event,
    subject,
)
from labferry.identity import RunKey
from labferry.manifest import Gap, Marker
from labferry.records import Note
from labferry.states import Event, State
from tests.unit.labferry.records_by_hand import record

RUN = RunKey("seq", "run ü (1)")
DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = json.loads((DOCS / "events-v1.schema.json").read_text("utf-8"))
NOTE = Note(event=Event.QUARANTINE, kind="permanent", code="AccessDenied", message="denied")


def marker(generation: int = 1, gap: Gap | None = None) -> Marker:
    return Marker(
        run=RUN,
        generation=generation,
        manifest=f"runs/{RUN}/{generation}/manifest.jsonl",
        sha256="ab" * 32,
        files=3,
        size=10,
        total_files=5,
        evidence={"A": 3},
        gap=gap,
    )


def told(generation: int = 1, gap: Gap | None = None) -> dict[str, Any]:
    return read_event(run_event(marker(generation, gap), "runs/k", "lab"))


def dead() -> dict[str, Any]:
    letter = DeadLetter(
        file=RUN.file("a"), at_ms=5, record=record(State.QUARANTINED), notes=(NOTE,)
    )
    return read_event(dead_letter_event(letter, "quarantine/k", "lab"))


GAP = Gap(files=1, size=2, actor="ada@lab", reason="the disk died")
EVENTS = [told(), told(2), told(1, GAP), dead()]


def test_the_first_generation_the_later_ones_and_a_closed_run_are_told_apart() -> None:
    kinds = [event["event"] for event in EVENTS]
    assert kinds == ["run.completed", "run.generation", "run.incomplete", "file.dead_lettered"]
    assert set(kinds) == set(EventKind)


def test_the_event_id_names_run_generation_and_digest() -> None:
    assert told(2)["id"] == f"seq/run ü (1)/2/{'ab' * 32}"
    assert subject(told(2)) == "seq/run ü (1)/2"
    assert subject(dead()) == dead()["id"]


def test_a_delivery_s_own_data_is_no_part_of_the_digest() -> None:
    event = told()
    assert digest({**event, "delivery": {"attempt": 9}}) == digest(event)
    assert digest({**event, "files": 4}) != digest(event)


def test_a_name_of_an_execution_fits_everywhere_and_is_always_the_same() -> None:
    long = RunKey("seq", "x" * 200)
    names = [execution_name(event) for event in EVENTS]
    names.append(execution_name({**told(), "run": str(long), "id": "i"}))
    assert len(set(names)) == 4, "the first and the closed one are one generation here"
    assert names[0] == execution_name(told())
    for name in names:
        assert re.fullmatch(r"[a-z](?:[a-z0-9]|-(?=[a-z0-9])){0,79}", name)


@pytest.mark.parametrize(
    "changes",
    [{"version": 2}, {"event": "run.started"}, {"id": 1}, {"generation": "1"}, {"run": None}],
)
def test_an_event_that_cannot_be_trusted_is_malformed(changes: dict[str, object]) -> None:
    with pytest.raises(MalformedMessage):
        check_event({**told(), **changes})
    with pytest.raises(MalformedMessage):
        read_event("{")


# -- the schema, as far as it is used here


def faults(schema: dict[str, Any], value: Any) -> list[str]:
    """Return what a value has that the schema does not allow."""
    if "oneOf" in schema:
        fits = [one for one in schema["oneOf"] if not faults(resolved(one), value)]
        return [] if len(fits) == 1 else [f"{len(fits)} of oneOf fit"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{value!r} is not {schema['const']!r}")
    kinds = {"object": dict, "string": str, "integer": int, "boolean": bool}
    if "type" in schema and type(value) is not kinds[schema["type"]]:
        return [*found, f"{value!r} is no {schema['type']}"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{value!r} does not match {schema['pattern']}")
    found += [f"{name} is missing" for name in schema.get("required", []) if name not in value]
    known = schema.get("properties", {})
    for name, inner in value.items() if isinstance(value, dict) else ():
        if name in known:
            found += faults(resolved(known[name]), inner)
        elif schema.get("type") == "object":
            found.append(f"{name} is not described")
    return found


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event["event"])
def test_each_event_is_as_the_schema_says(event: dict[str, Any]) -> None:
    assert faults(SCHEMA, event) == []
    delivery = {"attempt": 2, "unknown": 1, "sent_at": "2026-11-29T00:00:00.000Z"}
    assert faults(SCHEMA, {**event, "delivery": delivery}) == []
    assert faults(SCHEMA, {**event, "version": 2})
    assert faults(SCHEMA, {name: event[name] for name in event if name != "id"})

"""Where is one event in an inbox, and what may happen to it next? Pure."""

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from labferry.events import digest, subject
from labferry.versioned import known, read_versioned, write_versioned

_VERSION = 1


class Stage(StrEnum):
    """Where the work on an event is."""

    WAITING = "waiting"  # not begun, or to be tried again
    RUNNING = "running"  # begun, under a lease
    DONE = "done"  # it came to its end
    FAILED = "failed"  # tried as often as is allowed
    UNKNOWN = "unknown"  # begun and never ended: a person finds out how far it came
    REJECTED = "rejected"  # what came is not what came before, or is no event


#: Of these something happens by itself.
OPEN = frozenset({Stage.WAITING, Stage.RUNNING})
#: Of these a person decides.
STUCK = frozenset({Stage.FAILED, Stage.UNKNOWN, Stage.REJECTED})
#: What a person may decide.
DONE, AGAIN = "done", "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decided on one that was stuck: `done`, or `again`; `was` is its stage then."""

    what: str
    was: str
    actor: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event in an inbox; `key` is what it is about, `content` the event as JSON text.

    `until_ms` is when the lease of a running one ends, `due_ms` when a waiting one may begin.
    `decisions` are those of persons, oldest first; who wrote the entry before there were any to
    keep left them out.
    `revision` counts changes: whoever saw an older one changes nothing.
    """

    key: str
    digest: str
    content: str
    stage: Stage = Stage.WAITING
    tries: int = 0
    owner: str = ""
    first_ms: int = 0
    due_ms: int = 0
    until_ms: int = 0
    why: str = ""
    decisions: tuple[Decision, ...] = ()
    revision: int = 0

    @property
    def event(self) -> dict[str, Any]:
        """Return the event."""
        fields: dict[str, Any] = json.loads(self.content)
        return fields

    def pack(self) -> str:
        """Return the entry as a shelf keeps it, but for its revision."""
        kept = {name: value for name, value in asdict(self).items() if name != "revision"}
        return write_versioned(_VERSION, kept)


def unpack(text: str, revision: int) -> Entry:
    """Read an entry. Raises: MalformedMessage."""

    def make(fields: dict[str, Any]) -> Entry:
        decisions = [Decision(**known(Decision, one)) for one in fields.pop("decisions", ())]
        return Entry(
            **{**known(Entry, fields), "stage": Stage(fields["stage"]), "revision": revision},
            decisions=tuple(decisions),
        )

    return read_versioned(text, _VERSION, "an inbox's entry", make)


def received(event: dict[str, Any], now_ms: int) -> Entry:
    """Return the entry of an event that came for the first time."""
    content = json.dumps(event, sort_keys=True, ensure_ascii=False)
    return Entry(key=subject(event), digest=digest(event), content=content, first_ms=now_ms)


def rejected(key: str, mark: str, content: str, why: str) -> Entry:
    """Return the entry that keeps what was not taken; the same thing has the same key."""
    return Entry(
        key=f"{key}!{mark[:12]}", digest=mark, content=content, stage=Stage.REJECTED, why=why
    )


def may_begin(entry: Entry, now_ms: int) -> bool:
    """Whether work on it may begin now, or its lease has lapsed."""
    if entry.stage is Stage.RUNNING:
        return entry.until_ms <= now_ms
    return entry.stage is Stage.WAITING and entry.due_ms <= now_ms


def begun(entry: Entry, owner: str, until_ms: int) -> Entry:
    """Return it under a lease."""
    return replace(
        entry, stage=Stage.RUNNING, owner=owner, until_ms=until_ms, tries=entry.tries + 1, why=""
    )


def renewed(entry: Entry, until_ms: int) -> Entry:
    """Return it with a longer lease."""
    return replace(entry, until_ms=until_ms)


def lost(entry: Entry) -> Entry:
    """Return it once its lease lapsed, where only a person may say how far it came."""
    why = f"{entry.owner} began it and never said how it ended"
    return replace(entry, stage=Stage.UNKNOWN, why=why)


def ended(entry: Entry) -> Entry:
    """Return it once its work is done."""
    return replace(entry, stage=Stage.DONE, until_ms=0, why="")


def put_off(entry: Entry, why: str, due_ms: int) -> Entry:
    """Return it once its work failed and is to be tried again."""
    return replace(entry, stage=Stage.WAITING, until_ms=0, due_ms=due_ms, why=why)


def given_up(entry: Entry, why: str) -> Entry:
    """Return it once its work failed for good."""
    return replace(entry, stage=Stage.FAILED, until_ms=0, why=why)


def decided(entry: Entry, decision: Decision) -> Entry:
    """Return a stuck one as a person says: its work is done, or it is as if it had just come."""
    entry = replace(entry, decisions=(*entry.decisions, decision))
    if decision.what == DONE:
        return ended(entry)
    return replace(entry, stage=Stage.WAITING, tries=0, due_ms=0, until_ms=0, why="")

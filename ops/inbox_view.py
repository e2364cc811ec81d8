"""What does `labferry consume --list` show, and what is said of a person's decision?"""

import json
from collections.abc import Iterator

from labferry.inbox import Entry, Inbox
from labferry.inbox.entries import STUCK
from ops.shown import instant


def list_inbox(inbox: Inbox, *, as_json: bool) -> None:
    """Print everything that came, oldest first."""
    entries = inbox.entries()
    if as_json:
        print(json.dumps({"entries": [_json(one) for one in entries]}, ensure_ascii=False))
        return
    for one in entries:
        for line in _lines(one):
            print(line)
    if not entries:
        print("Nothing came yet.")


def _json(entry: Entry) -> dict[str, object]:
    return {
        "subject": entry.key,
        "stage": entry.stage,
        "tries": entry.tries,
        "first_ms": entry.first_ms,
        "owner": entry.owner or None,
        "why": entry.why or None,
        "event": json.loads(entry.content),
    }


def _lines(entry: Entry) -> Iterator[str]:
    since = instant(entry.first_ms) if entry.first_ms else ""
    yield f"{entry.stage:9} {entry.key}  {since}".rstrip()
    if entry.why:
        yield f"          {entry.why}"
    if entry.stage in STUCK:
        yield f"          decide: labferry consume --done or --again '{entry.key}'"


def decide_entry(inbox: Inbox, key: str, *, done: bool) -> None:
    """Note a person's decision on what is stuck. Raises: NotFound, Refused."""
    entry = inbox.decide(key, done=done)
    print(f"{entry.key} is {entry.stage} now.")

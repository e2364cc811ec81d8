"""What does `labferry consume --list` show, and what is said of a person's decision?"""

import json
from collections.abc import Iterator
from dataclasses import asdict

from labferry.audit import Act
from labferry.inbox import Entry, Inbox
from labferry.inbox.entries import DONE, STUCK
from ops.shown import instant, tell_change


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
        "decisions": [asdict(one) for one in entry.decisions],
        "event": json.loads(entry.content),
    }


def _lines(entry: Entry) -> Iterator[str]:
    since = instant(entry.first_ms) if entry.first_ms else ""
    yield f"{entry.stage:9} {entry.key}  {since}".rstrip()
    if entry.why:
        yield f"          {entry.why}"
    for one in entry.decisions:
        yield f"          {instant(one.at_ms)} {one.was}, {one.what} by {one.actor}: {one.reason}"
    if entry.stage in STUCK:
        yield f"          decide: labferry consume --done or --again '{entry.key}' --reason TEXT"


def decide_entry(inbox: Inbox, key: str, act: Act, *, dry_run: bool, as_json: bool) -> None:
    """Note a person's decision on what is stuck, or say what that would do.

    Raises: NotFound, Refused.
    """
    done = act.what == DONE
    if dry_run:
        entry = inbox.get_stuck(key)
    else:
        entry = inbox.decide(key, done=done, actor=act.actor, reason=act.reason)
    sentence = f"{key} is done." if done else f"{key} is to begin again."
    tell_change(sentence, _json(entry), dry_run=dry_run, as_json=as_json)

"""Was this event worked on before, and may it be worked on now?

The consumer's side of labferry: an inbox keeps what came, and lets work on each generation of a
run begin once. An identical redelivery is nothing new, also after a restart; the same generation
with other content is rejected. Work is done under a lease: whoever dies over it leaves an entry of
which it is not known how far it came. By setting that is for a person, or is begun again.

    inbox = open_inbox("/var/lib/pipeline/inbox.sqlite3")

    @app.task(name="pipeline.run_completed")
    def run_completed(event):
        with inbox.once(event) as first:
            if first:
                submit(event["manifest"])
"""

import hashlib
import json
import os
import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from labferry.errors import ChangedEvent, MalformedMessage, NotFound, Refused
from labferry.events import check_event, digest
from labferry.inbox.entries import (
    AGAIN,
    DONE,
    STUCK,
    Decision,
    Entry,
    Stage,
    begun,
    decided,
    ended,
    given_up,
    lost,
    may_begin,
    put_off,
    received,
    rejected,
    renewed,
)
from labferry.inbox.shelves import Shelf, open_shelf

__all__ = ["Entry", "Inbox", "Stage", "open_inbox"]

LEASE_S = 60.0
#: Renewals a lease.
RENEWALS = 3
#: Others may come first this often.
_TRIES = 100
_STEP = "Deliver it again later; `labferry consume --list` shows what waits for a person."


def open_inbox(place: str, *, lease_s: float = LEASE_S, reruns: bool = False) -> "Inbox":
    """Return the inbox at a path of this host, or at redis://HOST:PORT/DATABASE#NAME.

    `reruns` where work that was begun and never ended may begin again. Raises: SettingsError.
    """
    return Inbox(open_shelf(place), lease_s=lease_s, reruns=reruns)


class Inbox:
    """Events and how far the work on each is. Safe in threads and among processes."""

    def __init__(self, shelf: Shelf, *, lease_s: float = LEASE_S, reruns: bool = False) -> None:
        self._shelf = shelf
        self.lease_s = lease_s
        self._reruns = reruns
        self._nonce = secrets.token_hex(4)

    def receive(self, event: object) -> Entry:
        """Keep an event that was delivered, and return its entry; after this, acknowledge it.

        Raises: MalformedMessage for what is no event, ChangedEvent for another content of the
        same generation; both are kept, too, for a person.
        """
        try:
            checked = check_event(event)
        except MalformedMessage as error:
            content = json.dumps(event, sort_keys=True, ensure_ascii=False, default=str)
            mark = hashlib.sha256(content.encode()).hexdigest()
            self._shelf.put(rejected("no event", mark, content, str(error)))
            raise
        new = received(checked, self._shelf.now_ms())
        known = self._shelf.put(new) or self._shelf.find(new.key) or new
        if known.digest != digest(checked):
            why = f"another content of {new.key} came before"
            self._shelf.put(rejected(new.key, new.digest, new.content, why))
            raise ChangedEvent(subject=new.key, known=known.digest, came=new.digest)
        return known

    def take(self, key: str | None = None) -> Entry | None:
        """Begin the work on one that may begin, or on that of the key, under a lease.

        None where there is none. One whose lease lapsed is begun again or left to a person, by
        setting.
        """
        now_ms = self._shelf.now_ms()
        found = self._shelf.find(key) if key else None
        candidates = [found] if found else [] if key else self._shelf.entries(only_open=True)
        for entry in candidates:
            if not may_begin(entry, now_ms):
                continue
            if entry.stage is Stage.RUNNING and not self._reruns:
                self._shelf.put(lost(entry))
                continue
            if taken := self._shelf.put(begun(entry, self._owner(), self._until_ms())):
                return taken
        return None

    def renew(self, entry: Entry) -> Entry | None:
        """Extend the lease; None where it was lost: somebody else may be at work by now."""
        return self._shelf.put(renewed(entry, self._until_ms()))

    def finish(self, entry: Entry) -> bool:
        """Note that the work is done; False where the lease was lost before."""
        return self._shelf.put(ended(entry)) is not None

    def fail(self, entry: Entry, why: str, *, wait_s: float | None) -> bool:
        """Note that the work failed: to be tried again after the wait, or for good with None.

        False where the lease was lost before.
        """
        if wait_s is None:
            return self._shelf.put(given_up(entry, why)) is not None
        due_ms = self._shelf.now_ms() + int(wait_s * 1000)
        return self._shelf.put(put_off(entry, why, due_ms)) is not None

    @contextmanager
    def once(self, event: object) -> Iterator[Entry | None]:
        """Receive an event and lend the right to work on it, or None where the work was done.

        The lease is renewed until the block ends. An exception in the block is a failure: the next
        delivery may try again. Raises: MalformedMessage, ChangedEvent; Refused while another is at
        work on it (deliver it again later), and where a person is to decide.
        """
        key = self.receive(event).key
        entry = self.take(key)
        if entry is None:
            self._demand_done(key)
            yield None
            return
        renewal = _Renewal(self, entry)
        try:
            yield entry
        except BaseException as error:
            self.fail(renewal.end(), f"{type(error).__name__}: {error}", wait_s=0)
            raise
        if not self.finish(renewal.end()):
            raise Refused(what=key, why="its lease was lost meanwhile", step=_STEP)

    def _demand_done(self, key: str) -> None:
        found = self._shelf.find(key)
        if found and found.stage is not Stage.DONE:
            why = found.why or f"it is {found.stage}, {found.owner} is at work on it"
            raise Refused(what=key, why=why, step=_STEP)

    def get_stuck(self, key: str) -> Entry:
        """Return one on which a person is to decide. Raises: NotFound, Refused."""
        entry = self._shelf.find(key)
        if entry is None:
            raise NotFound(what=f"{key} in this inbox", step="`labferry consume --list`")
        if entry.stage not in STUCK:
            raise Refused(what=key, why=f"it is {entry.stage}", step="Nothing is to be done.")
        return entry

    def decide(self, key: str, *, done: bool, actor: str, reason: str) -> Entry:
        """Note a person's word on one that is stuck, with who and why: it is done, or is to begin
        again.

        Raises: NotFound, Refused.
        """
        for _ in range(_TRIES):
            entry = self.get_stuck(key)
            decision = Decision(
                what=DONE if done else AGAIN,
                was=entry.stage,
                actor=actor,
                reason=reason,
                at_ms=self._shelf.now_ms(),
            )
            if put := self._shelf.put(decided(entry, decision)):
                return put
        raise Refused(what=key, why="others change it", step="Try again.")

    def entries(self) -> Sequence[Entry]:
        """Return everything in the inbox, oldest first."""
        return self._shelf.entries(only_open=False)

    def wait_ms(self) -> int | None:
        """Return how long until something may begin; None where nothing waits or runs."""
        now_ms = self._shelf.now_ms()
        waits = [
            (one.until_ms if one.stage is Stage.RUNNING else one.due_ms) - now_ms
            for one in self._shelf.entries(only_open=True)
        ]
        return max(min(waits), 0) if waits else None

    def _owner(self) -> str:
        return f"{socket.gethostname()}:{os.getpid()}:{self._nonce}"

    def _until_ms(self) -> int:
        return self._shelf.now_ms() + int(self.lease_s * 1000)


class _Renewal:
    """Renews a lease beside the work on it."""

    def __init__(self, inbox: Inbox, entry: Entry) -> None:
        self._inbox = inbox
        self._entry = entry
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        while not self._stop.wait(self._inbox.lease_s / RENEWALS):
            renewed_ = self._inbox.renew(self._entry)
            if renewed_ is None:
                return
            self._entry = renewed_

    def end(self) -> Entry:
        """Stop it and return the entry as it is now."""
        self._stop.set()
        self._thread.join()
        return self._entry

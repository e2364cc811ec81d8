"""Where are an inbox's entries kept? In a file of SQLite, or in a Redis or Valkey."""

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from labferry import cluster_nodes, sentinels
from labferry.errors import InboxUnavailable, LedgerUnavailable, SettingsError
from labferry.inbox.entries import OPEN, Entry, unpack
from labferry.ledger.server import Argument, Key, Server, to_ms

_SCHEMES = ("redis", "rediss", "unix", sentinels.SCHEME, *cluster_nodes.SCHEMES)
_REDIS = tuple(f"{scheme}://" for scheme in _SCHEMES)
_NAME = "inbox"
#: Another process that writes is waited for so long.
_BUSY_S = 30.0
_TABLE = """
create table if not exists entries (
    key text primary key, place integer, open integer not null,
    revision integer not null, value text not null)
"""
_INDEX = "create index if not exists open_entries on entries (open, place)"
#: SQLite's clock is the same for all processes of a host.
_NOW_MS = "select cast((julianday('now') - 2440587.5) * 86400000 as integer)"


class Shelf(Protocol):
    """Keeps entries; every call is atomic, also between processes."""

    def now_ms(self) -> int:
        """Return the shelf's clock."""
        ...

    def find(self, key: str) -> Entry | None:
        """Return an entry."""
        ...

    def put(self, entry: Entry) -> Entry | None:
        """Put an entry in the place of the one it was made of, or of none for revision 0.

        Return it as it is now, or None, and do nothing, where another is there.
        """
        ...

    def entries(self, *, only_open: bool) -> Sequence[Entry]:
        """Return entries, oldest first."""
        ...


def open_shelf(place: str) -> Shelf:
    """Return the shelf at a path, or at redis://HOST:PORT/DATABASE#NAME. Raises: SettingsError."""
    if place.startswith(_REDIS):
        url, _, name = place.partition("#")
        return RedisShelf(Server(url), name or _NAME)
    try:
        return SqliteShelf(Path(place))
    except InboxUnavailable as error:
        raise SettingsError(
            field="--inbox",
            why=f"{place}: {error.__cause__}",
            step="Name a file in a folder of this host that can be written, or a redis:// address.",
        ) from error


class SqliteShelf:
    """Entries in one file, on a disk of this host: SQLite's locks do not hold on network shares."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opened: tuple[int, sqlite3.Connection] | None = None
        self._ask(_NOW_MS)

    def _ask(self, statement: str, values: tuple[object, ...] = ()) -> tuple[list[Any], int]:
        """Return the rows of a statement, and how many it changed."""
        try:
            with self._lock:
                done = self._db().execute(statement, values)
                return done.fetchall(), done.rowcount
        except sqlite3.Error as error:
            raise InboxUnavailable(place=str(self._path), why=str(error)) from error

    def _db(self) -> sqlite3.Connection:
        """Return this process's connection: none may cross a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            db = sqlite3.connect(
                self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = full")  # what was received is acknowledged then
            db.execute(_TABLE)
            db.execute(_INDEX)
            self._opened = (os.getpid(), db)
        return self._opened[1]

    def now_ms(self) -> int:
        """Return the host's clock."""
        return int(self._ask(_NOW_MS)[0][0][0])

    def find(self, key: str) -> Entry | None:
        """Return an entry."""
        found, _ = self._ask("select value, revision from entries where key = ?", (key,))
        return unpack(*found[0]) if found else None

    def put(self, entry: Entry) -> Entry | None:
        """Put an entry in the place of the one it was made of."""
        values = (entry.stage in OPEN, entry.pack(), entry.key)
        if entry.revision:
            _, changed = self._ask(
                "update entries set open = ?, value = ?, revision = revision + 1 "
                "where key = ? and revision = ?",
                (*values, entry.revision),
            )
        else:
            _, changed = self._ask(
                "insert or ignore into entries (open, value, key, revision, place) "
                "select ?, ?, ?, 1, coalesce(max(place), 0) + 1 from entries",
                values,
            )
        return replace(entry, revision=entry.revision + 1) if changed else None

    def entries(self, *, only_open: bool) -> list[Entry]:
        """Return entries, oldest first."""
        found, _ = self._ask(
            "select value, revision from entries where open >= ? order by place", (only_open,)
        )
        return [unpack(*row) for row in found]


class RedisShelf:
    """Entries in a Redis or Valkey, for consumers on several hosts."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._entries = f"labferry:{{{name}}}:entries"  # hash key -> `<revision> <entry>`
        self._open = f"labferry:{{{name}}}:open"  # zset key -> when it came
        self._order = f"labferry:{{{name}}}:order"  # zset key -> when it came, of all

    def now_ms(self) -> int:
        """Return the server's clock."""
        return to_ms(self._ask(self._server.client.time))

    def find(self, key: str) -> Entry | None:
        """Return an entry."""
        return _read(self._ask(self._server.client.hget, self._entries, key))

    def put(self, entry: Entry) -> Entry | None:
        """Put an entry in the place of the one it was made of."""
        keys: list[Key] = [self._entries, self._open, self._order]
        args: list[Argument] = [entry.key, entry.revision, entry.pack(), int(entry.stage in OPEN)]
        done = self._ask(self._server.script, "put_entry", keys, args)
        return replace(entry, revision=entry.revision + 1) if done else None

    def entries(self, *, only_open: bool) -> list[Entry]:
        """Return entries, oldest first."""
        index, client = self._open if only_open else self._order, self._server.client
        names = self._ask(client.zrange, index, 0, -1)
        values = self._ask(client.hmget, self._entries, names) if names else []
        return [entry for entry in map(_read, values) if entry]

    def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return self._server.ask(call, *args)
        except LedgerUnavailable as error:
            raise InboxUnavailable(place=self._server.url, why=str(error.__cause__)) from error


def _read(value: bytes | None) -> Entry | None:
    if value is None:
        return None
    revision, _, text = value.decode().partition(" ")
    return unpack(text, int(revision))

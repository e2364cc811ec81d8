"""How do the records of a run that is over leave the ledger, and come back?

They are put aside in one step and forgotten piece by piece; they come back piece by piece and are
put on record in one step. So no other client waits for long, and nobody sees half a run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from labferry.archive import Archive
from labferry.archive_lines import ArchivedFile
from labferry.identity import RunKey
from labferry.ledger.keys import ACTIVE, FINISHED, RunKeys, run_keys_of
from labferry.ledger.layout import pack_record, unpack_record
from labferry.ledger.notes import pack_line, unpack_note
from labferry.ledger.section import Section
from labferry.ledger.server import Key, pack, to_ms
from labferry.versioned import read_record, write_versioned

_VERSION = 1
_PAGE_FILES = 1000


class Archives(Section):
    """The part of the ledger that puts the records of complete runs away and takes them back."""

    def note_sight(self, run: RunKey, sight: str) -> None:
        """Record what a scan that found nothing to do saw."""
        self._server.ask(self._server.client.hset, RunKeys(run).meta, "sight", sight)

    def finished_runs(self, *, rest_ms: int, limit: int) -> list[RunKey]:
        """Return runs that were retired so long ago."""
        client = self._server.client
        until_ms = to_ms(self._server.ask(client.time)) - rest_ms
        found = self._server.ask(
            client.zrangebyscore, FINISHED, "-inf", until_ms, start=0, num=limit
        )
        return run_keys_of(found)

    def archived_files(self, run: RunKey) -> Iterator[ArchivedFile]:
        """Yield every file with its history."""
        keys, client, cursor = RunKeys(run), self._server.client, 0
        while True:
            cursor, page = self._server.ask(client.hscan, keys.files, cursor, count=_PAGE_FILES)
            paths = list(page)

            def fill(pipe: Any, paths: list[bytes] = paths) -> None:
                for path in paths:
                    pipe.lrange(keys.history + path.decode(), 0, -1)

            histories = self._server.pipeline(fill) if paths else []
            for path, lines in zip(paths, histories, strict=True):
                yield ArchivedFile(
                    path=path.decode(),
                    record=unpack_record(page[path]),
                    history=tuple(unpack_note(line) for line in lines),
                )
            if not cursor:
                return

    def put_away(self, run: RunKey, archive: Archive, moves: int) -> bool:
        """Take a complete run's records off the ledger."""
        keys = RunKeys(run)
        given: list[Key] = [keys.meta, keys.files, keys.forgotten, *keys.needless]
        if not self._server.script("put_away", given, [str(moves), pack_archive(archive)]):
            return False
        self._forget(keys)
        self._server.ask(self._server.client.zrem, FINISHED, str(run))
        return True

    def _forget(self, keys: RunKeys) -> None:
        client, cursor = self._server.client, 0
        while True:
            # From where the last page ended: the first places are empty by then.
            cursor, page = self._server.ask(client.hscan, keys.forgotten, cursor, count=_PAGE_FILES)
            if page:
                given: list[Key] = [keys.forgotten, keys.history]
                self._server.script("forget", given, [pack(list(page))])
            if not cursor:
                return

    def take_back(self, run: RunKey, archive: Archive, files: Iterable[ArchivedFile]) -> bool:
        """Put all files of the archive on record again."""
        keys, name = RunKeys(run), pack_archive(archive)
        self._forget(keys)  # else what is brought now might be forgotten later
        left = iter(files)
        while some := list(islice(left, _PAGE_FILES)):
            brought = [
                (one.path, pack_record(one.record), [pack_line(note) for note in one.history])
                for one in some
            ]
            given: list[Key] = [keys.meta, keys.brought, keys.history]
            if not self._server.script("bring", given, [name, pack(brought)]):
                return False
        # First: a run that is on no index would be forgotten, the reverse is harmless.
        self._server.script("activate", [ACTIVE], [str(run)])
        given = [keys.meta, keys.brought, keys.files]
        return bool(self._server.script("take_back", given, [name, archive.files]))


def pack_archive(archive: Archive) -> str:
    """Return an archive's name as JSON, always the same text for the same one."""
    return write_versioned(_VERSION, asdict(archive))


def unpack_archive(value: bytes | None) -> Archive | None:
    """Read an archive's name; None where there is none. Raises: MalformedMessage."""
    if value is None:
        return None
    return read_record(value, _VERSION, "an archive's name", Archive)

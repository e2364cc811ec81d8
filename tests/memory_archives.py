"""Runs whose records were put away, in memory; a part of MemoryLedger."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from labferry.archive import Archive
from labferry.archive_lines import ArchivedFile
from labferry.identity import RunKey


class MemoryArchives:
    """The ArchiveLedger port in memory; every call is made under the ledger's lock."""

    lock: threading.RLock
    data: dict[RunKey, Any]
    clock_ms: int
    _active: dict[RunKey, int]

    def __init__(self) -> None:
        self._finished: dict[RunKey, int] = {}
        super().__init__()

    def note_sight(self, run: RunKey, sight: str) -> None:
        with self.lock:
            self.data[run].sight = sight

    def finished_runs(self, *, rest_ms: int, limit: int) -> list[RunKey]:
        with self.lock:
            until_ms = self.clock_ms - rest_ms
            found = sorted((at_ms, run) for run, at_ms in self._finished.items())
            return [run for at_ms, run in found if at_ms <= until_ms][:limit]

    def archived_files(self, run: RunKey) -> Iterator[ArchivedFile]:
        with self.lock:
            if run not in self.data:
                return iter(())
            data = self.data[run]
            return iter(
                [
                    ArchivedFile(path=path, record=record, history=tuple(data.history[path]))
                    for path, record in data.files.items()
                ]
            )

    def put_away(self, run: RunKey, archive: Archive, moves: int) -> bool:
        with self.lock:
            data = self.data[run]
            if data.archive is None:
                if data.moves != moves or not data.is_complete:
                    return False
                data.archive, data.counted = archive, data.counts()
                data.files.clear()
                data.history.clear()
            self._finished.pop(run, None)
            return bool(data.archive == archive)

    def take_back(self, run: RunKey, archive: Archive, files: Iterable[ArchivedFile]) -> bool:
        brought = {one.path: one for one in files}
        with self.lock:
            data = self.data[run]
            if data.archive != archive or len(brought) != archive.files:
                return False
            for path, one in brought.items():
                data.files[path] = replace(one.record)
                if one.history:
                    data.history[path] = list(one.history)
            data.archive, data.finished_ms = None, self.clock_ms
            data.moves += 1
            self._active[run] = self.clock_ms
            return True

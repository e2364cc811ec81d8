"""What does labferry ask of the ledger about runs that are over: may their records leave it?"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from labferry.archive import Archive
from labferry.archive_lines import ArchivedFile
from labferry.identity import RunKey


class ArchiveLedger(Protocol):
    """The part of the ledger that puts the records of complete runs away and takes them back."""

    def note_sight(self, run: RunKey, sight: str) -> None:
        """Record what a scan that found nothing to do saw of a complete run, in one number."""
        ...

    def finished_runs(self, *, rest_ms: int, limit: int) -> list[RunKey]:
        """Return runs that were retired so long ago and whose records are not put away."""
        ...

    def archived_files(self, run: RunKey) -> Iterator[ArchivedFile]:
        """Yield every file of a run with its history, in no order; a path may come twice."""
        ...

    def put_away(self, run: RunKey, archive: Archive, moves: int) -> bool:
        """Take a complete run's records off the ledger, once they are in the archive.

        Return False, and do nothing, where something of the run moved since its facts had `moves`.
        From then on the run's facts name the archive, and nothing of it is discovered or moved.
        Goes on where an earlier call was cut short.
        """
        ...

    def take_back(self, run: RunKey, archive: Archive, files: Iterable[ArchivedFile]) -> bool:
        """Put all files of the archive on record again; the run is active then.

        Return False, and leave the run as it is, where they are not as many as the archive has, or
        where it is not the run's archive any more.
        """
        ...

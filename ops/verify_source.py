"""Is the source of a run still what its manifests name? Each file read, where this host sees it.

An edit that leaves the size and puts the time back shows in the bytes alone. A source that was
cleaned up since is no fault: what vanished is named, and that is all.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from labferry.identity import RunKey
from labferry.manifest import Entry
from labferry.source.claims import RunReader
from labferry.source.scan import GONE, errno_name
from labferry.source.share import is_here, run_path
from labferry.source.tally import Names
from ops.shown import counted
from ops.source_checksum import source_checksum


@dataclass(slots=True)
class SourceFound:
    """What a look at the source came to; `unseen` says why there was none, or none to its end."""

    unseen: str = ""
    files: int = 0
    size: int = 0
    different: Names = field(default_factory=Names)
    vanished: Names = field(default_factory=Names)
    unread: Names = field(default_factory=Names)

    @property
    def is_sound(self) -> bool:
        """Whether all that is there could be read, and is as the manifests say; of a share that
        is away that cannot be asked."""
        return not self.different and not (self.unread and not self.unseen)

    def words(self) -> str:
        """Return what a person is to know."""
        if not self.is_sound:
            return (
                f"at the source {self.different.count:,} different, {counted(self.unread.count)} "
                "not readable; the bucket has what was proven: find out what changed the source"
            )
        if self.unseen:
            return f"the source was not looked at: {self.unseen}"
        gone = f", {self.vanished.count:,} not there any more" if self.vanished else ""
        return f"the source agrees{gone}"

    def to_json(self) -> dict[str, object]:
        """Return the facts."""
        kinds = {name: getattr(self, name) for name in ("different", "vanished", "unread")}
        return {
            "unseen": self.unseen or None,
            "read_files": self.files,
            "read_bytes": self.size,
            **{f"{name}_count": names.count for name, names in kinds.items()},
            **{name: names.first for name, names in kinds.items()},
        }


def look_at_source(
    found: SourceFound,
    root: Path | None,
    run: RunKey,
    entries: Iterable[Entry],
    check: Callable[[], None],
) -> None:
    """Read each of these files at the source and note what was found; `root` is the instrument's on
    this host, `check` is called before each block and ends it by raising."""
    if root is None:
        found.unseen = f"the settings here have no [instruments.{run.instrument}]"
        return
    folder = run_path(root, run)
    if not is_here(root):
        found.unseen = f"{root} is away, or empty, on this host"
    elif not Path(os.fsdecode(folder)).is_dir():
        found.unseen = "the run's folder is not there"
    if found.unseen:
        return
    reader = RunReader(folder)
    try:
        for entry in entries:
            check()
            _compare(found, entry, reader, check)
    finally:
        reader.close()
    # In a share that went away every file seems gone.
    if (found.vanished or found.unread) and not is_here(root):
        found.unseen = f"{root} went away meanwhile"


def _compare(
    found: SourceFound, entry: Entry, reader: RunReader, check: Callable[[], None]
) -> None:
    try:
        size, crc64 = source_checksum(reader, entry.path, most=entry.size, check=check)
    except OSError as error:
        if error.errno in GONE:
            found.vanished.add([entry.path])
        else:
            found.unread.add([f"{entry.path} ({errno_name(error)})"])
        return
    found.files += 1
    found.size += size
    if size != entry.size or f"{crc64:016x}" != entry.crc64nvme:
        found.different.add([entry.path])

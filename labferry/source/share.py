"""Is the instrument's share there, and which runs are on it?

An absent root, or one without any run where there were runs before, is a mount that is away: then
nothing is concluded, least of all that files are gone.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from labferry.errors import BadName, ShareUnavailable
from labferry.identity import RunKey, decode_path, encode_path
from labferry.profiles import Profile
from labferry.source.scan import errno_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """One run at the source; `path` is the folder as the source calls it."""

    run: RunKey
    path: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a root held when it was listed: runs, and what directly below it is none."""

    root: Path
    identity: tuple[int, int]
    runs: tuple[RunFolder, ...]
    temporary: tuple[str, ...]  # folders that get another name when they are finished
    unusable: tuple[str, ...]  # folders whose name no key can hold: a sentence each
    unreadable: tuple[str, ...]  # folders on the way to runs that cannot be listed: a sentence each
    others_count: int  # files, links, litter, folders that the profile calls no runs

    def check(self) -> None:
        """Make sure that the root is the one that was listed. Raises: ShareUnavailable."""
        if _identity(self.root) != self.identity or not _runs_there(self):
            raise ShareUnavailable(
                path=str(self.root), why="the root is not the one that the scan began with"
            )


def is_here(root: Path) -> bool:
    """Whether a share is there: an unmounted one leaves an empty folder, or none."""
    try:
        with os.scandir(root) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def run_path(root: Path, run: RunKey) -> bytes:
    """Return a run's folder as the source calls it."""
    return os.fsencode(root) + b"/" + decode_path(run.run)


@dataclass(slots=True)
class _Found:
    runs: list[RunFolder] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    others_count: int = 0


def list_share(
    root: Path, instrument: str, profile: Profile, had_runs: Callable[[], bool]
) -> Share:
    """List a root's run folders, sorted by name.

    `had_runs` is asked only when there is none. Raises: ShareUnavailable.
    """
    identity = _identity(root)
    try:
        found = _find(os.fsencode(root), instrument, profile)
    except OSError as error:
        raise _unavailable(root, error) from error
    if not found.runs and had_runs():
        raise ShareUnavailable(
            path=str(root), why="there is no run folder in it, and there were runs before"
        )
    return Share(
        root=root,
        identity=identity,
        runs=tuple(sorted(found.runs, key=lambda folder: folder.run)),
        temporary=tuple(sorted(found.temporary)),
        unusable=tuple(sorted(found.unusable)),
        unreadable=tuple(sorted(found.unreadable)),
        others_count=found.others_count,
    )


def _find(root: bytes, instrument: str, profile: Profile) -> _Found:
    """Find the run folders below a root. Raises: OSError when the root cannot be listed."""
    found = _Found()
    stack: list[tuple[tuple[str, ...], bytes]] = [((), root)]
    while stack:
        folders, path = stack.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    names = (*folders, encode_path(entry.name))
                    if _leads_on(entry, instrument, names, profile, found):
                        stack.append((names, entry.path))
        except OSError as error:
            if not folders:
                raise
            found.unreadable.append(f"{'/'.join(folders)}: {errno_name(error)}")
    return found


def _leads_on(
    entry: os.DirEntry[bytes],
    instrument: str,
    names: tuple[str, ...],
    profile: Profile,
    found: _Found,
) -> bool:
    """Put an entry where it belongs; return whether there may be runs below it."""
    folder = entry.is_dir(follow_symlinks=False) and not profile.is_litter_folder(names[-1])
    path = "/".join(names)
    is_run = folder and profile.run_folders.match(path)
    if not is_run and not (folder and profile.run_folders.leads_to(path)):
        found.others_count += 1
    elif profile.is_temporary(names[-1]):
        found.temporary.append(path)
    elif not is_run:
        return True
    else:
        try:
            run = RunKey.below(instrument, names)
        except BadName as error:
            found.unusable.append(str(error))
        else:
            found.runs.append(RunFolder(run=run, path=entry.path))
    return False


def _identity(root: Path) -> tuple[int, int]:
    try:
        found = root.stat()
    except OSError as error:
        raise _unavailable(root, error) from error
    return found.st_dev, found.st_ino


def _runs_there(share: Share) -> bool:
    """Whether any of its runs is still there: a root that came back empty may be the same inode."""
    return any(_is_folder(folder.path) for folder in share.runs)


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _unavailable(root: Path, error: OSError) -> ShareUnavailable:
    return ShareUnavailable(path=str(root), errno_name=errno_name(error))

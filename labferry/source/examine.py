"""Is a folder done by a profile's rule, and which profile fits it? Without ledger and store.

For a facility that writes a profile and tries it on an old run. What only time can tell, whether
files are at rest and for how long, is assumed where two looks see the same, and said to be.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from labferry.errors import ShareUnavailable
from labferry.identity import Layout, RunKey, encode_path
from labferry.ports import Clock
from labferry.profiles import Profile
from labferry.profiles.detect import Fit, fits
from labferry.source.claims import claim_parts
from labferry.source.done import Holds, Listing, Part, is_done, listed_parts
from labferry.source.lists import examine_lists
from labferry.source.scan import errno_name, scan
from labferry.source.tally import Names, Tally
from labferry.source.unlisted import unlisted
from labferry.source.verdicts import ended_badly

#: Between the two looks at a folder.
PAUSE_S = 1.0
#: Entries that detection looks at, and folders below the given one that may be the run.
_ENTRIES = 5000
_CANDIDATES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What the rule says of one run folder.

    `is_named` says whether the agent would take the folder for a run, by its name.
    """

    path: str
    is_named: bool
    files: int
    size: int
    parts: tuple[Part, ...]
    last: tuple[str, ...]
    temporary: Names
    left_out: Names
    unreadable: Names
    alike: Names
    failed: Names
    unlisted: Names

    @property
    def done(self) -> bool:
        """Whether every part holds."""
        return is_done(list(self.parts))


def examine(folder: Path, profile: Profile, clock: Clock) -> list[Examination]:
    """Look twice at the runs in a folder, which may be one itself. Raises: ShareUnavailable."""
    runs = run_folders(folder, profile)
    is_named = bool(runs)
    runs = runs or [folder]
    before = [_Look(run, profile).digest for run in runs]
    clock.sleep_s(PAUSE_S)
    return [
        _examination(run, profile, is_named=is_named, before=digest)
        for run, digest in zip(runs, before, strict=True)
    ]


def run_folders(folder: Path, profile: Profile) -> list[Path]:
    """Return the run folders that a folder is, or holds: as many of its own names as a profile's
    pattern can take count as the beginning of the path from the root. Raises: ShareUnavailable."""
    above = [encode_path(os.fsencode(part)) for part in folder.resolve().parts[1:]]
    deepest = max(pattern.count("/") + 1 for pattern in profile.runs)
    for taken in range(min(deepest, len(above)), -1, -1):
        names = tuple(above[len(above) - taken :])
        if found := sorted(_runs_below(folder, names, profile)):
            return found
    return []


def _runs_below(folder: Path, names: tuple[str, ...], profile: Profile) -> Iterator[Path]:
    path = "/".join(names)
    if names and profile.run_folders.match(path):
        yield folder
    elif not names or profile.run_folders.leads_to(path):
        for below in _folders(folder):
            name = encode_path(os.fsencode(below.name))
            if not (profile.is_litter_folder(name) or profile.is_temporary(name)):
                yield from _runs_below(below, (*names, name), profile)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise ShareUnavailable(path=str(folder), errno_name=errno_name(error)) from error


class _Look:
    """One scan of a run folder."""

    def __init__(self, run: Path, profile: Profile) -> None:
        self.tally = Tally(profile)
        #: The same for the same files, in whatever order they were listed.
        self.digest = 0
        key = RunKey("examined", "run")
        for batch in scan(os.fsencode(run), key, profile, Layout()):
            self.tally.add(batch)
            for path, found in batch.files:
                facts = f"{path}\0{found.size} {found.mtime_ns} {found.inode}".encode()
                self.digest += int.from_bytes(sha256(facts).digest())


def _examination(run: Path, profile: Profile, *, is_named: bool, before: int) -> Examination:
    look = _Look(run, profile)
    listing = look.tally.listing(0)
    parts = [
        *listed_parts(profile, listing),
        _listing(listing),
        *claim_parts(os.fsencode(run), profile, listing),
        *([examine_lists(os.fsencode(run), profile)] if profile.sidecars else []),
        *_time_parts(profile, rests=look.digest == before),
    ]
    failed = look.tally.failed
    failed.add(ended_badly(os.fsencode(run), profile, listing))
    return Examination(
        path=str(run),
        is_named=is_named,
        files=look.tally.files,
        size=look.tally.size,
        parts=tuple(parts),
        last=tuple(look.tally.last),
        temporary=look.tally.temporary,
        left_out=look.tally.left_out,
        unreadable=look.tally.unreadable,
        alike=look.tally.alike,
        failed=failed,
        unlisted=unlisted(os.fsencode(run), profile, listing),
    )


def _listing(listing: Listing) -> Part:
    if listing.unreadable_count:
        what = f"paths that cannot be read: {listing.unreadable_count}"
        return Part(name="listing", holds=Holds.NOT_POSSIBLE, looked_at=what)
    holds = Holds.FAIL if listing.vanished_count else Holds.PASS
    return Part(name="listing", holds=holds, looked_at=f"files: {listing.files}")


def _time_parts(profile: Profile, *, rests: bool) -> list[Part]:
    if not rests:
        what = f"files changed between two looks {PAUSE_S:g} s apart"
        return [Part(name=name, holds=Holds.FAIL, looked_at=what) for name in ("settled", "quiet")]
    seen = f"nothing changed between two looks {PAUSE_S:g} s apart; the agent waits"
    waits = {"settled": profile.settle_window_s, "quiet": profile.quiet_s}
    return [
        Part(name=name, holds=Holds.ASSUMED, looked_at=f"{seen} {wait_s:g} s")
        for name, wait_s in waits.items()
    ]


def detect(folder: Path, profiles: Sequence[Profile]) -> tuple[Path, list[Fit]]:
    """Return the run folder that was looked at, the given one or one below it, and what fits it.

    Raises: ShareUnavailable.
    """
    level = [folder.resolve()]
    for _ in range(3):
        for run in level[:_CANDIDATES]:
            name = encode_path(os.fsencode(run.name))
            if found := fits(profiles, name, list(_paths(run))):
                return run, found
        level = [below for run in level[:_CANDIDATES] for below in sorted(_folders(run))]
    return folder, []


def _paths(run: Path) -> Iterator[str]:
    """Yield the paths at a run's top and one folder below it, the first of many."""
    count, stack = 0, [(run, "")]
    while stack:
        folder, prefix = stack.pop(0)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = prefix + encode_path(os.fsencode(entry.name))
                    yield path
                    count += 1
                    if count >= _ENTRIES:
                        return
                    if not prefix and entry.is_dir(follow_symlinks=False):
                        stack.append((Path(entry.path), path + "/"))
        except OSError as error:
            if not prefix:
                raise ShareUnavailable(path=str(run), errno_name=errno_name(error)) from error

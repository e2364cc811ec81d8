"""Which files on record as discovered are not at the source any more?

Asked only when a whole scan saw fewer of them than the ledger counts, and answered file by file.
What is gone is skipped, on record; it reappears if it comes back.
"""

import os
import stat
from collections.abc import Iterator
from itertools import islice

from labferry.failures import Kind
from labferry.identity import decode_path
from labferry.ports import Ledger
from labferry.profiles import Profile
from labferry.records import Note, Outcome, Step
from labferry.source.folders import Folders
from labferry.source.scan import BATCH_ENTRIES, GONE
from labferry.source.share import RunFolder, Share
from labferry.states import Event, State


def skip_vanished(ledger: Ledger, share: Share, folder: RunFolder, profile: Profile) -> int:
    """Skip the discovered files of a run that are gone; return how many.

    Raises: ShareUnavailable.
    """
    gone = _gone(ledger, folder, profile)
    count = 0
    while steps := list(islice(gone, BATCH_ENTRIES)):
        share.check()  # after the looks: a mount that went away meanwhile shows nothing at all
        outcomes = ledger.move(folder.run, Event.SKIP, steps)
        count += outcomes.count(Outcome.DONE)
    return count


def _gone(ledger: Ledger, folder: RunFolder, profile: Profile) -> Iterator[Step]:
    folders = Folders(folder.path)
    try:
        for path, record in ledger.records(folder.run):
            if record.state is State.DISCOVERED:
                note = _why_unseen(folders, path, profile)
                if note is not None:
                    yield Step(path=path, note=note)
    finally:
        folders.close()


def _why_unseen(folders: Folders, path: str, profile: Profile) -> Note | None:
    if any(profile.is_litter_folder(segment) for segment in path.split("/")[:-1]):
        return _note("litter", "below a folder that the profile calls litter")
    if any(profile.is_apart(above) for above in _folders_above(path)):
        return _note("apart", "below a folder that is a run of its own")
    above, _, name = decode_path(path).rpartition(b"/")
    try:
        found = os.stat(name, dir_fd=folders.open(above), follow_symlinks=False)
    except OSError as error:
        gone = error.errno in GONE  # any other error tells nothing
        return _note("vanished", "it was gone before it was at rest") if gone else None
    if stat.S_ISREG(found.st_mode):
        return None
    return _note("not_regular", "it is not a regular file any more")


def _folders_above(path: str) -> Iterator[str]:
    names = path.split("/")
    return ("/".join(names[:depth]) for depth in range(1, len(names)))


def _note(code: str, message: str) -> Note:
    return Note(event=Event.SKIP, kind=Kind.SOURCE, code=code, message=message)

"""Was every file that a list of checksums names held to it?

A worker does so as it reads a file, if the list is there. A file that was claimed before its list
came is sent in again: it is read and compared, and its object stays what it is. Looked at once
everything else about a run holds, before the run is sealed.
"""

from collections.abc import Iterator
from itertools import islice

from labferry.failures import Kind
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.profiles import Profile
from labferry.records import FileRecord, Note, Step
from labferry.source.claims import RunReader
from labferry.source.done import Part
from labferry.source.lists import ListsLook, listed_files
from labferry.source.scan import BATCH_ENTRIES, errno_name
from labferry.source.share import RunFolder
from labferry.states import Event, State

#: A worker reads the file anew from these, and its list with it.
_READ_LATER = frozenset({State.DISCOVERED, State.ELIGIBLE, State.FAILED, State.HELD})
#: Nobody will read it; what holds the run back is told elsewhere.
_SET_APART = frozenset({State.QUARANTINED, State.DISCARDED})


def checksum_part(ledger: Ledger, profile: Profile, folder: RunFolder) -> Part:
    """Return whether all lists hold; send in again what was not held to its list."""
    look, reader = ListsLook(), RunReader(folder.path)
    named = listed_files(folder.path, profile, look)
    try:
        while pairs := list(islice(named, BATCH_ENTRIES)):
            steps = list(_unchecked(ledger, folder.run, pairs, reader, look))
            ledger.move(folder.run, Event.RECHECK, steps)
    except OSError as error:
        look.faults.add([errno_name(error)])
    finally:
        reader.close()
    return look.part()


def _unchecked(
    ledger: Ledger,
    run: RunKey,
    pairs: list[tuple[str, str]],
    reader: RunReader,
    look: ListsLook,
) -> Iterator[Step]:
    lists = ledger.find_records(run, [list_path for list_path, _ in pairs])
    files = ledger.find_records(run, [path for _, path in pairs])
    for (list_path, path), of_list, of_file in zip(pairs, lists, files, strict=True):
        if of_file is None or of_file.state is State.SKIPPED:
            if not reader.is_file(path):
                look.orphans.add([f"{path} (in {list_path})"])
        elif _is_unheard(of_list, of_file):
            look.waiting.add([path])
            if of_file.state is State.VERIFIED:
                note = Note(
                    event=Event.RECHECK,
                    kind=Kind.SOURCE,
                    code="list_came_later",
                    message=f"{list_path} came after it was read",
                )
                yield Step(path=path, note=note)


def _is_unheard(of_list: FileRecord | None, of_file: FileRecord) -> bool:
    """Whether the file was claimed before the list was as it is."""
    if of_file.state in _READ_LATER or of_file.state in _SET_APART:
        return False
    return of_list is None or of_file.claimed_ms < of_list.changed_ms

"""Is what lists name by base name alone anywhere in the run? Such as the frames of a microscope,
which lay elsewhere when the list was written.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import BinaryIO

from labferry.identity import Layout, RunKey
from labferry.profiles import Profile
from labferry.profiles.fields import Manifest
from labferry.sidecars import Listed, lines_of, read_list
from labferry.source.done import Holds, Part
from labferry.source.scan import errno_name, scan
from labferry.source.tally import Names

#: Names that are looked for; more are no list of an instrument's.
_MOST_NAMES = 1_000_000

Opens = Callable[[str], AbstractContextManager[BinaryIO]]


def named_part(
    run_folder: bytes, profile: Profile, rule: Manifest, lists: Sequence[str], opens: Opens
) -> Part:
    """Return whether every file that the lists name lies somewhere in the run, whatever its case.

    A list that names none is no fault: such are of single pictures.
    """
    faults = Names()
    named = islice(_listed(rule, lists, opens, faults), _MOST_NAMES + 1)
    wanted = {name.lower(): name for name in named}
    if len(wanted) > _MOST_NAMES:
        faults.add([f"they name more than {_MOST_NAMES} files"])
    count = len(wanted)
    if wanted:
        for batch in scan(run_folder, RunKey("listed", "run"), profile, Layout()):
            for path, _ in batch.files:
                wanted.pop(path.rpartition("/")[2].lower(), None)
    what = f"{len(lists)} lists such as {lists[0]} name {count} files"
    if faults:
        what += f"; {faults.count} cannot be read, such as {faults.first[0]}"
    if wanted:
        what += f"; {len(wanted)} are missing, such as {min(wanted.values())}"
    if faults or wanted:
        return Part(name="manifest", holds=Holds.FAIL, looked_at=what)
    holds = Holds.PASS if count else Holds.NOT_POSSIBLE
    return Part(name="manifest", holds=holds, looked_at=what, needed=rule.required)


def _listed(rule: Manifest, lists: Sequence[str], opens: Opens, faults: Names) -> Iterator[str]:
    for path in lists:
        try:
            with opens(path) as file:
                for entry in read_list(lines_of(file), rule.form, path.rpartition("/")[2]):
                    if isinstance(entry, Listed):
                        yield entry.path.rpartition("/")[2]
                    else:
                        faults.add([f"{path}, line {entry.number}: {entry.why}"])
        except OSError as error:
            faults.add([f"{path}: {errno_name(error)}"])

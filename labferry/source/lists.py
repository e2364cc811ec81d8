"""Which files do the lists of checksums in a run name, and which lists cannot be read?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from labferry.identity import Layout, RunKey
from labferry.profiles import Profile
from labferry.profiles.patterns import NamePatterns, PathPatterns
from labferry.sidecars import Listed, lines_of, read_list
from labferry.source.claims import RunReader
from labferry.source.done import Holds, Part
from labferry.source.scan import errno_name, scan
from labferry.source.tally import Names


@dataclass(slots=True)
class ListsLook:
    """What was found in all lists of a run; `waiting` files are to be checked yet."""

    lists: int = 0
    files: int = 0
    faults: Names = field(default_factory=Names)
    orphans: Names = field(default_factory=Names)
    waiting: Names = field(default_factory=Names)

    def part(self) -> Part:
        """Return the part of the done rule that this is."""
        if not self.lists:
            return Part(
                name="sidecars",
                holds=Holds.NOT_POSSIBLE,
                looked_at="there are no lists of checksums",
                needed=False,
            )
        told = (
            (self.orphans, "files that a list names are not there"),
            (self.faults, "lines or lists cannot be read"),
            (self.waiting, "files are to be checked yet"),
        )
        faults = [
            f"{names.count} {what}, such as {names.first[0]}" for names, what in told if names
        ]
        what = "; ".join([f"{self.lists} lists name {self.files} files", *faults])
        return Part(name="sidecars", holds=Holds.FAIL if faults else Holds.PASS, looked_at=what)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether a path is a list by this pattern: of names, or with `/` of paths."""
    if "/" in pattern:
        return PathPatterns((pattern,)).match
    names = NamePatterns((pattern,))
    return lambda path: names.match(path.rpartition("/")[2])


def listed_files(run_folder: bytes, profile: Profile, look: ListsLook) -> Iterator[tuple[str, str]]:
    """Yield each list with each file that it names; note in `look` what cannot be read."""
    reader = RunReader(run_folder)
    rules = [(rule, matcher(rule.file)) for rule in profile.sidecars]
    try:
        for batch in scan(run_folder, RunKey("listed", "run"), profile, Layout()):
            for path, _ in batch.files:
                rule = next((rule for rule, matches in rules if matches(path)), None)
                if rule is None:
                    continue
                look.lists += 1
                folder, _, name = path.rpartition("/")
                base = f"{folder}/" if folder and rule.base == "list" else ""
                before = look.files
                try:
                    with reader.open(path) as file:
                        for entry in read_list(lines_of(file), rule.form, name):
                            if isinstance(entry, Listed):
                                look.files += 1
                                yield path, base + entry.path
                            else:
                                look.faults.add([f"{path}, line {entry.number}: {entry.why}"])
                except OSError as error:
                    look.faults.add([f"{path}: {errno_name(error)}"])
                    continue
                if look.files == before:
                    look.faults.add([f"{path}: nothing could be read in it"])
    finally:
        reader.close()


def examine_lists(run_folder: bytes, profile: Profile) -> Part:
    """Return what can be told of a run's lists without reading its files."""
    look, reader = ListsLook(), RunReader(run_folder)
    try:
        for list_path, path in listed_files(run_folder, profile, look):
            if not reader.is_file(path):
                look.orphans.add([f"{path} (in {list_path})"])
    except OSError as error:
        look.faults.add([errno_name(error)])
    finally:
        reader.close()
    return look.part()

"""Which files of a run are in none of the lists that its instrument wrote?

They go up like all others; a person who tries a profile wants to know of them.
"""

from collections.abc import Iterator

from labferry.identity import Layout, RunKey
from labferry.profiles import Profile
from labferry.sidecars import Listed, lines_of, read_list
from labferry.source.claims import RunReader, base_of
from labferry.source.done import Listing
from labferry.source.scan import scan
from labferry.source.tally import Names


def unlisted(run_folder: bytes, profile: Profile, listing: Listing) -> Names:
    """Return the files below the folders that lists speak of, and that none names."""
    bases, listed, names = set[str](), set[str](), Names()
    for rule in profile.manifests:
        for path in listing.content.claims:
            if rule.base != "name" and rule.match(path):
                bases.add(base_of(rule, path))
                listed.add(path)
    if not bases:
        return names
    listed.update(_named(run_folder, profile, listing))
    for batch in scan(run_folder, RunKey("listed", "run"), profile, Layout()):
        below = (path for path, _ in batch.files if path.startswith(tuple(bases)))
        names.add(path for path in below if path not in listed)
    return names


def _named(run_folder: bytes, profile: Profile, listing: Listing) -> Iterator[str]:
    reader = RunReader(run_folder)
    try:
        for rule in profile.manifests:
            for path in filter(rule.match, listing.content.claims):
                name, base = path.rpartition("/")[2], base_of(rule, path)
                try:
                    with reader.open(path) as file:
                        entries = read_list(lines_of(file), rule.form, name)
                        yield from (base + one.path for one in entries if isinstance(one, Listed))
                except OSError:
                    continue  # the part that is to read it says so
    finally:
        reader.close()

"""Does an instrument say that a run ended badly? By words in a file that it writes at its end.

Such a run is moved like any other: what there is of it may be all there ever is.
"""

from labferry.profiles import Profile
from labferry.source.claims import RunReader
from labferry.source.done import Listing

_MOST_BYTES = 64 * 1024


def ended_badly(run_folder: bytes, profile: Profile, listing: Listing) -> list[str]:
    """Return the files that are to say that the run ended well, and do not. One that is not there,
    or cannot be read, says nothing."""
    reader, found = RunReader(run_folder), list[str]()
    try:
        for rule in profile.verdicts:
            for path in filter(rule.match, listing.content.claims):
                try:
                    with reader.open(path) as file:
                        said = file.read(_MOST_BYTES)
                except OSError:
                    continue
                # Some write UTF-16.
                if not any(word.encode() in said.replace(b"\0", b"") for word in rule.well):
                    found.append(path)
    finally:
        reader.close()
    return sorted(found)

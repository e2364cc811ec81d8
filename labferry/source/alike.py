"""Which names of a folder are told apart by case alone, or by how their accents are written?

Both are objects of their own in the bucket; on Windows and macOS one would take the other's place.
A hash of each name is kept while a folder is listed, eight bytes, so that one of any size fits.
"""

import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice
from operator import eq


def may_be_alike(folded: "array[int]") -> bool:
    """Whether two of the names that these are the hashes of, each folded, may be alike."""
    in_order = sorted(folded)
    return any(map(eq, in_order, islice(in_order, 1, None)))


def fold(name: str) -> str:
    """Return what a name is where neither case nor the writing of accents counts."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def alike(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the groups of names that are alike, each sorted."""
    known = list(names)
    counts = Counter(map(fold, known))
    groups = defaultdict[str, list[str]](list)
    for name in known:
        if counts[fold(name)] > 1:
            groups[fold(name)].append(name)
    return sorted(tuple(sorted(group)) for group in groups.values())

"""Does a name, or a path, match any of these shell patterns?

Names are asked about for every file of every scan, so most patterns become what `str` answers in
one call: `*.tmp` an ending, `~$*` a beginning, `Thumbs.db` the name itself. Only the rest is a
regular expression, asked of names that begin as one of those patterns does.
"""

import re
from fnmatch import translate

_WILD = re.compile(r"[*?\[]")


class NamePatterns:
    """Shell patterns over one name, without regard to case."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        lowered = [pattern.lower() for pattern in patterns]
        rest = [pattern for pattern in lowered if _kind(pattern) == "rest"]
        self._whole = frozenset(p for p in lowered if _kind(p) == "whole")
        self._endings = tuple(p[1:] for p in lowered if _kind(p) == "ending")
        self._beginnings = tuple(p[:-1] for p in lowered if _kind(p) == "beginning")
        self._rest_beginnings = tuple(_WILD.split(pattern)[0] for pattern in rest)
        self._rest = re.compile("|".join(translate(pattern) for pattern in rest))

    def match(self, name: str) -> bool:
        """Whether the whole name matches one of the patterns."""
        lowered = name.lower()
        return (
            lowered.endswith(self._endings)
            or lowered in self._whole
            or lowered.startswith(self._beginnings)
            or (
                lowered.startswith(self._rest_beginnings)
                and self._rest.fullmatch(lowered) is not None
            )
        )


class PathPatterns:
    """Shell patterns over a path below a run: folder by folder, `*` does not pass a `/`."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = [
            [NamePatterns((segment,)) for segment in pattern.split("/")] for pattern in patterns
        ]
        #: How many folders above the name the patterns have.
        self.depths = frozenset(len(pattern) - 1 for pattern in self._patterns)

    def match(self, path: str) -> bool:
        """Whether the whole path matches one of the patterns."""
        names = path.split("/")
        return any(
            len(pattern) == len(names) and _all_match(pattern, names) for pattern in self._patterns
        )

    def leads_to(self, folder: str) -> bool:
        """Whether one of the patterns may match something below this folder."""
        names = folder.split("/")
        return any(
            len(pattern) > len(names) and _all_match(pattern, names) for pattern in self._patterns
        )


def _all_match(pattern: list[NamePatterns], names: list[str]) -> bool:
    return all(one.match(name) for one, name in zip(pattern, names, strict=False))


def _kind(pattern: str) -> str:
    if not _WILD.search(pattern):
        return "whole"
    if pattern[0] == "*" and not _WILD.search(pattern[1:]):
        return "ending"
    if pattern[-1] == "*" and not _WILD.search(pattern[:-1]):
        return "beginning"
    return "rest"

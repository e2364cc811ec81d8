"""Which profile fits a folder?

By clues that each profile names: the name of a run folder, and what lies in it. All clues of a
profile must hold; among those that fit, the one with most clues, and whose clues say most, comes
first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from labferry.profiles.fields import Profile
from labferry.profiles.patterns import NamePatterns, PathPatterns

#: A wildcard says nothing of its own.
_SILENT = re.compile(r"\[[^\]]*\]|[*?_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A profile that fits, and the clues that speak for it."""

    profile: str
    clues: tuple[str, ...]
    weight: int


def fits(profiles: Sequence[Profile], name: str, paths: Sequence[str]) -> list[Fit]:
    """Return the profiles that fit a run folder of this name in which these paths lie, best first.

    `paths` need not go deep: clues are of the run's top, or of a folder or two below it.
    """
    found = [fit for profile in profiles if (fit := _fit(profile, name, paths))]
    return sorted(found, key=lambda fit: (-len(fit.clues), -fit.weight, fit.profile))


def _fit(profile: Profile, name: str, paths: Sequence[str]) -> Fit | None:
    clues, detect = list[str](), profile.detect
    if detect.runs:
        named = [one for one in detect.runs if NamePatterns((one,)).match(name)]
        if not named:
            return None
        clues.append(max(named, key=_weight))
    for pattern in detect.has:
        if not any(PathPatterns((pattern,)).match(path) for path in paths):
            return None
        clues.append(pattern)
    if not clues:
        return None
    return Fit(profile=profile.name, clues=tuple(clues), weight=sum(map(_weight, clues)))


def _weight(pattern: str) -> int:
    """Return how much a pattern says: a name that matches by chance matches a short one."""
    return 1 + len(_SILENT.sub("", pattern))

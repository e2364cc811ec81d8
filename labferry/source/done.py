"""Is a run done? A rule made of parts; each says whether it holds, and what it looked at.

Pure: the listing of a scan and the ledger's counts in, a report out. A part that cannot be told
never reads as pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from labferry.profiles import Profile
from labferry.records import RunFacts
from labferry.states import State


class Holds(StrEnum):
    """What a part of the rule says."""

    PASS = "pass"  # noqa: S105  not a password
    FAIL = "fail"
    NOT_POSSIBLE = "not possible"  # what it needs could not be looked at
    ASSUMED = "assumed"  # only time can tell, and one look at a folder has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the rule; `looked_at` is the sentence a person reads.

    One that is not `needed` holds the run back when it fails, not when it is not possible.
    """

    name: str
    holds: Holds
    looked_at: str
    needed: bool = True

    @property
    def passes(self) -> bool:
        """Whether the part does not hold the run back."""
        if self.holds is Holds.NOT_POSSIBLE:
            return not self.needed
        return self.holds is not Holds.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a listing held of the things that the profile asks about.

    `members` are the patterns of `required` that were found, `counted` how many files had names of
    each count, `claims` the instrument's summaries and lists. The rest are examples and counts.
    """

    aside_count: int = 0
    members: frozenset[str] = frozenset()
    unpaired: tuple[str, ...] = ()
    unpaired_count: int = 0
    too_small: tuple[str, ...] = ()
    too_small_count: int = 0
    counted: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What one scan of a run found.

    `started_ms` is an instant on the ledger's clock before the scan's first look. `files` counts
    what is or may be data. `markers` end the run, `last` are all files that go up after the others:
    `last_waiting` of these are not settled, and `last_restless` of them changed within the settle
    window. `temporary` and `unreadable` are examples.
    """

    started_ms: int
    files: int
    markers: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    last_waiting: int = 0
    last_restless: int = 0
    temporary: tuple[str, ...] = ()
    temporary_count: int = 0
    vanished_count: int = 0
    unreadable: tuple[str, ...] = ()
    unreadable_count: int = 0
    content: Content = Content()


def done_parts(
    profile: Profile, listing: Listing, facts: RunFacts, *, next_began: bool = False
) -> list[Part]:
    """Return the parts of the profile's rule that a listing and the ledger can tell.

    `facts` are of after the scan; `next_began` says that the share's next run has begun.
    """
    return [
        *listed_parts(profile, listing),
        _listing(listing, facts),
        _settled(listing, facts),
        _quiet(profile, listing, facts, next_began=next_began),
    ]


def listed_parts(profile: Profile, listing: Listing) -> list[Part]:
    """Return the parts that a listing alone can tell."""
    content = listing.content
    parts = [_min_files(profile, listing), _no_temporary(listing)]
    if profile.marker:
        parts.insert(0, _marker(profile, listing))
    if profile.required:
        parts.append(_required(profile, listing))
    if profile.companions:
        unpaired = _naming(
            "files without their companion", content.unpaired, content.unpaired_count
        )
        parts.append(_told(listing, "companions", not content.unpaired_count, unpaired))
    if profile.least_size:
        small = _naming("files that are too small", content.too_small, content.too_small_count)
        parts.append(_told(listing, "least_size", not content.too_small_count, small))
    return parts


def is_done(parts: list[Part]) -> bool:
    """Whether every part holds."""
    return all(part.passes for part in parts)


def _marker(profile: Profile, listing: Listing) -> Part:
    if listing.markers:
        return _part("marker", True, f"{', '.join(listing.markers)} is there")
    missing = f"no {profile.marker}" + ("" if "/" in profile.marker else " at the top of the run")
    if listing.last:
        missing += f"; there is {', '.join(listing.last)}"
    return _told(listing, "marker", False, missing)


def _listing(listing: Listing, facts: RunFacts) -> Part:
    if listing.vanished_count:
        what = f"names that vanished while the run was listed: {listing.vanished_count}"
        return _part("listing", False, what)
    known = sum(facts.counts.values()) - facts.counts[State.SKIPPED]
    what = f"files at the source: {listing.files}, on record: {known}"
    return _told(listing, "listing", listing.files <= known, what)


def _min_files(profile: Profile, listing: Listing) -> Part:
    count = listing.files - len(listing.last) - listing.content.aside_count
    what = f"files besides markers: {count}, at least {profile.min_files} expected"
    enough = count >= profile.min_files
    return _part("min_files", True, what) if enough else _told(listing, "min_files", False, what)


def _no_temporary(listing: Listing) -> Part:
    count = listing.temporary_count
    if count:
        what = f"temporary names: {count}, such as {listing.temporary[0]}"
        return _part("no_temporary", False, what)
    return _told(listing, "no_temporary", True, "no temporary names")


def _required(profile: Profile, listing: Listing) -> Part:
    found = listing.content.members
    if whole := [one for one in profile.required if found.issuperset(one)]:
        return _part("required", True, f"{', '.join(whole[0])}: there")
    fullest = max(profile.required, key=lambda one: len(found.intersection(one)))
    missing = ", ".join(name for name in fullest if name not in found)
    others = f" (or one of {len(profile.required) - 1} other sets)" if profile.required[1:] else ""
    return _told(listing, "required", False, f"missing: {missing}{others}")


def _naming(what: str, examples: tuple[str, ...], count: int) -> str:
    return f"{what}: {count}" + (f", such as {examples[0]}" if examples else "")


def _settled(listing: Listing, facts: RunFacts) -> Part:
    moving = max(0, facts.counts[State.DISCOVERED] - listing.last_waiting)
    moving += listing.last_restless
    return _part("settled", not moving, f"files not at rest: {moving}")


def _quiet(profile: Profile, listing: Listing, facts: RunFacts, *, next_began: bool) -> Part:
    quiet_s = max(0, listing.started_ms - facts.changed_ms) / 1000
    expected_s, why = profile.quiet_s, ""
    if next_began and profile.quiet_after_next_s is not None:
        expected_s, why = profile.quiet_after_next_s, " since the next run has begun"
    what = f"nothing changed for {quiet_s:.0f} s, {expected_s:g} s expected{why}"
    return _told(listing, "quiet", quiet_s >= expected_s, what)


def _told(listing: Listing, name: str, holds: bool, looked_at: str) -> Part:
    """Return a part that only a listing without unreadable paths can tell."""
    if not listing.unreadable_count:
        return _part(name, holds, looked_at)
    what = f"paths that cannot be read: {listing.unreadable_count}, such as {listing.unreadable[0]}"
    return Part(name=name, holds=Holds.NOT_POSSIBLE, looked_at=what)


def _part(name: str, holds: bool, looked_at: str) -> Part:
    return Part(name=name, holds=Holds.PASS if holds else Holds.FAIL, looked_at=looked_at)

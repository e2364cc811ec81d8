"""What did a listing hold of the things that a profile asks about?

Counts and first names only, so that a run of any size fits: of files that come in pairs, one folder
is remembered at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from labferry.profiles import Profile
from labferry.profiles.fields import Companion
from labferry.profiles.patterns import NamePatterns, PathPatterns
from labferry.records import Fingerprint
from labferry.source.done import Content, Listing
from labferry.source.scan import Batch

#: Names that a report gives as examples; all are counted.
EXAMPLES = 10


@dataclass(slots=True)
class Names:
    """The first few of some names, and how many there are."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.count)

    def add(self, names: Iterable[str]) -> None:
        """Count names in."""
        for name in names:
            self.count += 1
            if len(self.first) < EXAMPLES:
                self.first.append(name)


class Tally:
    """Adds up the batches of one scan."""

    def __init__(self, profile: Profile) -> None:
        self.files = 0
        self.size = 0
        self.last: list[str] = []
        self.markers: list[str] = []
        self.temporary, self.unreadable, self.left_out = Names(), Names(), Names()
        self._vanished_count = 0
        self._profile = profile
        self._aside = NamePatterns(profile.aside)
        self._aside_count = 0
        self._pairs = [_Pairs(rule) for rule in profile.companions]
        self._small = [(rule, NamePatterns((rule.of,))) for rule in profile.least_size]
        self._too_small = Names()
        self._failing = NamePatterns(profile.failed)
        self.failed = Names()
        self.alike = Names()
        self._members = {name: PathPatterns((name,)) for one in profile.required for name in one}
        self._found: set[str] = set()
        self._counts = {rule.of: NamePatterns(rule.of) for rule in profile.counts if rule.of}
        self._counted = dict.fromkeys(self._counts, 0)
        claims = [one.file for one in profile.counts]
        claims += [one.file for one in profile.manifests if one.base != "name"]
        claims += [one.file for one in profile.verdicts]
        self._claims = PathPatterns(tuple(dict.fromkeys(claims)))
        self._claims_anywhere = NamePatterns(
            tuple(one.file for one in profile.manifests if one.base == "name")
        )
        self._claimed: list[str] = []
        self._looks = self._all_looks()

    def add(self, batch: Batch) -> None:
        """Count a batch in."""
        refused = sum(entry.refused for entry in batch.left_out)
        self.files += len(batch.files) + refused
        self.size += sum([found.size for _, found in batch.files])
        self.last += batch.last
        self.markers += [path for path in batch.last if self._profile.is_marker(path)]
        self.left_out.add(f"{one.path}: {one.message}" for one in batch.left_out if not one.refused)
        self.temporary.add(batch.temporary)
        self._vanished_count += len(batch.vanished)
        self.unreadable.add(
            f"{one.path or 'the run folder'}: {one.errno_name}" for one in batch.unreadable
        )
        self.alike.add(batch.alike)
        if self._looks:
            for path, found in batch.files:
                folder, _, name = path.rpartition("/")
                for look in self._looks:
                    look(path, folder, name, found)

    def listing(self, started_ms: int, *, last_waiting: int = 0, last_restless: int = 0) -> Listing:
        """Return what the done rule looks at, after the last batch."""
        unpaired = Names()
        for pairs in self._pairs:
            pairs.leave_folder()
            unpaired.count += pairs.missing.count
            unpaired.first += pairs.missing.first
        return Listing(
            started_ms=started_ms,
            files=self.files,
            markers=tuple(self.markers),
            last=tuple(self.last),
            last_waiting=last_waiting,
            last_restless=last_restless,
            temporary=tuple(self.temporary.first),
            temporary_count=self.temporary.count,
            vanished_count=self._vanished_count,
            unreadable=tuple(self.unreadable.first),
            unreadable_count=self.unreadable.count,
            content=Content(
                aside_count=self._aside_count,
                members=frozenset(self._found),
                unpaired=tuple(unpaired.first),
                unpaired_count=unpaired.count,
                too_small=tuple(self._too_small.first),
                too_small_count=self._too_small.count,
                counted=dict(self._counted),
                claims=tuple(self._claimed),
            ),
        )

    def _all_looks(self) -> list[Callable[[str, str, str, Fingerprint], None]]:
        """Return what is asked of each file; nothing for a profile that asks nothing."""
        profile = self._profile
        looks: list[Callable[[str, str, str, Fingerprint], None]] = []
        looks += [self._look_aside] if profile.aside else []
        looks += [self._look_members] if profile.required else []
        looks += [self._look_failed] if profile.failed else []
        looks += [self._look_sizes] if profile.least_size else []
        looks += [self._look_counts] if self._counts else []
        claims = profile.counts or profile.manifests or profile.verdicts
        looks += [self._look_claims] if claims else []
        return [*looks, *(pairs.look for pairs in self._pairs)]

    def _look_aside(self, path: str, folder: str, name: str, found: Fingerprint) -> None:
        self._aside_count += self._aside.match(name)

    def _look_members(self, path: str, folder: str, name: str, found: Fingerprint) -> None:
        self._found |= {one for one, pattern in self._members.items() if pattern.match(path)}

    def _look_failed(self, path: str, folder: str, name: str, found: Fingerprint) -> None:
        if self._failing.match(name):
            self.failed.add([path])

    def _look_sizes(self, path: str, folder: str, name: str, found: Fingerprint) -> None:
        for rule, pattern in self._small:
            if found.size < rule.size_bytes and pattern.match(name):
                self._too_small.add([f"{path} ({found.size} bytes)"])

    def _look_counts(self, path: str, folder: str, name: str, found: Fingerprint) -> None:
        for names, pattern in self._counts.items():
            self._counted[names] += pattern.match(name)

    def _look_claims(self, path: str, folder: str, name: str, found: Fingerprint) -> None:
        if self._claims.match(path) or self._claims_anywhere.match(name):
            self._claimed.append(path)


class _Pairs:
    """The files of one folder that need another beside them."""

    def __init__(self, rule: Companion) -> None:
        self.missing = Names()
        self._rule = rule
        self._of = NamePatterns((rule.of,))
        self._needed = NamePatterns((rule.needs.format(stem="*", name="*"),))
        self._folder = ""
        self._wanted: set[str] = set()
        self._there: set[str] = set()

    def look(self, path: str, folder: str, name: str, found: Fingerprint) -> None:
        if folder != self._folder:
            self.leave_folder()
            self._folder = folder
        if self._of.match(name):
            stem = name.rpartition(".")[0] or name
            self._wanted.add(self._rule.needs.format(stem=stem, name=name))
        if self._needed.match(name):
            self._there.add(name.lower())

    def leave_folder(self) -> None:
        lacking = sorted(name for name in self._wanted if name.lower() not in self._there)
        self.missing.add(f"{self._folder}/{name}" if self._folder else name for name in lacking)
        self._wanted.clear()
        self._there.clear()

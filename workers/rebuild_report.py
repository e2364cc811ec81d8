"""What came of a rebuild, told to people and programs?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from labferry.identity import RunKey
from labferry.source.tally import Names

#: Exit codes; docs/commands.md has them all.
DONE, PARTIAL, UNAVAILABLE = 0, 3, 75
_NAMED = {
    "lost": "their objects are not what a manifest says: dead letters now",
    "unproven": "left to agents and workers",
    "strange": "no document of a dead letter",
}


@dataclass(slots=True)
class Rebuilt:
    """What became of one run.

    Counted are files that were `verified`, that were `known` before, `letters` that came back and
    files that were `given_up`. Named are files whose objects are `lost` or `unproven`, and
    documents that are `strange`. `is_source_seen` is False where a source was needed and its share
    is not on this host. `failure` is what ended it early.
    """

    run: RunKey
    generations: list[int] = field(default_factory=list)
    verified: int = 0
    known: int = 0
    letters: int = 0
    given_up: int = 0
    lost: Names = field(default_factory=Names)
    unproven: Names = field(default_factory=Names)
    strange: Names = field(default_factory=Names)
    is_source_seen: bool = True
    failure: str = ""

    @property
    def changed(self) -> bool:
        """Whether the ledger learned anything."""
        counts = (self.verified, self.letters, self.given_up, self.lost.count)
        return any(counts) or bool(self.generations)

    @property
    def is_partial(self) -> bool:
        """Whether something could not be taken over as it should be."""
        return any((self.lost, self.unproven, self.strange))

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry reconcile --rebuild --json`."""
        found: dict[str, Names] = {name: getattr(self, name) for name in _NAMED}
        return {
            "run": str(self.run),
            "generations": self.generations,
            "verified": self.verified,
            "known": self.known,
            "letters": self.letters,
            "given_up": self.given_up,
            **{name: {"count": one.count, "first": one.first} for name, one in found.items()},
            "source_seen": self.is_source_seen,
            "failure": self.failure,
        }


def exit_code(runs: Sequence[Rebuilt]) -> int:
    """Return the code that a rebuild ends with."""
    if any(one.is_partial for one in runs):
        return PARTIAL
    unseen = any(one.failure or not one.is_source_seen for one in runs)
    return UNAVAILABLE if unseen else DONE


def lines(runs: Sequence[Rebuilt], *, dry_run: bool) -> Iterator[str]:
    """Yield what a person reads."""
    would = "would be " if dry_run else ""
    for one in runs:
        numbers = ", ".join(map(str, one.generations)) or "none"
        yield f"{one.run}: {one.verified:,} files {would}verified, {one.known:,} known before"
        yield f"  generations {would}recorded: {numbers}; dead letters: {one.letters:,}" + (
            f"; given up: {one.given_up:,}" if one.given_up else ""
        )
        for name, meaning in _NAMED.items():
            found: Names = getattr(one, name)
            if found:
                yield f"  {found.count:,} {name}: {meaning}"
                yield from (f"    {first}" for first in found.first)
        if not one.is_source_seen:
            yield "  its share is not on this host: only what manifests say was taken over"
        if one.failure:
            yield f"  not finished: {one.failure}"

"""How many dead letters have which cause? "312 files, 1 cause"."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from labferry.dead_letter import DeadLetter, iso
from labferry.identity import RunKey
from ops.shown import counted


@dataclass(slots=True, kw_only=True)
class Group:
    """The dead letters of one error fingerprint; `sample` is one of them."""

    fingerprint: str
    sample: DeadLetter
    count: int = 0
    size: int = 0
    first_ms: int
    last_ms: int
    runs: set[RunKey] = field(default_factory=set)

    def add(self, letter: DeadLetter) -> None:
        """Count a letter in."""
        self.count += 1
        self.size += letter.record.fingerprint.size
        self.first_ms = min(self.first_ms, letter.at_ms)
        self.last_ms = max(self.last_ms, letter.at_ms)
        self.runs.add(letter.file.run)

    def to_json(self) -> dict[str, object]:
        """Return the facts."""
        return {
            "fingerprint": self.fingerprint,
            "kind": self.sample.kind,
            "code": self.sample.code,
            "count": self.count,
            "bytes": self.size,
            "runs": len(self.runs),
            "first": iso(self.first_ms),
            "last": iso(self.last_ms),
            "sample": str(self.sample.file),
            "message": self.sample.cause.message,
            "suggestion": self.sample.suggestion,
        }


def grouped(letters: Iterable[DeadLetter]) -> list[Group]:
    """Return the groups, the largest first; what is held is one letter a cause."""
    groups: dict[str, Group] = {}
    for letter in letters:
        fingerprint = letter.fingerprint
        group = groups.get(fingerprint)
        if group is None:
            group = groups[fingerprint] = Group(
                fingerprint=fingerprint,
                sample=letter,
                first_ms=letter.at_ms,
                last_ms=letter.at_ms,
            )
        group.add(letter)
    return sorted(groups.values(), key=lambda group: (-group.count, group.fingerprint))


def headline(groups: Iterable[Group]) -> str:
    """Return such as '312 files, 1 cause'."""
    found = list(groups)
    count = sum(group.count for group in found)
    return f"{counted(count)}, {counted(len(found), 'cause')}"

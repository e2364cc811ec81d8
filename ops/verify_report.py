"""What does a look at a run in the bucket come to, and how is it said?"""

from dataclasses import asdict, dataclass
from enum import StrEnum

from labferry.identity import RunKey
from labferry.inventory import Differences
from labferry.manifest import Gap
from ops.exits import Exit
from ops.shown import counted
from ops.verify_source import SourceFound

#: Said where nothing but a count is to be had.
COUNTED = (
    "no manifest says what should be there; what is there was counted, which is weaker: "
    "nothing is known of what is missing"
)


class Verdict(StrEnum):
    """What was found."""

    COMPLETE = "complete"  # everything the manifests name is there as they say
    PARTIAL = "partial"  # something is missing or different
    INCOMPLETE = "incomplete"  # the time was up, or the server did not answer
    UNKNOWN = "unknown"  # there are objects but no manifest: nothing says what should be there


class Basis(StrEnum):
    """What the verdict rests on, strongest first."""

    MARKER = "marker"  # each manifest has the digest that a completion marker names
    MANIFEST = "manifest"  # a manifest that no marker vouches for
    COUNT = "count"  # objects and bytes were counted: it says nothing of what is missing


_EXITS = {
    Verdict.COMPLETE: Exit.DONE,
    Verdict.PARTIAL: Exit.PARTIAL,
    Verdict.INCOMPLETE: Exit.UNAVAILABLE,
    Verdict.UNKNOWN: Exit.UNAVAILABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `labferry verify` reports; `files` and `size` are what the manifests name, or with the
    basis `count` what is there; `read_files` and `read_size` what was read back and hashed.

    The verdict is of the bucket; `source` is what a deep look found at the source.
    """

    run: RunKey
    verdict: Verdict
    basis: Basis
    why: str
    generations: tuple[int, ...]
    files: int
    size: int
    differences: Differences
    gap: Gap | None = None  # of the newest generation
    read_files: int = 0
    read_size: int = 0
    source: SourceFound | None = None

    @property
    def exit_code(self) -> Exit:
        """The code the command ends with: also a whole bucket, beside a source that differs or
        could not be read, is something to look into."""
        code = _EXITS[self.verdict]
        is_sound = self.source is None or self.source.is_sound
        return code if code or is_sound else Exit.PARTIAL

    def to_json(self) -> dict[str, object]:
        """Return the facts."""
        return {
            "run": str(self.run),
            "verdict": self.verdict,
            "basis": self.basis,
            "why": self.why,
            "generations": list(self.generations),
            "files": self.files,
            "bytes": self.size,
            "read_files": self.read_files,
            "read_bytes": self.read_size,
            "source": self.source.to_json() if self.source else None,
            "left_out": asdict(self.gap) if self.gap else None,
            **asdict(self.differences),
        }


def found_words(differences: Differences) -> str:
    """Return what a comparison with the manifests found."""
    if differences.whole:
        return f"{counted(differences.compared)}, all there as the manifest says"
    return (
        f"{counted(differences.missing_count)} missing, {differences.different_count:,} different; "
        "keep the source and find out what changed the bucket"
    )


def gap_words(gap: Gap) -> str:
    """Return what a run that a person closed lacks."""
    what = f"without {counted(gap.files)}" if gap.files else "before it was done"
    return f"; the run was closed {what} by {gap.actor}: {gap.reason}"

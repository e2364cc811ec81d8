"""What did one check of the installation see, and what mends it?"""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended; the word is what a person reads."""

    GOOD = "good"
    WARNING = "warning"  # labferry works, but less well or less safely than it could
    BAD = "bad"  # labferry would not work, or would break a promise
    UNKNOWN = "unknown"  # it could not be looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was looked at, what was seen, and the next step where it is not good."""

    area: str
    check: str
    verdict: Verdict
    seen: str
    step: str = ""


@dataclass(frozen=True, slots=True)
class Area:
    """Makes the findings of one area, so that each check is one line."""

    name: str

    def good(self, check: str, seen: str) -> Finding:
        """Return what is as it must be."""
        return Finding(area=self.name, check=check, verdict=Verdict.GOOD, seen=seen)

    def warning(self, check: str, seen: str, step: str) -> Finding:
        """Return what is worse than it could be."""
        return self._other(Verdict.WARNING, check, seen, step)

    def bad(self, check: str, seen: str, step: str) -> Finding:
        """Return what breaks labferry."""
        return self._other(Verdict.BAD, check, seen, step)

    def unknown(self, check: str, seen: str, step: str) -> Finding:
        """Return what could not be looked at."""
        return self._other(Verdict.UNKNOWN, check, seen, step)

    def _other(self, verdict: Verdict, check: str, seen: str, step: str) -> Finding:
        return Finding(area=self.name, check=check, verdict=verdict, seen=seen, step=step)

"""Has the acquisition after this run, or this file, begun, so that this one is over?

Told by our own looks, never by clocks of the share: what is new may be as old as the look before,
which did not show it, and where there was none, as old as anything. Those that come together are
moved by hand, and nothing follows from them. Source: the rule of MannLabs/alphakraken.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.profiles import Profile
from labferry.profiles.patterns import NamePatterns
from labferry.states import State

#: What may have begun within this time came together.
TOGETHER_S = 60.0
#: A name that was there at the first look may be as old as anything.
_LONG_AGO_MS = 0


class Looks:
    """What one agent saw where for the first time, and when it had looked there before."""

    def __init__(self) -> None:
        self._looked_ms: dict[RunKey | None, int] = {}
        self._absent_ms: dict[RunKey | None, dict[str, int]] = {}

    def note(self, where: RunKey | None, at_ms: int, new: Iterable[str]) -> None:
        """Note a whole look at a run, or at the share itself, that began then."""
        before_ms = self._looked_ms.get(where, _LONG_AGO_MS)
        known = self._absent_ms.setdefault(where, {})
        known.update((name, before_ms) for name in new if name not in known)
        self._looked_ms[where] = at_ms

    def absent_ms(self, where: RunKey | None) -> Mapping[str, int]:
        """Return when each name was not there yet, as far as that was seen."""
        return self._absent_ms.get(where, {})

    def forget_all_but(self, runs: set[RunKey]) -> None:
        """Forget runs that are not at the source any more."""
        for kept in (self._looked_ms, self._absent_ms):
            for gone in [run for run in kept if run is not None and run not in runs]:
                del kept[gone]


class _Arrival(NamedTuple):
    """When something was seen first, and when it was seen not to be there yet."""

    seen_ms: int
    absent_ms: int


class NextRuns:
    """When the runs of one share began; asked of the ledger only for a profile that goes by it."""

    def __init__(
        self, ledger: Ledger, profile: Profile, runs: Sequence[RunKey], looks: Looks
    ) -> None:
        self._opened_ms: dict[RunKey, int] = {}
        for run in runs if profile.quiet_after_next_s is not None else ():
            if facts := ledger.find_facts(run):
                self._opened_ms[run] = facts.opened_ms
        absent_ms = looks.absent_ms(None)
        self._all = sorted(
            _Arrival(opened_ms, absent_ms.get(str(run), _LONG_AGO_MS))
            for run, opened_ms in self._opened_ms.items()
        )

    def is_over(self, run: RunKey) -> bool:
        """Whether one run, and no other with it, began after this one."""
        own_ms = self._opened_ms.get(run)
        return own_ms is not None and _one_followed(own_ms, self._all)


class NextFiles:
    """When the files of one run appeared; asked of the ledger only for a profile that goes by it,
    and while there are files that are not at rest."""

    def __init__(
        self, ledger: Ledger, profile: Profile, run: RunKey, absent_ms: Mapping[str, int]
    ) -> None:
        """`absent_ms` is when each file was not there yet, as far as that was seen."""
        self._seen_ms: dict[str, int] = {}
        rule = profile.next_file
        facts = ledger.find_facts(run) if rule else None
        if rule and facts and facts.counts[State.DISCOVERED]:
            of = NamePatterns((rule.of,))
            self._seen_ms = {
                path: record.discovered_ms
                for path, record in ledger.records(run)
                if record.state is not State.SKIPPED and of.match(path.rpartition("/")[2])
            }
        self._all = sorted(
            _Arrival(seen_ms, absent_ms.get(path, _LONG_AGO_MS))
            for path, seen_ms in self._seen_ms.items()
        )

    def is_over(self, path: str) -> bool:
        """Whether one file, and no other with it, appeared after this one."""
        own_ms = self._seen_ms.get(path)
        return own_ms is not None and _one_followed(own_ms, self._all)


def _one_followed(own_ms: int, arrivals: Sequence[_Arrival]) -> bool:
    """Whether what came next after an instant, of sorted arrivals, came later and alone."""
    together_ms = TOGETHER_S * 1000
    at = bisect_right(arrivals, own_ms, key=lambda one: one.seen_ms)
    later = arrivals[at : at + 2]
    if not later or later[0].absent_ms - own_ms < together_ms:
        return False
    return len(later) == 1 or later[1].absent_ms - later[0].seen_ms >= together_ms

"""Which runs are worth a whole look in this pass? Those that are over are looked at less and less.

A run that is over and at which there was nothing to do is left alone for a tenth of the time that
it rests by then, and at most for `rescan_s`. Meanwhile its folders are glanced at: where something
comes or goes, the folder's own time changes, and the whole run is looked at at once. A file that is
changed in place shows at the next whole look. A move on record ends the rest, too.
"""

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from labferry.completion import OVER
from labferry.identity import RunKey
from labferry.ports import Clock, Ledger
from labferry.records import RunFacts
from labferry.source.share import RunFolder
from producer.report import RunReport

#: The folders of a run that are glanced at, the upper ones first.
MOST_FOLDERS = 500
#: Of the time a run rests, after so much it is looked at again, or glanced at.
_LOOK_PART, _GLANCE_PART = 1 / 10, 1 / 60
_MOST_GLANCE_S = 600.0
_DEEDS = (
    "new", "changed", "settled", "waiting", "held_back", "skipped", "vanished", "reappeared",
    "refused", "conflicts", "superseded", "errors",
)  # fmt: skip


@dataclass(slots=True)
class _Resting:
    """A run that was over, with nothing to do, at a whole look."""

    report: RunReport
    moves: int
    times: bytes
    looked_s: float
    glanced_s: float


class Rounds:
    """What is remembered of one instrument's runs from pass to pass."""

    def __init__(self, ledger: Ledger, clock: Clock, rescan_s: float) -> None:
        self._ledger, self._clock, self._rescan_s = ledger, clock, rescan_s
        self._resting: dict[RunKey, _Resting] = {}

    def look(self, folder: RunFolder, survey: Callable[[], RunReport]) -> RunReport:
        """Return a run's report: of a whole look, or the last one where it rests."""
        known = self._resting.pop(folder.run, None)
        facts = self._ledger.find_facts(folder.run) if known else None
        if known and facts and self._rests(folder, known, facts):
            self._resting[folder.run] = known
            return known.report
        # Before the look: what comes after it is seen by the next glance.
        times = folder_times(folder.path) if known else b""
        report, looked_s = survey(), self._clock.mono_s()
        if report.state in OVER and not report.wants_records and not _deeds(report):
            after = self._ledger.find_facts(folder.run)
            if after is not None and after.is_over:
                self._resting[folder.run] = _Resting(report, after.moves, times, looked_s, looked_s)
        return report

    def forget_all_but(self, runs: set[RunKey]) -> None:
        """Forget runs that are not at the source any more."""
        self._resting = {run: one for run, one in self._resting.items() if run in runs}

    def _rests(self, folder: RunFolder, known: _Resting, facts: RunFacts) -> bool:
        if facts.moves != known.moves or not known.times:
            return False
        rests_s = (facts.now_ms - max(facts.finished_ms, facts.changed_ms)) / 1000
        now_s = self._clock.mono_s()
        if now_s - known.looked_s >= min(rests_s * _LOOK_PART, self._rescan_s):
            return False
        if now_s - known.glanced_s >= min(rests_s * _GLANCE_PART, _MOST_GLANCE_S):
            known.glanced_s = now_s
            return folder_times(folder.path) == known.times
        return True


def folder_times(path: bytes) -> bytes:
    """Return a digest of a run's upper folders with their own times; b'' where one cannot be
    read."""
    digest, waiting = blake2b(digest_size=16), deque([path])
    try:
        for _ in range(MOST_FOLDERS):
            if not waiting:
                break
            folder = waiting.popleft()
            digest.update(b"%b\0%d\0" % (folder, os.lstat(folder).st_mtime_ns))
            with os.scandir(folder) as entries:
                below = sorted(one.path for one in entries if one.is_dir(follow_symlinks=False))
            waiting.extend(below)
    except OSError:
        return b""
    return digest.digest()


def _deeds(report: RunReport) -> bool:
    return bool(report.failure) or any(getattr(report, deed) for deed in _DEEDS)

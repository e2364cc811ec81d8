"""What about a run is a person to hear of, once?

That it will not end by itself, that a temporary name stays or that no file comes to rest; that an
acquisition failed, by its name, or that case alone tells names apart. What lasts is told by our own
looks: clocks of shares lie. Since when it lasts outlives the agent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labferry.completion import RunState
from labferry.identity import RunKey
from labferry.passes import Waiting
from labferry.ports import Ledger
from labferry.profiles import Profile
from labferry.source.done import Holds
from producer.report import RunReport

#: Stands among temporary names for: no file came to rest.
_NONE_RESTED = ""


class Lingering:
    """Remembers since when runs are kept from rest, and raises alerts."""

    def __init__(self, ledger: Ledger, profile: Profile) -> None:
        self._ledger, self._profile = ledger, profile
        self._since_ms: dict[str, Mapping[str, int]] = {}

    def remember(self, waiting: Waiting) -> None:
        """Take up what an agent told before this one began."""
        known = self._since_ms.get(waiting.run, {})
        earlier = {
            name: min(at_ms, known.get(name, at_ms)) for name, at_ms in waiting.since_ms.items()
        }
        self._since_ms[waiting.run] = {**known, **earlier}

    def judge(self, report: RunReport) -> tuple[RunReport, Waiting]:
        """Return the report with what is stuck, and why its run is not done; alert, once, on what
        lingers."""
        names = [*report.temporary, *([_NONE_RESTED] if _none_rested(report) else [])]
        now_ms = self._ledger.now_ms() if names else 0
        before = self._since_ms.pop(report.run, {})
        since_ms = {name: before.get(name, now_ms) for name in names}
        if since_ms:
            self._since_ms[report.run] = since_ms
        longest_ms = self._profile.stuck_s * 1000
        stuck = [name for name, at_ms in since_ms.items() if now_ms - at_ms > longest_ms]
        report = replace(report, stuck=tuple(_sentence(report, name) for name in stuck))
        self._tell(report, stuck)
        waiting = Waiting(run=report.run, lacks=report.lacks, stuck=report.stuck, since_ms=since_ms)
        return report, waiting

    def _tell(self, report: RunReport, stuck: list[str]) -> None:
        if report.state == RunState.STALE:
            self._ledger.alert(
                f"stale:{report.run}",
                f"{report.run} is not done and did not change for {self._profile.stale_s:g} s "
                f"({'; '.join(report.lacks)}). Look at the instrument; its files go up meanwhile. "
                f"If it will never end by itself: labferry close {report.run}",
            )
        for path in report.failed:
            self._ledger.alert(
                f"failed:{report.run}/{path}",
                f"{report.run}/{path}: by its name, the instrument says that this acquisition "
                "failed. It goes up as it is. Look at the instrument.",
            )
        if report.alike:
            self._ledger.alert(
                f"alike:{report.run}",
                f"{report.run}: names that case, or the writing of accents, alone tells apart: "
                f"{'; '.join(report.alike)}. Each is an object of its own; on Windows or macOS one "
                "would take the other's place.",
            )
        for name, sentence in zip(stuck, report.stuck, strict=True):
            self._ledger.alert(
                f"stuck:{report.run}/{name}" if name else f"restless:{report.run}",
                f"{report.run}, for more than {self._profile.stuck_s:g} s: {sentence}",
            )


def tell_verdicts(ledger: Ledger, run: RunKey, paths: Sequence[str]) -> None:
    """Alert, once, on a run of which the instrument says that it ended badly."""
    for path in paths:
        ledger.alert(
            f"verdict:{run}/{path}",
            f"{run}: {path} does not say that the run ended well. What there is of it goes up, and "
            "the run is completed. Look at the instrument.",
        )


def _none_rested(report: RunReport) -> bool:
    """Whether there are files that are not at rest, and none came to rest by this look."""
    restless = any(one.name == "settled" and one.holds is Holds.FAIL for one in report.done)
    return restless and not report.settled


def _sentence(report: RunReport, name: str) -> str:
    if name:
        return f"{name} has a temporary name and holds its run back: finish or rename it"
    such = f", such as {report.changing[0]}" if report.changing else ""
    return (
        f"no file comes to rest; {report.changed} changed by this look{such}. If all change with "
        'each look, the share gives files new inodes: set identity = "size_mtime"'
    )

"""Which events of a pass are worth a line in the log? Those that were not so in the pass before."""

import logging
from collections.abc import Hashable

from labferry.completion import RunState
from labferry.telemetry import emit
from producer.report import Condition, InstrumentReport, RunReport

_QUIET = frozenset({Condition.SCANNED, Condition.NOTHING_YET, Condition.STOPPED})
#: What a pass did to files; a pass that did none of it is not logged.
_DEEDS = (
    "new", "changed", "settled", "skipped", "vanished", "reappeared", "refused", "conflicts",
    "superseded",
)  # fmt: skip


class Notices:
    """Logs what is new about one instrument."""

    def __init__(self, instrument: str) -> None:
        self._instrument = instrument
        self._trouble: dict[str, Hashable] = {}

    def give(self, report: InstrumentReport) -> None:
        """Log what a pass found, and each trouble when it begins and when it ends."""
        for run in report.runs:
            self._run(run)
        if report.condition is not Condition.STOPPED:
            trouble = "" if report.condition in _QUIET else report.condition
            self._say("scan.trouble", trouble, condition=report.condition, why=report.why)
        self._say("scan.broker_unavailable", report.broker, why=report.broker)
        self._say("scan.unusable_names", report.unusable, names=report.unusable)

    def _run(self, run: RunReport) -> None:
        deeds = {deed: count for deed in _DEEDS if (count := getattr(run, deed))}
        if deeds:
            emit("run.scanned", run=run.run, files=run.files, **deeds)
        if run.done and run.state == RunState.SEALED:
            emit("run.sealed", run=run.run, files=run.files)
        stale = run.state == RunState.STALE
        self._say("run.stale", stale, run=run.run, not_done=list(run.lacks))
        self._say("run.names_alike", run.alike, run=run.run, names=run.alike)
        self._say("run.stuck", bool(run.stuck), run=run.run, why=run.stuck)
        self._say(
            "run.unreadable", run.unreadable, run=run.run, errors=run.errors, paths=run.unreadable
        )

    def _say(self, event: str, trouble: Hashable, *, run: str = "", **fields: object) -> None:
        name = event + run
        before = self._trouble.pop(name, None)
        if trouble:
            self._trouble[name] = trouble
        if trouble and trouble != before:
            where = run or self._instrument
            emit(event, level=logging.WARNING, where=where, **fields)
        elif before and not trouble:
            emit(f"{event}.over", where=run or self._instrument)

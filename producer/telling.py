"""What does an agent tell the ledger of its looks at a share?

After each pass, and every few seconds of a long one, so that silence means that nobody looks.
"""

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from labferry.errors import LedgerUnavailable
from labferry.passes import FORGOTTEN_S, SILENT_S, Pass, Waiting
from labferry.ports import Clock, Ledger
from producer.report import Condition, InstrumentReport
from producer.space import SpaceLooks

#: While a pass goes on, it is told so often.
BEAT_S = 10.0
#: Runs of which it is told why they are not done; a share of more has another trouble.
_RUNS_TOLD = 200


class Teller:
    """Tells of one instrument's passes. One that makes passes for ever sets `every_s`."""

    def __init__(self, ledger: Ledger, instrument: str, clock: Clock, root: Path) -> None:
        self.every_s: float | None = None
        self._ledger, self._instrument, self._clock = ledger, instrument, clock
        self._host = socket.gethostname()
        self._told: Pass | None = None
        self._waiting: tuple[Waiting, ...] | None = None
        self._beaten_s = 0.0
        self._root, self._space_looks = root, SpaceLooks(root)

    def begin(self) -> list[Waiting]:
        """Tell that a pass begins; return what was known before this agent's first one."""
        before = list[Waiting]()
        if self._told is None:
            self._told, before = self._recall()
            self._space_looks = SpaceLooks(self._root, self._told.space)
        self.beat(at_once=True)
        return before

    def beat(self, *, at_once: bool = False) -> None:
        """Tell that a pass goes on, if that was not told just now."""
        if self.every_s is None or self._told is None:
            return
        if at_once or self._clock.mono_s() - self._beaten_s >= BEAT_S:
            self._tell(self._told)

    def end(self, report: InstrumentReport, waiting: Sequence[Waiting]) -> None:
        """Tell of a pass; what the ledger does not hear is told by the next."""
        if report.condition not in {
            Condition.SCANNED, Condition.NOTHING_YET, Condition.SHARE_UNAVAILABLE
        }:  # fmt: skip
            return
        away = report.why if report.condition is Condition.SHARE_UNAVAILABLE else ""
        with contextlib.suppress(LedgerUnavailable):
            self._tell(self._seen(report, away))
            runs = tuple(waiting[:_RUNS_TOLD])
            if not away and runs != self._waiting:
                self._ledger.tell_waiting(self._instrument, self._host, runs)
                self._waiting = runs

    def _seen(self, report: InstrumentReport, away: str) -> Pass:
        """Return what is to be told once a pass has ended."""
        told = self._told or self._recall()[0]
        if away:
            return replace(told, away=away, away_ms=told.away_ms or self._ledger.now_ms())
        arrived = any(run.new or run.changed for run in report.runs)
        return replace(
            told,
            away="",
            away_ms=0,
            arrived_ms=self._ledger.now_ms() if arrived else told.arrived_ms,
            space=self._space_looks.look(self._clock.mono_s()) or told.space,
        )

    def _tell(self, told: Pass) -> None:
        now_ms, due_ms = self._ledger.now_ms(), told.due_ms
        if self.every_s is not None:
            due_ms = now_ms + int((self.every_s + SILENT_S) * 1000)
        self._told = replace(told, at_ms=now_ms, due_ms=due_ms)
        self._ledger.tell_pass(self._told)
        self._beaten_s = self._clock.mono_s()

    def _recall(self) -> tuple[Pass, list[Waiting]]:
        """Return what this host told last, and what any host knew; forget hosts that are gone."""
        now_ms, waiting = self._ledger.now_ms(), list[Waiting]()
        own = Pass(instrument=self._instrument, host=self._host, at_ms=0)
        for one in self._ledger.passes():
            if one.instrument != self._instrument:
                continue
            waiting += one.waiting
            if one.host == self._host:
                own = one
            elif one.is_silent(now_ms) and now_ms - one.at_ms > FORGOTTEN_S * 1000:
                self._ledger.forget_pass(one.instrument, one.host)
        return own, waiting


def worth_telling(waiting: Waiting) -> bool:
    """Whether anything keeps the run from being done."""
    return bool(waiting.lacks or waiting.stuck or waiting.since_ms)

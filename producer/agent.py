"""What happens in one pass over one instrument, and when is the next?

Each instrument has an agent of its own, so that a share that hangs stops only itself. An error of
one run does not stop the others; an outage of the ledger ends the pass, and nothing is lost by
that: the next pass sees the same files again.
"""

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Event as Flag

from labferry.completion import is_open, run_state
from labferry.errors import BrokerUnavailable, LedgerUnavailable, ShareUnavailable
from labferry.feed import top_up
from labferry.identity import Layout, RunKey
from labferry.passes import Waiting
from labferry.ports import Clock, Ledger
from labferry.settings import Settings
from labferry.source.done import Holds, Part
from labferry.source.share import RunFolder, Share, list_share, run_path
from labferry.states import State
from labferry.telemetry import emit
from labferry.wakeup_port import Wakeups
from producer.lingering import Lingering
from producer.next_run import Looks, NextRuns
from producer.notices import Notices
from producer.record import Rules
from producer.report import Condition, InstrumentReport, RunReport
from producer.rounds import Rounds
from producer.survey import Stopped, survey
from producer.telling import Teller, worth_telling
from producer.vanished import skip_vanished

#: Waits between passes vary by this part, so that agents do not keep step.
JITTER = 0.1
#: A share is looked at again after this, however long a pass takes.
LONGEST_REST_S = 600.0
#: The wait after a pass that the ledger cut short; it doubles with each, up to the cap.
BACKOFF_BASE_S = 1.0
BACKOFF_CAP_S = 60.0

#: What ends a pass. Anything else is an error that nobody foresaw.
_ENDS: tuple[tuple[type[Exception], Condition], ...] = (
    (ShareUnavailable, Condition.SHARE_UNAVAILABLE),
    (LedgerUnavailable, Condition.LEDGER_UNAVAILABLE),
    (Stopped, Condition.STOPPED),
)

#: What the done rule finds of a run on record whose folder is gone.
_GONE = Part(name="listing", holds=Holds.FAIL, looked_at="its folder is not at the source any more")


class Agent:
    """Looks after one instrument. Any number of agents may look after the same one."""

    def __init__(
        self, name: str, settings: Settings, ledger: Ledger, wakeups: Wakeups, clock: Clock
    ) -> None:
        instrument = settings.instruments[name]
        self._name, self._root = name, instrument.root
        self._rules = Rules(
            profile=instrument.resolved(),
            layout=Layout(settings.store.prefix),
            lane=settings.store.lane,
        )
        self._settings = settings
        self._ledger, self._wakeups, self._clock = ledger, wakeups, clock
        self._had_runs = False
        self._took_s = 0.0
        #: Where the pass before was cut short, by an error or a stop.
        self._cut_at: RunKey | None = None
        self._rounds = Rounds(ledger, clock, self._rules.profile.rescan_s)
        self._notices = Notices(name)
        self._looks = Looks()
        self._goes_by_next_runs = self._rules.profile.quiet_after_next_s is not None
        self._lingering = Lingering(ledger, self._rules.profile)
        self._teller = Teller(ledger, name, clock, self._root)

    def run_forever(self, stop: Flag) -> None:
        """Make passes until `stop` is set."""
        outages = 0
        self._teller.every_s = self._interval_s() * (1 + JITTER)
        while not stop.is_set():
            report = self.make_pass(stop.is_set)
            outages = outages + 1 if report.condition is Condition.LEDGER_UNAVAILABLE else 0
            stop.wait(self._wait_s(outages))

    def _wait_s(self, outages: int) -> float:
        interval_s = self._interval_s()
        if outages:
            interval_s = min(BACKOFF_BASE_S * 2 ** min(outages - 1, 10), BACKOFF_CAP_S)
        return interval_s * (1 - JITTER + 2 * JITTER * self._clock.uniform())

    def _interval_s(self) -> float:
        """Return the time between two passes: a share that takes long to look at is not looked at
        for more than half of the time."""
        return max(self._rules.profile.scan_interval_s, min(self._took_s, LONGEST_REST_S))

    def make_pass(self, stopping: Callable[[], bool]) -> InstrumentReport:
        """Look at every run once. Raises nothing: every error is in the report."""
        began_s, runs, waiting = self._clock.mono_s(), list[RunReport](), list[Waiting]()
        report = InstrumentReport(instrument=self._name)
        try:
            for known in self._teller.begin():
                self._lingering.remember(known)
            listed_ms = self._ledger.now_ms() if self._goes_by_next_runs else 0
            share = list_share(self._root, self._name, self._rules.profile, self._has_runs)
            report = replace(
                report,
                condition=Condition.SCANNED if share.runs else Condition.NOTHING_YET,
                temporary=share.temporary,
                unusable=share.unusable,
                unreadable=share.unreadable,
                outside_runs=share.others_count,
            )
            for run, why in self._runs(share, listed_ms, self._beating(stopping)):
                runs.append(run)
                waiting += [why] if worth_telling(why) else []
            report = self._publish(report)
        except Exception as error:  # noqa: BLE001  the agent's loop: an error ends one pass only
            report = self._ended(report, error)
        self._took_s = self._clock.mono_s() - began_s
        report = replace(report, runs=tuple(runs), duration_s=round(self._took_s, 3))
        if self._teller.every_s is not None:
            self._teller.every_s = self._interval_s() * (1 + JITTER)
        self._teller.end(report, waiting)
        self._notices.give(report)
        return report

    def _beating(self, stopping: Callable[[], bool]) -> Callable[[], bool]:
        """Return what is asked for every batch of a long pass: its beat."""

        def asked() -> bool:
            self._teller.beat()
            return stopping()

        return asked

    def _has_runs(self) -> bool:
        return self._had_runs or any(run.instrument == self._name for run in self._ledger.runs())

    def _runs(
        self, share: Share, listed_ms: int, stopping: Callable[[], bool]
    ) -> Iterator[tuple[RunReport, Waiting]]:
        self._had_runs = self._had_runs or bool(share.runs)
        active = self._active_runs()
        began = self._began([one.run for one in share.runs], listed_ms)
        for folder in self._in_turn(share):
            if stopping():
                raise Stopped
            self._cut_at = folder.run
            report = self._rounds.look(
                folder,
                lambda folder=folder: self._survey(  # type: ignore[misc]
                    share, folder, stopping, next_began=began.is_over(folder.run)
                ),
            )
            if report.wants_records:
                self._ask_for_records(folder.run)
            yield self._lingering.judge(report)
        self._cut_at = None
        present = {folder.run for folder in share.runs}
        self._rounds.forget_all_but(present)
        self._looks.forget_all_but(present)
        # A root on which no run is known may be another one: then nothing is gone.
        if not present.isdisjoint(active):
            for report in self._absent(share, [run for run in active if run not in present]):
                yield self._lingering.judge(report)

    def _began(self, runs: Sequence[RunKey], listed_ms: int) -> NextRuns:
        if self._goes_by_next_runs:
            self._looks.note(None, listed_ms, map(str, runs))
        return NextRuns(self._ledger, self._rules.profile, runs, self._looks)

    def _in_turn(self, share: Share) -> list[RunFolder]:
        """Return the runs, those first that a pass which was cut short did not come to."""
        runs, cut_at = list(share.runs), self._cut_at
        if cut_at is None:
            return runs
        later = [folder for folder in runs if folder.run > cut_at]
        return [*later, *(folder for folder in runs if folder.run <= cut_at)]

    def _ask_for_records(self, run: RunKey) -> None:
        """Let a worker take the records of a run back; asked again while that is not done."""
        name = f"announce-take-back:{run}"
        if self._ledger.leadership(name, keep_s=self._settings.ledger.resend_s).keep():
            try:
                self._wakeups.take_back(run)
            except BrokerUnavailable as error:
                emit("scan.broker_unavailable", level=logging.WARNING, why=str(error))

    def _active_runs(self) -> list[RunKey]:
        return [run for run in self._ledger.active_runs() if run.instrument == self._name]

    def _survey(
        self,
        share: Share,
        folder: RunFolder,
        stopping: Callable[[], bool],
        *,
        next_began: bool,
    ) -> RunReport:
        try:
            return survey(
                self._ledger,
                self._rules,
                share,
                folder,
                stopping,
                self._looks,
                next_began=next_began,
            )
        except tuple(error for error, _ in _ENDS):
            raise
        except Exception as error:  # noqa: BLE001  the agent's loop: an error ends one run only
            emit(
                "run.failed",
                level=logging.ERROR,
                run=str(folder.run),
                traceback=traceback.format_exc(),
            )
            return RunReport(run=str(folder.run), failure=f"{type(error).__name__}: {error}")

    def _absent(self, share: Share, runs: Sequence[RunKey]) -> Iterator[RunReport]:
        """Skip what was discovered in run folders that are gone, by name or altogether; such a run
        does not end by itself."""
        profile = self._rules.profile
        for run in runs:
            facts = self._ledger.find_facts(run)
            if facts is None or not (facts.counts[State.DISCOVERED] or is_open(facts)):
                continue
            vanished = 0
            if facts.counts[State.DISCOVERED]:
                folder = RunFolder(run=run, path=run_path(self._root, run))
                vanished = skip_vanished(self._ledger, share, folder, profile)
            yield RunReport(
                run=str(run),
                state=run_state(replace(facts, stale_s=profile.stale_s)),
                vanished=vanished,
                done=(_GONE,) if is_open(facts) else (),
            )

    def _publish(self, report: InstrumentReport) -> InstrumentReport:
        """Publish what the instrument's window has room for."""
        runs = self._ledger.facts_of(self._active_runs())
        try:
            published = top_up(self._ledger, self._wakeups, runs, self._settings)
        except BrokerUnavailable as error:
            return replace(report, broker=str(error))
        return replace(report, published=published)

    def _ended(self, report: InstrumentReport, error: Exception) -> InstrumentReport:
        for kind, condition in _ENDS:
            if isinstance(error, kind):
                return replace(report, condition=condition, why=str(error))
        emit(
            "scan.failed",
            level=logging.ERROR,
            instrument=self._name,
            traceback=traceback.format_exc(),
        )
        why = f"{type(error).__name__}: {error}"
        return replace(report, condition=Condition.FAILED, why=why)

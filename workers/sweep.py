"""What must happen that no worker does? Expired leases, due retries, lost messages, queues topped
up, sealed runs completed, dead letters told of.

Any number of sweeps may run, `labferry sweep` or the one beside each worker; a short lock makes
one the leader. Everything it does is guarded by the ledger, so two that act at once do no harm.
"""

import logging
import signal
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event as Flag
from types import FrameType

from labferry.breakers import is_over
from labferry.broker import CeleryWakeups, make_app
from labferry.clock import SystemClock
from labferry.completion import may_put_away
from labferry.errors import (
    BrokerUnavailable,
    LabferryError,
    LedgerUnavailable,
    MalformedMessage,
)
from labferry.failures import Failure, Kind
from labferry.feed import top_up
from labferry.identity import RunKey
from labferry.ledger import open_ledger
from labferry.ports import Clock, Leadership, Ledger
from labferry.records import FileRecord, Note, Outcome, RunFacts, Step
from labferry.retry import Budget, Verdict, decide
from labferry.settings import Settings, load_settings
from labferry.states import Event
from labferry.tallies import Tally, What
from labferry.telemetry import emit
from labferry.throttle import share_of
from labferry.wakeup_port import Wakeups
from workers.advance import advance
from workers.alerting import alert_rounds
from workers.batches import Batches
from workers.reminders import Reminders
from workers.rounds import start_rounds
from workers.silence import Silence
from workers.telling import event_rounds
from workers.turns import tell_turns

#: Files moved of one run in one tick, so that no tick blocks others for long.
TICK_LIMIT = 500
#: Runs whose records may be on their way to the bucket at a time.
PUT_AWAY_RUNS = 4
#: A leader that died is followed by another after this many intervals.
LEADER_INTERVALS = 3
#: A delivery that takes longer at a stop is made again by another.
COURIER_S = 2.0


class Sweep:
    """One sweep over all runs; `tick` may run anywhere, any number of times."""

    def __init__(
        self, *, ledger: Ledger, wakeups: Wakeups, clock: Clock, settings: Settings
    ) -> None:
        self._ledger = ledger
        self._wakeups = wakeups
        self._clock = clock
        self._settings = settings
        self._budget = Budget(**settings.retry.model_dump())
        self._batches = Batches(ledger)

    def tick(self) -> None:
        """Move what is due in every run; a run that fails does not stop the others.

        Raises: LedgerUnavailable.
        """
        self._forget()
        self._go_on_with_batches()
        by_instrument: dict[str, list[RunFacts]] = defaultdict(list)
        for run in self._ledger.active_runs():
            self._try(partial(self._sweep_run, run))
            facts = self._ledger.find_facts(run)
            if facts is not None:
                by_instrument[run.instrument].append(facts)
        tell_turns(self._ledger, by_instrument, self._settings)
        for facts_of_runs in by_instrument.values():
            self._top_up(facts_of_runs)
        self._put_away()

    def _put_away(self) -> None:
        """Let workers put the records of runs away that are over for long."""
        rest_ms = int(self._settings.ledger.keep_records_s * 1000)
        for run in self._ledger.finished_runs(rest_ms=rest_ms, limit=PUT_AWAY_RUNS):
            facts = self._ledger.find_facts(run)
            if facts is not None and facts.archive is None and not may_put_away(facts):
                self._ledger.retire(run)  # looked at again after as long a rest
                continue
            name = f"announce-put-away:{run}"
            if self._ledger.leadership(name, keep_s=self._settings.ledger.resend_s).keep():
                self._try(partial(self._wakeups.put_away, run))

    def _try(self, act: Callable[[], object]) -> None:
        """Do what publishes; while the broker is away it is left to a later tick."""
        try:
            act()
        except BrokerUnavailable as error:
            emit("sweep.broker_unavailable", level=logging.WARNING, error=str(error))

    def _forget(self) -> None:
        """Take off the record what stands in nobody's way any more."""
        rules = self._settings.breakers.rules(self._settings.ledger.lease_ttl_s)
        conditions = self._ledger.conditions()
        for breaker in conditions.breakers:
            if is_over(breaker, conditions.now_ms, rules):
                self._ledger.swap_breaker(breaker, None)
        for pace in conditions.paces:
            if share_of(pace, conditions.now_ms, rules.recovery_ms) >= 1:
                self._ledger.swap_pace(pace, None)

    def _go_on_with_batches(self) -> None:
        """Send in again what operators ask for; a record that cannot be read stops nothing else."""
        try:
            self._batches.tick()
        except MalformedMessage as error:
            emit("sweep.batch_unreadable", level=logging.ERROR, error=str(error))

    def _top_up(self, runs: Sequence[RunFacts]) -> None:
        self._try(partial(top_up, self._ledger, self._wakeups, runs, self._settings, trickles=True))

    def _sweep_run(self, run: RunKey) -> None:
        self._expire(run)
        if self._ledger.find_hold(run) is None:
            self._publish(run)
        facts = self._ledger.find_facts(run)
        if facts is not None:
            if facts.reasons_due:
                self._announce_reasons(run)
            advance(facts, self._ledger, self._wakeups, self._settings)

    def _publish(self, run: RunKey) -> None:
        """Publish what is due again, or was sent and not claimed in time."""
        due = self._ledger.take_due(run, TICK_LIMIT)
        unclaimed = self._ledger.take_unclaimed(run, TICK_LIMIT)
        if unclaimed:
            emit("sweep.resent", run=str(run), messages=len(unclaimed))
        self._wakeups.upload([*due, *unclaimed])

    def _announce_reasons(self, run: RunKey) -> None:
        """Let a worker tell the bucket of dead letters; again when the oldest is still untold."""
        for _, number in self._ledger.reasons_due(run, 0, 1):
            name = f"announce-reasons:{run}:{number}"
            if self._ledger.leadership(name, keep_s=self._settings.ledger.resend_s).keep():
                self._wakeups.reasons(run)

    def _expire(self, run: RunKey) -> None:
        for path, record in self._ledger.lapsed(run, TICK_LIMIT):
            failure = Failure(
                kind=Kind.WORKER_LOST,
                code="lease_expired",
                message="the worker that held the lease was lost.",
            )
            age_s = (self._ledger.now_ms() - record.claimed_ms) / 1000
            decision = decide(
                failure,
                attempt=record.lost + 1,
                age_s=age_s,
                budget=self._budget,
                uniform=self._clock.uniform(),
            )
            lost = decision.verdict is Verdict.QUARANTINE
            event = Event.EXHAUST if lost else Event.EXPIRE
            step = Step(
                path=path,
                token=record.token,
                delay_ms=None if lost else int(decision.delay_s * 1000),
                note=self._note(event, record, failure, decision.reason),
            )
            if self._ledger.move(run, event, [step]) == [Outcome.DONE]:
                self._ledger.tally({Tally(run.instrument, What.LEASE_EXPIRED): 1}, {})
            emit(
                "file.lease_expired",
                level=logging.WARNING,
                run=str(run),
                file=path,
                token=record.token,
                lost=record.lost + 1,
            )

    def _note(self, event: Event, record: FileRecord, failure: Failure, reason: str) -> Note:
        return Note(
            event=event,
            kind=failure.kind,
            code=failure.code,
            message=failure.message,
            decision=reason,
            worker=self._ledger.worker_name(record.holder),
            token=record.token,
            attempt=record.attempt,
            series=record.series,
        )


def run_forever(settings: Settings, stop: Flag) -> None:
    """Sweep at every interval while this process leads, until `stop` is set."""
    interval_s = settings.ledger.sweep_interval_s
    ledger = open_ledger(settings.ledger)
    sweep = Sweep(
        ledger=ledger,
        wakeups=CeleryWakeups(make_app(settings)),
        clock=SystemClock(),
        settings=settings,
    )
    leader = ledger.leadership("sweep", keep_s=max(interval_s * LEADER_INTERVALS, 3))
    reminders = Reminders(ledger, SystemClock(), settings.alerts.remind_s)
    silence = Silence(ledger, SystemClock(), settings.instruments)
    beside = [*alert_rounds(settings), *event_rounds(settings)]
    couriers = [start_rounds(one, settings.ledger, stop) for one in beside]
    while not stop.is_set():
        _try_tick(leader, sweep.tick, reminders.tend, silence.tend)
        stop.wait(interval_s)
    for courier in couriers:
        courier.join(COURIER_S)
    try:
        leader.release()
    except LedgerUnavailable:
        emit("sweep.not_released", level=logging.WARNING)


def _try_tick(leader: Leadership, *duties: Callable[[], object]) -> None:
    try:
        if leader.keep():
            for duty in duties:
                duty()
    except LabferryError as error:
        emit("sweep.failed", level=logging.WARNING, error=str(error))


def main() -> None:
    """Run `python -m workers.sweep` until SIGTERM or SIGINT."""
    settings = load_settings()
    settings.logs.apply("sweep")
    stop = Flag()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    run_forever(settings, stop)


if __name__ == "__main__":
    main()

"""What does one worker process hold, and what does it do with a message?

Ports are made at the first message, in the child: neither an S3 client nor a connection may cross
a fork.
"""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from labferry.bandwidth import plans_of
from labferry.clock import SystemClock
from labferry.compaction import Records
from labferry.concurrency import Concurrency
from labferry.errors import LedgerUnavailable, MalformedMessage, StoreError
from labferry.events import EventKind
from labferry.failures import Cause, classify_undone
from labferry.identity import Layout, RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.messages import UploadMessage
from labferry.records import Claim, Proof, Step
from labferry.s3.probe import proven
from labferry.s3.store import open_store
from labferry.settings import Settings
from labferry.states import Event
from labferry.tallies import What
from labferry.telemetry import emit, is_told
from labferry.wakeup_port import Wakeups
from workers.afterwards import Afterwards
from workers.attempt import given_back, not_claimed
from workers.bandwidth import Bandwidth
from workers.blame import Blame
from workers.complete import Completer
from workers.counters import Counters
from workers.crew import ByteGate
from workers.gate import Gate
from workers.permit import Permit, ask_permit
from workers.reasons import Reasons
from workers.shown import recorded
from workers.transfer import Result, Transfer

#: As long as one that moves a run's records; two at once would only do the same twice.
_RECORDS_LOCK_S = 600.0
#: What is believed of an endpoint that could not be asked: nothing.
UNPROVEN = Proof(
    refuses_wrong_checksum=False,
    attests_checksum=False,
    full_object=False,
    conditional_put=False,
    conditional_complete=False,
    content_md5=False,
)


class WorkerProcess:
    """The ports of one process, and what it does for each kind of message."""

    def __init__(self, settings: Settings, wakeups: Wakeups) -> None:
        self.pid = os.getpid()
        host = socket.gethostname()
        self.name = f"{host}:{self.pid}"
        self._settings = settings
        self._layout = Layout(settings.store.prefix)
        self._clock = SystemClock()
        self._store = open_store(settings.store)
        self.ledger: RedisLedger = open_ledger(settings.ledger)
        self._number = self.ledger.register(self.name)
        self._afterwards = Afterwards(self.ledger, wakeups, self._clock, settings)
        self._proof: Proof | None = None
        least, most = settings.worker.small_threads, settings.worker.small_threads_most
        self._concurrency = Concurrency(least, max(least, most))
        self._part_concurrency = _of_parts(settings)
        self._in_flight = ByteGate(settings.worker.max_bytes_in_flight)
        self._gate = Gate(self.ledger, settings, host)
        self._counters = Counters(self.ledger)
        self._bandwidth = Bandwidth(self.ledger, plans_of(settings), self._clock)
        self._blame = Blame(self._store, self._layout, self._clock)

    def upload(self, message: UploadMessage) -> list[Result]:
        """Claim a bundle's files, ferry them, and take the run's next step.

        What an operator holds is not claimed: the message comes again once it is released.
        """
        began_s = self._clock.mono_s()
        cap = self._settings.cap(message.run.instrument)
        begun = self.ledger.begin(message.run, message.bundle, message.paths, self._number, cap)
        claims = begun.claims
        if begun.hold:
            emit("delivery.held", run=str(message.run), bundle=message.bundle)
            return [not_claimed(path, begun.hold) for path in message.paths]
        if not claims:
            emit("delivery.dropped", run=str(message.run), bundle=message.bundle)
            self._counters.add(message.run.instrument, What.DELIVERY_DROPPED)
            return recorded(self.ledger, message.run, message.paths)
        self._note(message.run, claims)
        with self._given_back(message.run, claims):
            look = self._gate.read(begun.conditions())
            permit = ask_permit(self._gate, self._blame, message.run.instrument, look)
            proof = UNPROVEN if permit.failure else self._proven(permit)
        transfer = Transfer(
            ledger=self.ledger,
            store=self._store,
            clock=self._clock,
            layout=self._layout,
            settings=self._settings,
            roots={name: one.root for name, one in self._settings.instruments.items()},
            worker=self.name,
            proof=proof,
            permit=permit,
            take=self._bandwidth.of(message.run.instrument).take,
            counters=self._counters,
            concurrency=self._concurrency,
            part_concurrency=self._part_concurrency,
            gate=self._in_flight,
        )
        results = transfer.ferry(message.run, claims)
        if any(_is_share_away(result) for result in results):
            # This node stops taking the instrument's messages in a moment: leave them to others.
            self._clock.sleep_s(self._settings.breakers.share_look_s)
        self._afterwards.take(message.run, begun.sent, began_s)
        return results + self._of_others(message, results)

    def _of_others(self, message: UploadMessage, results: Sequence[Result]) -> list[Result]:
        """Return what became of the message's files that were not ours, or not ours to the end."""
        if len(results) >= len(message.paths):
            return []
        ours = {result.path for result in results}
        others = [path for path in message.paths if path not in ours]
        return recorded(self.ledger, message.run, others)

    @contextmanager
    def _given_back(self, run: RunKey, claims: Sequence[Claim]) -> Iterator[None]:
        """Give files back when they cannot be begun, or the process is told to exit before."""
        try:
            yield
        except (SystemExit, KeyboardInterrupt):
            steps = [given_back(claim, "shutdown", self.name).step for claim in claims]
            with suppress(LedgerUnavailable):
                self.ledger.move(run, Event.YIELD, steps)
            raise
        except MalformedMessage:
            steps = [Step(path=claim.path, token=claim.token) for claim in claims]
            self.ledger.move(run, Event.YIELD, steps)
            raise

    def close(self) -> None:
        """Tell the ledger what was not told yet; for a process that ends in good order."""
        self._counters.send()

    def _note(self, run: RunKey, claims: Sequence[Claim]) -> None:
        """Count what is begun, and log each file for who asked for that much."""
        self._counters.add(run.instrument, What.CLAIM, len(claims))
        for claim in claims if is_told(logging.DEBUG) else ():
            emit(
                "file.uploading",
                level=logging.DEBUG,
                run=str(run),
                file=claim.path,
                token=claim.token,
                attempt=claim.record.attempt + 1,
                bundle=claim.bundle,
                worker=self.name,
            )

    def complete(self, run: RunKey) -> bool:
        """Complete a run that is ready; return whether it is complete."""
        with self._permitted(run) as permit:
            proof = UNPROVEN if permit.failure else self._proven(permit)
            if permit.failure:
                return False
            completer = Completer(
                ledger=self.ledger,
                store=self._store,
                layout=self._layout,
                trusts_put=proof.refuses_wrong_checksum and proof.conditional_put,
            )
            before = self.ledger.markers(run) if permit.is_probe else set()
            done = completer.complete(run)
            if permit.is_probe and self.ledger.markers(run) != before:
                permit.passed()
            return done

    def write_reasons(self, run: RunKey) -> int:
        """Tell the bucket of a run's dead letters; return of how many."""
        reasons = Reasons(
            ledger=self.ledger,
            store=self._store,
            layout=self._layout,
            tells=EventKind.DEAD_LETTERED in self._settings.events.kinds,
        )
        with self._permitted(run) as permit:
            if permit.failure:
                return 0
            count = reasons.write(run)
            if count:
                permit.passed()
            return count

    def put_away(self, run: RunKey) -> bool:
        """Put a complete run's records away; return whether they are in the bucket."""
        keep_ms = int(self._settings.ledger.keep_records_s * 1000)
        with self._records(run) as records:
            if records is None:
                return False
            try:
                done = records.put_away(run, keep_ms=keep_ms)
            except MalformedMessage:
                self.ledger.retire(run)
                raise
            if not done:  # tried again after as long a rest, not before others
                self.ledger.retire(run)
            return done

    def take_back(self, run: RunKey) -> bool:
        """Take a run's records back; return whether they are on the ledger."""
        with self._records(run) as records:
            return records is not None and records.take_back(run)

    @contextmanager
    def _records(self, run: RunKey) -> Iterator[Records | None]:
        """Lend what moves records, one worker at a time; None where it cannot be now."""
        lock = self.ledger.leadership(f"records:{run}", keep_s=_RECORDS_LOCK_S)
        with self._permitted(run) as permit:
            if permit.failure or not lock.keep():
                yield None
                return
            try:
                yield Records(ledger=self.ledger, store=self._store, layout=self._layout)
                permit.passed()
            except MalformedMessage as error:
                self.ledger.alert(
                    f"archive:{run}",
                    f"The records of {run} cannot be taken back: {error} What comes late waits. "
                    "Put the object back from a backup or an older version.",
                )
                raise
            finally:
                lock.release()

    @contextmanager
    def _permitted(self, run: RunKey) -> Iterator[Permit]:
        """Lend a permit for work that is no file's, and let everybody know what stopped it."""
        permit = ask_permit(self._gate, self._blame, run.instrument, self._gate.look())
        try:
            yield permit
        except StoreError as error:
            permit.judge(classify_undone(error), of_store=True, is_last=False)
            raise
        finally:
            permit.leave()

    def _proven(self, permit: Permit) -> Proof:
        """Return what the endpoint was seen to do; ask it when nobody has today."""
        if self._proof is None:
            try:
                self._proof = proven(self._store, self._layout, self.ledger)
            except StoreError as error:
                emit("endpoint.unproven", level=logging.WARNING, error=str(error))
                permit.refuse(classify_undone(error))
                return UNPROVEN
        return self._proof


def _of_parts(settings: Settings) -> Concurrency:
    """Return how many parts may be in flight; a slow link takes many seconds for each."""
    least, store = settings.worker.part_threads, settings.store
    most = settings.worker.max_bytes_in_flight // store.part_size_bytes
    return Concurrency(least, max(least, most), gap_s=store.read_timeout_s)


def _is_share_away(result: Result) -> bool:
    return result.failure is not None and result.failure.cause is Cause.SHARE

"""How do the claimed files of one message get to the bucket?

Small files go many at a time, large ones one after the other. Each file ends verified,
parked, quarantined or given back, and the ledger is told; or its lease is lost, and it is another
worker's business.
"""

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labferry.concurrency import Concurrency
from labferry.errors import LedgerUnavailable, ShareUnavailable
from labferry.failures import classify
from labferry.identity import Layout, RunKey
from labferry.ports import Clock, Ledger, ObjectStore
from labferry.records import Claim, Lane, Level, Proof
from labferry.retry import Budget
from labferry.settings import Settings
from workers.attempt import Result
from workers.attempts import Attempts
from workers.counters import Counters
from workers.crew import ByteGate, Crew
from workers.evidence import Prover
from workers.heartbeat import Heartbeat
from workers.multipart import Multipart
from workers.outcomes import Outcomes
from workers.parts import GRACE_S
from workers.permit import Permit
from workers.single import SinglePut
from workers.small_lane import BATCH_FILES, SmallLane
from workers.source import RunFolder, Take, check_share, without_limit

__all__ = ["Result", "Transfer"]

#: Outcomes are told to the ledger after so long, if not before.
_BATCH_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Ferries bundles with the ports of one process; `roots` are the instruments' folders here."""

    ledger: Ledger
    store: ObjectStore
    clock: Clock
    layout: Layout
    settings: Settings
    roots: Mapping[str, Path]
    worker: str
    proof: Proof
    permit: Permit
    counters: Counters
    concurrency: Concurrency
    part_concurrency: Concurrency
    gate: ByteGate
    take: Take = without_limit

    def ferry(self, run: RunKey, claims: Sequence[Claim]) -> list[Result]:
        """Work on claimed files and record what becomes of each; return what was recorded.

        A file whose lease was lost is not among the results. What the permit does not let pass is
        held. When the process is asked to exit, what is not finished is given back first. Raises:
        LedgerUnavailable; leases then run out.
        """
        bundle = _Bundle(self, run, claims)
        try:
            bundle.carry()
            bundle.settle("ledger_unavailable")
        except LedgerUnavailable:
            bundle.stop()
            bundle.settle("ledger_unavailable")  # it may be back by now
        except (SystemExit, KeyboardInterrupt):
            bundle.stop()
            with contextlib.suppress(LedgerUnavailable):
                bundle.settle("shutdown")
            raise
        finally:
            bundle.close()
            with contextlib.suppress(LedgerUnavailable):
                self.permit.leave()
        return bundle.results


class _Bundle:
    """The files of one message while they are worked on."""

    def __init__(self, ports: Transfer, run: RunKey, claims: Sequence[Claim]) -> None:
        self._ports = ports
        self._run = run
        self._claims = claims
        self._heartbeat = Heartbeat(
            ports.ledger, run, claims, clock=ports.clock, settings=ports.settings.ledger
        )
        budget = Budget(**ports.settings.retry.model_dump())
        self._outcomes = Outcomes(
            ports.ledger,
            run,
            claims,
            heartbeat=self._heartbeat,
            budget=budget,
            clock=ports.clock,
            worker=ports.worker,
            counters=ports.counters,
        )
        self._attempts = Attempts(
            run,
            ledger=ports.ledger,
            layout=ports.layout,
            clock=ports.clock,
            heartbeat=self._heartbeat,
            budget=budget,
            permit=ports.permit,
            counters=ports.counters,
        )
        self._small = SmallLane(
            self._attempts,
            ports.store,
            ports.permit,
            ports.concurrency,
            ports.gate,
            ports.clock,
        )
        self._next_record_s = ports.clock.mono_s() + _BATCH_S
        self._folder: RunFolder | None = None

    @property
    def results(self) -> list[Result]:
        """What the ledger took."""
        return self._outcomes.results

    def carry(self) -> None:
        """Work on all files. Raises: LedgerUnavailable."""
        ports = self._ports
        folder = None if self._attempts.in_the_way else self._find_folder()
        if folder is None:
            self._attempts.hold_back(self._claims)
            return
        self._folder = folder
        prover = Prover(ports.store, ports.proof, Level(ports.settings.store.evidence_minimum))
        lane = ports.settings.store.lane
        by_lane: dict[Lane, list[Claim]] = {one: [] for one in Lane}
        for claim in self._claims:
            by_lane[lane(claim.record.fingerprint.size)].append(claim)
        if small := by_lane[Lane.SMALL]:
            single = SinglePut(ports.store, folder, prover, secrets.token_hex(8))
            self._small.carry(small, single, self._wait)
        if large := by_lane[Lane.LARGE]:
            self._carry_large(large, folder, prover)

    def _carry_large(self, claims: Sequence[Claim], folder: RunFolder, prover: Prover) -> None:
        ports = self._ports
        multipart = Multipart(
            ports.ledger,
            ports.store,
            ports.clock,
            ports.settings,
            folder,
            prover,
            ports.part_concurrency,
            ports.gate,
            ports.permit.pace,
        )
        for claim in claims:
            if not self._heartbeat.is_stopping:
                self._heartbeat.start()
                attempt = self._attempts.make(claim, multipart.send)
                if attempt.is_throttled:
                    self._attempts.in_the_way = attempt.failure
                self._attempts.done.append(attempt)
                self._record()

    def settle(self, code: str) -> None:
        """Record all outcomes and give back what has none. Raises: LedgerUnavailable."""
        self._record()
        self._outcomes.give_back(code)

    def stop(self) -> None:
        """Begin no file any more, and let those in flight end if that is soon."""
        self._heartbeat.stop()
        self._small.stop()
        if self._small.crew is not None:
            self._small.crew.rest(self._ports.clock, GRACE_S)

    def close(self) -> None:
        """Let go of leases and folders."""
        self.stop()
        self._heartbeat.close()
        # A thread that hangs in a read may still use the folders; it ends with the process.
        crew = self._small.crew
        if self._folder is not None and (crew is None or crew.is_done):
            self._folder.close()

    def _find_folder(self) -> RunFolder | None:
        """Open the run's folder; None, and what is in the way, where its share is away."""
        try:
            return self._open_folder()
        except ShareUnavailable as error:
            failure, _ = self._ports.permit.judge(classify(error), of_store=False, is_last=False)
            self._attempts.in_the_way = failure
            return None

    def _open_folder(self) -> RunFolder:
        root = self._ports.roots.get(self._run.instrument)
        if root is None:
            why = "this worker has no root for the instrument"
            raise ShareUnavailable(path=self._run.instrument, why=why)
        check_share(root)
        instrument = self._ports.settings.instruments.get(self._run.instrument)
        sidecars = instrument.resolved().sidecars if instrument else ()
        return RunFolder(root, self._run, sidecars, self._ports.take)

    def _wait(self, crew: Crew) -> None:
        """Wait for a crew; renew leases and record outcomes meanwhile."""
        while not crew.wait(_BATCH_S):
            self._heartbeat.tend()
            is_due = self._ports.clock.mono_s() >= self._next_record_s
            if is_due or len(self._attempts.done) >= BATCH_FILES:
                self._record()

    def _record(self) -> None:
        self._next_record_s = self._ports.clock.mono_s() + _BATCH_S
        done = self._attempts.done
        self._outcomes.add(done.popleft() for _ in range(len(done)))
        self._outcomes.flush()

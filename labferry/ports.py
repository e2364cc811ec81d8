"""What does labferry ask of the world?

Programs receive these as arguments. Every call may raise its port's error: LedgerUnavailable,
StoreError, BrokerUnavailable. Batch calls are one round trip; each item is atomic by itself, and
each call may run twice.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from labferry.archive_port import ArchiveLedger
from labferry.batch_port import BatchLedger
from labferry.begun import Begun
from labferry.condition_port import ConditionLedger
from labferry.identity import FileKey, RunKey
from labferry.limit_port import LimitLedger
from labferry.operator_port import OperatorLedger
from labferry.outbox_port import OutboxLedger
from labferry.pass_port import PassLedger
from labferry.records import (
    Bundle,
    Claim,
    Completion,
    FileRecord,
    Fingerprint,
    Lane,
    Outcome,
    Part,
    Proof,
    RunFacts,
    Seen,
    Step,
    Upload,
)
from labferry.states import Event
from labferry.store_port import ObjectStore as ObjectStore  # noqa: PLC0414  one of the ports
from labferry.tally_port import TallyLedger
from labferry.turn_port import TurnLedger


class Clock(Protocol):
    """Time and dice, so that tests can hold them."""

    def mono_s(self) -> float:
        """Return seconds that only grow, to subtract; not to store."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Wait."""
        ...

    def uniform(self) -> float:
        """Return a random number in [0, 1)."""
        ...


class Leadership(Protocol):
    """A short lock that makes one of several processes the leader."""

    def keep(self) -> bool:
        """Acquire or extend; return whether this process leads until the time to live ends."""
        ...

    def extend(self) -> bool:
        """Extend what this process leads; return whether it still did. Never acquires: for a thread
        beside the one that may release meanwhile."""
        ...

    def release(self) -> None:
        """Let another lead at once."""
        ...


class Ledger(
    OperatorLedger, ConditionLedger, BatchLedger, TallyLedger, PassLedger, OutboxLedger,
    ArchiveLedger, LimitLedger, TurnLedger, Protocol,
):  # fmt: skip
    """The durable record of every file: the truth. All instants are on its own clock."""

    def now_ms(self) -> int:
        """Return the ledger's clock."""
        ...

    # -- what a scan asks

    def look(self, run: RunKey, paths: Sequence[str]) -> tuple[int, list[Seen | None]]:
        """Return the ledger's clock, and what it knows of each path."""
        ...

    def find_records(self, run: RunKey, paths: Sequence[str]) -> list[FileRecord | None]:
        """Return all that is known of some files of a run, in their order."""
        ...

    def discover(self, run: RunKey, seen: Sequence[tuple[str, Fingerprint]]) -> int:
        """Record files never seen before; return how many were new. Reopens a sealed run; when a
        new file of a complete run settles, the next generation opens."""
        ...

    def move(self, run: RunKey, event: Event, steps: Sequence[Step]) -> list[Outcome]:
        """Apply one event of states.MOVES to many files, each guarded by its sources and, for a
        holder, by its token. State, counts, queues, leases and history change together. A holder's
        event that was applied under this token before is DONE again, so a lost answer is harmless.

        Not for DISCOVER, CLAIM, RETRY, RECALL and an operator's events: they have their own calls.
        """
        ...

    def seal(self, run: RunKey, last: Sequence[str], file_count: int) -> bool:
        """Freeze an open run of which all files are settled, but for those `last` that go up after
        all others. `file_count` is how many files the scan saw (skipped ones left out). Return
        False when the run is not like that, or is frozen or complete already."""
        ...

    # -- what the feed asks

    def runs(self) -> list[RunKey]:
        """Return every run that is on record, sorted."""
        ...

    def active_runs(self) -> list[RunKey]:
        """Return the runs that are not retired, sorted."""
        ...

    def retire(self, run: RunKey) -> None:
        """Leave a complete run out of `active_runs` until something of it moves again. Does nothing
        where something was queued or discovered in the last minute: that may be underway still."""
        ...

    def find_facts(self, run: RunKey) -> RunFacts | None:
        """Return the run's counts and dates, or None for a run never seen."""
        ...

    def facts_of(self, runs: Sequence[RunKey]) -> list[RunFacts]:
        """Return the counts and dates of many runs, in their order, without runs never seen: not
        all as of one instant, but in a round trip for hundreds."""
        ...

    def take(
        self, run: RunKey, lane: Lane, *, bundles: int, max_files: int, max_bytes: int
    ) -> list[Bundle]:
        """Make up to `bundles` bundles of eligible files that no message carries, each of at most
        `max_files` files and `max_bytes` bytes (a larger file rides alone), and record them as
        sent, due to be sent again after the resend time. Publish them after this."""
        ...

    def take_due(self, run: RunKey, limit: int) -> list[Bundle]:
        """RETRY files whose time has come: each becomes eligible. Up to `limit` failed ones become
        bundles of their own, recorded as sent; held ones wait for a message as before."""
        ...

    def take_unclaimed(self, run: RunKey, limit: int) -> list[Bundle]:
        """Return bundles that were sent and not claimed within their resend time, which doubles."""
        ...

    # -- what a worker asks

    def register(self, worker: str) -> int:
        """Return the number that stands for this worker's name in records."""
        ...

    def worker_name(self, number: int) -> str:
        """Return the name behind a number, or '' ."""
        ...

    def claim(
        self,
        run: RunKey,
        bundle: int,
        paths: Sequence[str],
        holder: int,
        cap: int | None = None,
    ) -> list[Claim]:
        """Take the lease on every file of a bundle that is eligible, each with a new token; the
        rest is left out. A bundle already claimed yields only what is eligible again.

        With a `cap`, no more is taken than it leaves beside the leases of all the instrument's runs
        (of those that were ever claimed of with a cap); the rest of the bundle waits for a message
        again, before all others."""
        ...

    def begin(
        self,
        run: RunKey,
        bundle: int,
        paths: Sequence[str],
        holder: int,
        cap: int | None = None,
    ) -> Begun:
        """Claim a bundle's files and return what stands in the way, in one step. What an operator
        holds is not claimed, and its bundle stays sent."""
        ...

    def renew(self, run: RunKey, held: Sequence[tuple[str, int]]) -> list[bool]:
        """Extend the leases on (path, token); False where the token is not the newest any more."""
        ...

    def find_upload(self, file: FileKey) -> Upload | None:
        """Return the multipart plan on record."""
        ...

    def save_upload(self, file: FileKey, token: int, upload: Upload) -> None:
        """Record the plan, without its parts. Raises: Fenced."""
        ...

    def save_parts(self, file: FileKey, token: int, parts: dict[int, Part]) -> None:
        """Record parts by number. Raises: Fenced."""
        ...

    def drop_upload(self, file: FileKey, token: int) -> None:
        """Forget the plan. Raises: Fenced."""
        ...

    def find_proof(self, endpoint: str) -> Proof | None:
        """Return what the endpoint was proven to do, if that is not too old."""
        ...

    def save_proof(self, endpoint: str, proof: Proof, *, keep_s: int) -> None:
        """Record what the endpoint was proven to do."""
        ...

    # -- what the sweep and completion ask

    def lapsed(self, run: RunKey, limit: int) -> list[tuple[str, FileRecord]]:
        """Return files whose lease has run out."""
        ...

    def pending_last(self, run: RunKey) -> list[str]:
        """Return the files of a sealed run that go up after all others and are still discovered."""
        ...

    def records(self, run: RunKey) -> Iterator[tuple[str, FileRecord]]:
        """Yield every file of a run, in no order; a path may come twice."""
        ...

    def complete(self, run: RunKey, completion: Completion) -> bool:
        """Record the marker of a sealed generation in the set of markers and its event in the
        outbox, in one step; False when it was there already."""
        ...

    def leadership(self, name: str, *, keep_s: float) -> Leadership:
        """Return a lock of that name; nothing is acquired yet."""
        ...

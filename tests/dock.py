"""One run on a share, a ledger and a store, and a worker that ferries what is settled."""

import os
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from labferry.clock import SystemClock
from labferry.concurrency import Concurrency
from labferry.identity import Layout, RunKey, decode_path
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.keys import RunKeys
from labferry.ports import Clock, Ledger, ObjectStore
from labferry.records import Claim, FileRecord, Fingerprint, Lane, Outcome, Proof, Step
from labferry.settings import (
    LedgerSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from labferry.settings_trouble import BreakerSettings, RetrySettings
from labferry.states import AT_REST, LEASED, Event, State
from tests.memory_store import put_many
from tests.waiting import eventually
from workers.blame import Blame
from workers.counters import Counters
from workers.crew import ByteGate
from workers.gate import Gate
from workers.permit import Permit, ask_permit
from workers.source import Take, without_limit
from workers.transfer import Result, Transfer

RUN = RunKey("scope", "run 1")
HOST = "host"
MIB = 1024 * 1024

PROVEN = Proof(
    refuses_wrong_checksum=True,
    attests_checksum=True,
    full_object=True,
    conditional_put=True,
    conditional_complete=True,
    content_md5=True,
)
UNPROVEN = Proof(
    refuses_wrong_checksum=False,
    attests_checksum=False,
    full_object=False,
    conditional_put=False,
    conditional_complete=False,
    content_md5=False,
)


def fingerprint(path: Path) -> Fingerprint:
    seen = path.stat()
    return Fingerprint(seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_ctime_ns)


class Dock:
    """Times are short: a retry is due at once, a lost lease within the second."""

    def __init__(
        self,
        folder: Path,
        url: str,
        store: ObjectStore,
        *,
        store_settings: StoreSettings | None = None,
        **sections: Any,
    ) -> None:
        self.root = folder / "root"
        self.run = self.root / RUN.run
        self.run.mkdir(parents=True)
        self.store = store
        given: Mapping[str, Any] = {
            "ledger": LedgerSettings(url=url, resend_s=0.05),
            "store": store_settings or StoreSettings(bucket="bucket"),
            "retry": RetrySettings(base_s=0.001, floor_s=0, cap_s=0.001, hold_s=0.001),
            "worker": WorkerSettings(small_threads=4),
            "instruments": {},
            "breakers": BreakerSettings(
                probe_s=0.001, probe_cap_s=0.001, ramp_s=0.001, recovery_s=0.01
            ),
        }
        self.settings = Settings.model_construct(**{**given, **sections})
        self.ledger: RedisLedger = open_ledger(self.settings.ledger)
        self.counters = Counters(self.ledger, later=lambda _wait_s, _send: None)
        self._server = self.ledger._server.client
        # A client that is garbage with its socket open is told of in whatever test runs then.
        weakref.finalize(self, self._server.connection_pool.disconnect)
        self.layout = Layout(self.settings.store.prefix)

    def tune(self, section: str, **changes: Any) -> None:
        """Change settings of one section."""
        changed = getattr(self.settings, section).model_copy(update=changes)
        self.settings = self.settings.model_copy(update={section: changed})

    def source(self, name: str) -> Path:
        """Return where the file of this name, as keys have it, lies."""
        return self.run / os.fsdecode(decode_path(name))

    def write(self, name: str, body: bytes = b"bytes") -> Path:
        path = self.source(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return path

    def settle(self, *names: str) -> None:
        """Record files as they are now: discovered or changed, and settled."""
        for name in names:
            seen = fingerprint(self.source(name))
            if not self.ledger.discover(RUN, [(name, seen)]):
                self.ledger.move(RUN, Event.CHANGE, [Step(path=name, fingerprint=seen)])
            lane = self.settings.store.lane(seen.size)
            self.ledger.move(RUN, Event.SETTLE, [Step(path=name, fingerprint=seen, lane=lane)])

    def claim(self, ledger: Ledger | None = None) -> list[Claim]:
        """Claim whatever is eligible, a message or not."""
        asked = ledger or self.ledger
        bundles = self.ledger.take_due(RUN, 1000)
        for lane in Lane:
            bundles += self.ledger.take(RUN, lane, bundles=1000, max_files=500, max_bytes=1 << 40)
        bundles += self.ledger.take_unclaimed(RUN, 1000)
        return [
            claim
            for bundle in bundles
            for claim in asked.claim(RUN, bundle.number, bundle.paths, 1)
        ]

    def ferry(
        self,
        claims: Sequence[Claim] | None = None,
        *,
        ledger: Ledger | None = None,
        store: ObjectStore | None = None,
        proof: Proof = PROVEN,
        clock: Clock | None = None,
        permit: Permit | None = None,
        take: Take = without_limit,
        part_concurrency: Concurrency | None = None,
    ) -> dict[str, Result]:
        """Claim and ferry, with other ports where they are given."""
        part_threads = self.settings.worker.part_threads
        transfer = Transfer(
            ledger=ledger or self.ledger,
            store=store or self.store,
            clock=clock or SystemClock(),
            layout=self.layout,
            settings=self.settings,
            roots={RUN.instrument: self.root},
            worker="host:1",
            proof=proof,
            permit=permit or self.permit(ledger, store),
            take=take,
            counters=self.counters,
            concurrency=Concurrency(self.settings.worker.small_threads, 256),
            part_concurrency=part_concurrency or Concurrency(part_threads, part_threads),
            gate=ByteGate(self.settings.worker.max_bytes_in_flight),
        )
        results = transfer.ferry(RUN, self.claim(ledger) if claims is None else claims)
        by_path = {result.path: result for result in results}
        assert len(by_path) == len(results), "a file was told twice"
        return by_path

    def permit(
        self,
        ledger: Ledger | None = None,
        store: ObjectStore | None = None,
        *,
        host: str = HOST,
    ) -> Permit:
        """Ask for what may be done; what is met is told to the ledger that is given."""
        blame = Blame(store or self.store, self.layout, SystemClock())
        gate = Gate(self.ledger, self.settings, host)
        permit = ask_permit(gate, blame, RUN.instrument, gate.look())
        permit.gate = Gate(ledger or self.ledger, self.settings, host)
        return permit

    def ferried(self, *names: str, **options: Any) -> dict[str, Result]:
        """Settle and ferry these files."""
        self.settle(*names)
        return self.ferry(**options)

    def lapse(self) -> None:
        """End all leases, as when their holder died and the time is up: what the sweep would do."""
        for path, record in self._records(LEASED):
            self._server.zadd(RunKeys(RUN).leases, {path: 0})
            step = Step(path=path, token=record.token, delay_ms=0)
            assert self.ledger.move(RUN, Event.EXPIRE, [step]) == [Outcome.DONE]

    def make_due(self) -> None:
        """Let the wait of all parked files be over."""
        for path, _ in self._records({State.FAILED, State.HELD}):
            self._server.zadd(RunKeys(RUN).due, {path: 0}, xx=True)

    def finish(self, **options: Any) -> None:
        """Do what sweep, scan and workers do until every file is at rest."""

        def is_at_rest() -> bool:
            self.lapse()
            self.settle(*(path for path, _ in self._records({State.DISCOVERED})))
            if claims := self.claim():
                self.ferry(claims, **options)
            return not self._records(set(State) - AT_REST)

        eventually(is_at_rest)

    def _records(self, states: Collection[State]) -> list[tuple[str, FileRecord]]:
        return [found for found in self.ledger.records(RUN) if found[1].state in states]

    def key(self, name: str) -> str:
        return self.layout.raw(RUN.file(name))

    def record(self, name: str) -> FileRecord:
        found = self.ledger.find_record(RUN.file(name))
        assert found is not None
        return found

    def state(self, name: str) -> State:
        return self.record(name).state

    def codes(self, name: str) -> list[tuple[Event, str]]:
        """What stands in a file's history."""
        return [(note.event, note.code) for note in self.ledger.history(RUN.file(name))]

    def stored(self, name: str) -> bytes | None:
        """Return the object's bytes, or None."""
        if self.store.find_object(self.key(name)) is None:
            return None
        return b"".join(self.store.read(self.key(name)))


class Meddling:
    """Any port, but `action` happens at the nth call of a method, before it or after it."""

    def __init__(
        self,
        port: object,
        method: str,
        action: Callable[[], object],
        *,
        nth: int = 1,
        when: Literal["before", "after"] = "before",
    ) -> None:
        self._port = port
        self._method = method
        self._action = action
        self._calls_left = nth
        self._when = when
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        return self._meddled(attribute) if name == self._method else attribute

    def put_many(self, *args: Any) -> Any:
        """Go through `put_fast`, as whatever is done for one is done for many."""
        return put_many(self, *args)

    def _meddled(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def meddled(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self._calls_left -= 1
                is_due = self._calls_left == 0
            if is_due and self._when == "before":
                self._action()
            result = call(*args, **kwargs)
            if is_due and self._when == "after":
                self._action()
            return result

        return meddled

"""One laboratory in small for the model check: a ledger, a bucket, and labferry's own programs.

Whatever a program asks of a port can end it there, or let time and all others go on before it does.
"""

import contextlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from labferry.concurrency import Concurrency
from labferry.errors import LedgerUnavailable, Refused, StoreError
from labferry.identity import Layout, RunKey
from labferry.ports import Ledger, ObjectStore
from labferry.records import Bundle, Note, Outcome, Step
from labferry.selector import Selector
from labferry.settings import (
    MIB,
    BrokerSettings,
    InstrumentSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from labferry.settings_trouble import BreakerSettings, RetrySettings
from labferry.states import LEASED, Event
from ops.close import Closing
from ops.discard import discard_letters
from producer.agent import Agent
from tests.dock import PROVEN, fingerprint
from tests.ledger_world import ACT, EVIDENCE, SETTINGS, World
from tests.manual_clock import ManualClock
from tests.memory_ledger import MemoryLedger
from tests.memory_store import Breaking, Died, MemoryStore
from tests.recorded_wakeups import RecordedWakeups
from workers.advance import advance
from workers.blame import Blame
from workers.complete import Completer
from workers.counters import Counters
from workers.crew import ByteGate
from workers.gate import Gate
from workers.permit import Permit
from workers.reasons import Reasons
from workers.sweep import Sweep
from workers.transfer import Transfer

RUN = RunKey("scope", "run 1")
#: All waits are multiples of it, so that the milliseconds of a real server decide nothing.
UNIT_S = 30
#: Files of more than this go up in parts of it.
LARGE = MIB
Port = Literal["ledger", "store"]
When = Literal["before", "after"]


class Blow(NamedTuple):
    """What happens to a program: at its nth call of a port it ends, or is paused, or hears nothing.

    `nth` 0 is a program to which nothing happens.
    """

    port: Port = "ledger"
    nth: int = 0
    when: When = "before"
    kind: Literal["died", "paused", "unheard"] = "died"


NOTHING = Blow()
UNHEARD = {
    "ledger": LedgerUnavailable(url="redis://x", why="on purpose"),
    "store": StoreError(operation="PutObject", key="k", code="ReadTimeoutError"),
}


class Pausing:
    """Any port, but `pause` is called before its nth call."""

    def __init__(self, port: object, nth: int, pause: Callable[[], None]) -> None:
        self._port, self._left, self._pause = port, nth, pause

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._port, name)
        return self._paused(call) if callable(call) else call

    def _paused(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def paused(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self._pause()
            return call(*args, **kwargs)

        return paused


class Silent(Pausing):
    """Any port, but from its nth call on there are no answers."""

    def __init__(self, port: object, nth: int, error: Exception) -> None:
        def refuse() -> NoReturn:
            self._left = 1
            raise error

        super().__init__(port, nth, refuse)


class Once(MemoryStore):
    """A bucket that notices when data is written over: `overwritten` has the keys."""

    def __init__(self) -> None:
        super().__init__(min_part_bytes=1)
        self.overwritten: list[str] = []

    def put_document(self, key: str, body: bytes) -> None:
        if "quarantine/" not in key:
            self.overwritten.append(key)
        super().put_document(key, body)


def model_settings(root: Path) -> Settings:
    """Return settings with few threads and waits of whole units."""
    instrument = {
        "root": root,
        "settle_window_s": UNIT_S,
        "quiet_s": UNIT_S,
        "marker": "done.txt",
        "changing": ["*.log"],
    }
    return Settings.model_construct(
        store=StoreSettings(
            bucket="bucket", single_put_max_bytes=LARGE, part_size_bytes=5 * LARGE
        ).model_copy(update={"part_size_bytes": LARGE}),
        ledger=SETTINGS,
        broker=BrokerSettings(window_messages=4),
        retry=RetrySettings(
            attempts=3,
            floor_s=UNIT_S,
            base_s=UNIT_S,
            cap_s=UNIT_S,
            worker_losses=2,
            source_rounds=2,
            hold_s=2 * UNIT_S,
        ),
        worker=WorkerSettings(small_threads=1, part_threads=1),
        breakers=BreakerSettings(),
        instruments={RUN.instrument: InstrumentSettings.model_validate(instrument)},
    )


class Lab:
    """The programs on one ledger; nothing runs by itself."""

    def __init__(self, world: World, root: Path) -> None:
        self.world = world
        self.ledger = world.ledger
        self.root = root
        self.settings = model_settings(root)
        self.store = Once()
        self.layout = Layout()
        self.wakeups = RecordedWakeups()
        self._holder = self.ledger.register("host:1")
        #: Breakers and counters have tests of their own: here nothing is ever in the way.
        self._gate = Gate(MemoryLedger(), self.settings, "host")
        self._counters = Counters(MemoryLedger(), later=lambda _wait_s, _send: None)

    # -- the programs

    def scan(self, blow: Blow = NOTHING) -> str:
        """One pass of an agent."""
        return self._suffer(blow, self._scan)

    def sweep(self, blow: Blow = NOTHING) -> str:
        """One tick of a sweep."""
        return self._suffer(blow, self._sweep)

    def deliver(
        self, index: int, blow: Blow = NOTHING, *, of: str = "", again: bool = False
    ) -> str:
        """Give one of the messages to a worker, one that carries `of` where there is one; `again`
        leaves it on the queue as well."""
        waiting = sorted(self.wakeups.bundles, key=lambda one: (one.paths, one.tries, one.attempt))
        waiting = [one for one in waiting if of in one.paths] or waiting
        if not waiting:
            return "no message"
        bundle = waiting[index % len(waiting)]
        if not again:
            self.wakeups.bundles.remove(bundle)
        return self._suffer(blow, lambda *ports: self._upload(bundle, *ports))

    def complete(self, blow: Blow = NOTHING) -> str:
        """Let a worker complete the run, announced or not."""
        self.wakeups.completions.clear()
        return self._suffer(blow, self._complete)

    def tell(self) -> str:
        """Let a worker tell the bucket of dead letters."""
        self.wakeups.reasons_of.clear()
        reasons = Reasons(ledger=self.ledger, store=self.store, layout=self.layout)
        return f"{reasons.write(RUN)} told"

    def _scan(self, ledger: Ledger, _: object) -> str:
        agent = Agent(RUN.instrument, self.settings, ledger, self.wakeups, ManualClock())
        report = agent.make_pass(lambda: False)
        failures = [one.failure for one in report.runs if one.failure]
        assert not failures, failures
        return str(report.condition)

    def _sweep(self, ledger: Ledger, _: object) -> str:
        Sweep(
            ledger=ledger, wakeups=self.wakeups, clock=ManualClock(), settings=self.settings
        ).tick()
        return "swept"

    def _upload(self, bundle: Bundle, ledger: Ledger, store: ObjectStore) -> str:
        if ledger.find_hold(bundle.run):
            return "held"
        claims = ledger.claim(bundle.run, bundle.number, bundle.paths, self._holder)
        if not claims:
            return "dropped"
        clock = ManualClock()
        transfer = Transfer(
            ledger=ledger,
            store=store,
            clock=clock,
            layout=self.layout,
            settings=self.settings,
            roots={RUN.instrument: self.root},
            worker="host:1",
            proof=PROVEN,
            permit=Permit(self._gate, Blame(store, self.layout, clock), RUN.instrument),
            counters=self._counters,
            concurrency=Concurrency(1, 1),
            part_concurrency=Concurrency(1, 1),
            gate=ByteGate(self.settings.worker.max_bytes_in_flight),
        )
        results = transfer.ferry(bundle.run, claims)
        facts = ledger.find_facts(bundle.run)
        assert facts is not None
        advance(facts, ledger, self.wakeups, self.settings)
        return ", ".join(sorted(f"{one.path} {one.state}" for one in results))

    def _complete(self, ledger: Ledger, store: ObjectStore) -> str:
        completer = Completer(ledger=ledger, store=store, layout=self.layout, trusts_put=True)
        return f"complete: {completer.complete(RUN)}"

    def _suffer(self, blow: Blow, program: Callable[[Ledger, ObjectStore], str]) -> str:
        """Run a program whose ports do as the blow says; return what came of it."""
        ports: dict[str, Any] = {"ledger": self.ledger, "store": self.store}
        if blow.nth:
            ports[blow.port] = self._struck(blow, ports[blow.port])
        try:
            return program(ports["ledger"], ports["store"])
        except (Died, LedgerUnavailable, StoreError) as error:
            return type(error).__name__

    def _struck(self, blow: Blow, port: object) -> object:
        if blow.kind == "paused":
            return Pausing(port, blow.nth, self.go_on_without_it)
        if blow.kind == "unheard":
            return Silent(port, blow.nth, UNHEARD[blow.port])
        return Breaking(port, blow.nth, blow.when)

    def go_on_without_it(self) -> None:
        """Let a lease run out, and all others do what there is to do."""
        self.world.pass_ms(2 * UNIT_S * 1000)
        self.sweep()
        self.world.pass_ms(UNIT_S * 1000)
        self.sweep()
        for _ in range(len(self.wakeups.bundles)):
            self.deliver(0)
        self.complete()

    # -- operators

    def dead(self) -> list[str]:
        return sorted(one.path for one in self.ledger.dead_files(RUN))

    def send_again(self, index: int) -> str:
        """Replay a dead letter, as the command does: by way of a settling where it changed."""
        if not (dead := self.dead()):
            return "no letter"
        path = dead[index % len(dead)]
        record = self.world.record(path, RUN)
        source = self.root / RUN.run / path
        now = fingerprint(source) if source.is_file() else record.fingerprint
        event = Event.REPLAY if now.same_file(record.fingerprint) else Event.REVISE
        note = Note(event=event, kind="operator", code="replay", message="m", worker=ACT.actor)
        step = Step(path=path, fingerprint=None if event is Event.REPLAY else now, note=note)
        return f"{event} {path} {self.ledger.act(RUN, event, [step], ACT)}"

    def discard(self) -> str:
        """Give all dead letters up."""
        with contextlib.redirect_stdout(io.StringIO()):
            selector = Selector(run=RUN)
            code = discard_letters(
                self.ledger, selector, ACT, dry_run=False, yes=True, as_json=True
            )
        return str(code)

    def hold(self) -> str:
        self.ledger.hold(RUN, ACT)
        return "held"

    def release(self) -> str:
        self.ledger.release(RUN, ACT)
        return "released"

    def close(self) -> str:
        """Close the run, where the command would not wait for uploads."""
        facts = self.ledger.find_facts(RUN)
        if facts is None or any(facts.counts[state] for state in LEASED):
            return "not now"
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                Closing(self.ledger, str(RUN), ACT, as_json=True).run(dry_run=False, yes=True)
            except Refused as error:
                return str(error)
        return "closed"

    # -- ill luck

    def lose_messages(self) -> str:
        """Flush the broker."""
        self.wakeups.bundles.clear()
        self.wakeups.completions.clear()
        return "flushed"

    def steal(self, index: int) -> str:
        """Take an object of a file that is not in a marker yet out of the bucket."""
        keys = sorted(key for key in self.store.objects if key.startswith("raw/"))
        facts = self.ledger.find_facts(RUN)
        if not keys or facts is None or facts.completed:
            return "nothing to steal"
        del self.store.objects[keys[index % len(keys)]]
        return keys[index % len(keys)]

    def write_stale(self) -> Sequence[Outcome]:
        """Try every event of a holder under a token that is not the newest, on every file."""
        outcomes = list[Outcome]()
        for path, record in self.ledger.records(RUN):
            for event in (Event.VERIFY, Event.FAIL, Event.YIELD, Event.QUARANTINE, Event.ABANDON):
                evidence = record.evidence or EVIDENCE
                step = Step(path=path, token=record.token - 1, evidence=evidence, delay_ms=0)
                if record.token:
                    outcomes += self.ledger.move(RUN, event, [step])
        return outcomes

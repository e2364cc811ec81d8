"""What does a drill run on?

A site of its own: a Valkey, workers, agent and sweep, a folder of runs, and the facility's bucket
below a prefix that nothing else uses.
"""

import json
import os
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from labferry.broker import CeleryWakeups, make_app
from labferry.clock import SystemClock
from labferry.environment import adopt_environment, child_environment
from labferry.errors import LabferryError
from labferry.identity import Layout, RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.server import Server
from labferry.records import FileRecord, Lane, RunFacts
from labferry.s3.store import S3Store, open_store
from labferry.settings import MIB, Settings, StoreSettings, load_settings
from labferry.states import State
from ops.drill.door import Door
from ops.embedded import Valkey
from ops.interrupts import Interrupts
from ops.loopback import HOST
from ops.processes import Children
from ops.programs import AGENT, SWEEP, lane_worker
from ops.verify import Verification
from ops.verify_report import Verdict

INSTRUMENT = "drill"
PART = 5 * MIB
BUDGET = 3
#: The longest wait for anything, on a machine that does much else.
PATIENCE_S = 240.0
_LOOK_S = 0.1
_GRACE_S = 2.0

_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "ledger": {"lease_ttl_s": 15, "heartbeat_s": 1.5, "resend_s": 2, "sweep_interval_s": 0.3},
    "retry": {
        "attempts": BUDGET, "base_s": 0.2, "cap_s": 1, "floor_s": 0.1, "hold_s": 0.5,
    },
    "breakers": {
        "probe_s": 0.2, "probe_cap_s": 1, "ramp_s": 0.2, "recovery_s": 1, "share_look_s": 0.3,
    },
    "worker": {
        "small_processes": 1, "large_processes": 1, "part_threads": 1, "small_threads": 4,
        "max_bytes_in_flight": PART, "soft_shutdown_s": 1,
    },
    f"instruments.{INSTRUMENT}": {
        "settle_window_s": 0.5, "quiet_s": 1.5, "scan_interval_s": 0.4,
    },
}  # fmt: skip


class NotSeen(LabferryError):
    """Something that had to come did not come in time."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """The site of one drill; `store` is the real bucket, past the door."""

    folder: Path
    door: Door
    valkey: Valkey
    children: Children
    ledger: RedisLedger
    wakeups: CeleryWakeups
    store: S3Store
    layout: Layout
    clock: SystemClock = field(default_factory=SystemClock)

    def path(self, run: RunKey, name: str) -> Path:
        """Return where a file lies at the source."""
        return self.folder / "share" / run.run / name

    def write(self, run: RunKey, name: str, body: bytes) -> Path:
        """Write a file at the source."""
        path = self.path(run, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return path

    def key(self, run: RunKey, name: str) -> str:
        """Return the object key of a file."""
        return self.layout.raw(run.file(name))

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something is so; programs that ended are started again. Raises: NotSeen."""
        end_s = self.clock.mono_s() + PATIENCE_S
        while not condition():
            if self.clock.mono_s() > end_s:
                raise NotSeen(f"{what} did not come within {PATIENCE_S:g} s")
            self.children.tend()
            self.clock.sleep_s(_LOOK_S)

    def facts(self, run: RunKey) -> RunFacts | None:
        """Return what the ledger has of a run."""
        return self.ledger.find_facts(run)

    def record(self, run: RunKey, name: str) -> FileRecord | None:
        """Return what the ledger has of a file."""
        return self.ledger.find_record(run.file(name))

    def is_in(self, run: RunKey, name: str, state: State) -> bool:
        """Whether a file is in a state."""
        record = self.record(run, name)
        return record is not None and record.state is state

    def is_complete(self, run: RunKey) -> bool:
        """Whether a run's newest generation has its marker on record."""
        facts = self.facts(run)
        return facts is not None and facts.is_over

    def is_whole(self, run: RunKey) -> bool:
        """Whether the bucket alone proves a run, as `labferry verify` does."""
        report = Verification(
            store=self.store, layout=self.layout, run=run, clock=self.clock, budget_s=PATIENCE_S
        ).report()
        return report.verdict is Verdict.COMPLETE

    def content(self, run: RunKey, name: str) -> bytes | None:
        """Return what the bucket holds of a file."""
        key = self.key(run, name)
        return b"".join(self.store.read(key)) if self.store.find_object(key) else None

    def broker(self) -> Server:
        """Return the server that messages wait on."""
        return Server(self.valkey.url(0))

    def kill_large_worker(self) -> None:
        """Kill the worker of large files, and all its processes, at once."""
        os.killpg(self.children.pid(f"worker-{Lane.LARGE}"), signal.SIGKILL)


@contextmanager
def open_stage(settings: Settings) -> Iterator[Stage]:
    """Set a site up, and put it away; the bucket is left to `clean`.

    Raises: ServiceFailed, StoreError, Interrupted.
    """
    with Interrupts() as interrupts, ExitStack() as put_away, interrupts.allowed():
        folder = Path(put_away.enter_context(tempfile.TemporaryDirectory(prefix="labferry-drill-")))
        valkey = Valkey(folder / "valkey")
        valkey.guard = interrupts.postponed
        put_away.callback(valkey.stop, 0)
        valkey.start()
        prefix = f"drill-{secrets.token_hex(6)}"
        base = settings.store.prefix
        own = settings.store.model_copy(update={"prefix": f"{base}/{prefix}" if base else prefix})
        door = put_away.enter_context(Door(own))
        yield _fill(folder, own, door, valkey, interrupts, put_away)


def _fill(
    folder: Path,
    store: StoreSettings,
    door: Door,
    valkey: Valkey,
    interrupts: Interrupts,
    put_away: ExitStack,
) -> Stage:
    config = folder / "labferry.toml"
    config.write_text(_toml(folder, store, door, valkey), "utf-8")
    unwanted = ("LABFERRY_", "FLOWER_", "CELERY")
    environment = dict(child_environment(config, {"TMPDIR": str(folder)}, without=unwanted))
    for name in ("NO_PROXY", "no_proxy"):
        before = environment.get(name)
        environment[name] = f"{before},{HOST}" if before else HOST
    adopt_environment(environment)
    (folder / "share").mkdir()
    (folder / "logs").mkdir()
    settings, clock = load_settings(), SystemClock()
    children = Children(
        child_environment(None), interrupts, clock, folder / "logs", orphan_signal=signal.SIGKILL
    )
    put_away.callback(children.stop, _GRACE_S)
    for lane in Lane:
        children.start(lane_worker(settings.worker, lane, [INSTRUMENT]))
    for program in (AGENT, SWEEP):
        children.start(program)
    return Stage(
        folder=folder,
        door=door,
        valkey=valkey,
        children=children,
        ledger=open_ledger(settings.ledger),
        wakeups=CeleryWakeups(make_app(settings)),
        store=open_store(store),
        layout=Layout(store.prefix),
    )


def _toml(folder: Path, store: StoreSettings, door: Door, valkey: Valkey) -> str:
    behind = {"endpoint_url": door.url, "single_put_max_bytes": MIB, "part_size_bytes": PART}
    given: Mapping[str, Mapping[str, object]] = {
        "store": {**store.model_dump(mode="json", exclude_none=True), **behind},
        "broker": {"url": valkey.url(0)},
        "ledger": {"url": valkey.url(1)},
        f"instruments.{INSTRUMENT}": {"root": str(folder / "share")},
    }
    lines = []
    for name in {**given, **_SETTINGS}:
        fields = {**given.get(name, {}), **_SETTINGS.get(name, {})}
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
    return "\n".join(lines) + "\n"


def clean(stage: Stage) -> int:
    """Stop all programs and remove what is in the bucket; return how many objects stay.

    Raises: StoreError.
    """
    stage.children.stop(_GRACE_S)
    prefix, left = f"{stage.layout.prefix}/", -1
    while True:
        keys = [one.key for one in stage.store.list_objects(prefix)]
        if len(keys) in {0, left}:  # an older version may come to light
            break
        left = len(keys)
        for key in keys:
            _remove(stage.store, key)
    for key, upload_id in stage.store.list_uploads(prefix):
        stage.store.abort_upload(key, upload_id)
    return len(keys)


def _remove(store: S3Store, key: str) -> None:
    try:
        if found := store.find_object(key):
            store.delete(key, found.version_id)
    except LabferryError:
        return  # it is counted among what stays

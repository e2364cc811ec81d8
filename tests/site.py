"""A whole site for tests: settings, servers, and real labferry processes that can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.config import Config

from labferry.identity import Layout, RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.keys import RunKeys
from labferry.settings import LedgerSettings, StoreSettings
from labferry.states import LEASED, State
from ops.embedded import Valkey
from tests.services import BROKER_DATABASE, LEDGER_DATABASE
from tests.waiting import PATIENCE_S, is_gone

#: Settings by section, as a test lays them over those of its site.
Changes = Mapping[str, Mapping[str, object]]

#: Short times, so that a test waits for what happens and not for the clock.
QUICK: dict[str, dict[str, object]] = {
    # No lease runs out because the machine is slow; where a worker dies, a test ends it: `lapse`.
    "ledger": {"resend_s": 2, "sweep_interval_s": 0.3, "lease_ttl_s": 3600, "heartbeat_s": 1.5},
    "broker": {},
    "retry": {"base_s": 0.3, "cap_s": 2, "floor_s": 0.1, "hold_s": 1},
    "worker": {"small_processes": 1, "large_processes": 1, "soft_shutdown_s": 2},
    "breakers": {
        "probe_s": 0.2,
        "probe_cap_s": 1,
        "ramp_s": 0.2,
        "recovery_s": 1,
        "share_look_s": 0.3,
    },
    "alerts": {"gather_s": 0},
}
_ALERTS = "alerts.jsonl"
_KEEPS = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read() + b'\\n')"
#: Laid over every instrument of a test.
QUICK_INSTRUMENT = {"settle_window_s": 0.5, "quiet_s": 1, "scan_interval_s": 0.5}


class Site:
    """One labferry installation below a temporary folder."""

    def __init__(
        self,
        folder: Path,
        valkey: Valkey,
        store: StoreSettings,
        roots: Mapping[str, Path],
        changes: Changes | None = None,
    ) -> None:
        self.folder = folder
        self.config = folder / "labferry.toml"
        self.store_settings = store
        self.layout = Layout(store.prefix)
        self.roots = roots
        ledger = {"url": valkey.url(LEDGER_DATABASE), **QUICK["ledger"]}
        sections: dict[str, dict[str, object]] = {
            **QUICK,
            "ledger": ledger,
            "broker": {"url": valkey.url(BROKER_DATABASE)},
            "store": store.model_dump(exclude_none=True),
            **{f"instruments.{name}": {"root": str(root)} for name, root in roots.items()},
        }
        for name in roots:
            sections[f"instruments.{name}"] |= QUICK_INSTRUMENT
        for section, fields in (changes or {}).items():
            sections[section] = {**sections.get(section, {}), **fields}
        self.config.write_text(_toml(sections), "utf-8")
        self.ledger: RedisLedger = open_ledger(LedgerSettings(url=valkey.url(LEDGER_DATABASE)))
        self.broker = open_ledger(LedgerSettings(url=valkey.url(BROKER_DATABASE)))._server.client
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every process of the site."""
        return {**os.environ, "LABFERRY_CONFIG": str(self.config)}

    def start(self, *command: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a labferry command, with more variables in its environment; its output goes to a
        file in the folder."""
        number = len(self.processes)
        with (self.folder / f"{number}-{command[0]}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ops.cli", *command],
                env={**self.environment, **variables},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def run(self, *command: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run a labferry command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "ops.cli", *command],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so. Fails with what the processes logged."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} was not so within {PATIENCE_S} s\n{self.report()}")
            time.sleep(0.1)

    def complete(self) -> bool:
        """Whether every run on record has its marker, and there is one."""
        runs = self.ledger.runs()
        over = [one for one in self.ledger.facts_of(runs) if one.is_over]
        return 0 < len(runs) == len(over)

    def verified(self, run: RunKey) -> int:
        """Return how many files of a run are verified by now."""
        facts = self.ledger.find_facts(run)
        return facts.counts[State.VERIFIED] if facts else 0

    def lapse(self) -> None:
        """End the leases of processes that are gone, as when their time is up."""
        for facts in self.ledger.facts_of(self.ledger.runs()):
            if not any(facts.counts[state] for state in LEASED):
                continue
            for path, record in self.ledger.records(facts.run):
                if record.state in LEASED and is_gone(self._pid(record.holder)):
                    self.ledger._server.client.zadd(RunKeys(facts.run).leases, {path: 0}, xx=True)

    def _pid(self, holder: int) -> int:
        return int(self.ledger.worker_name(holder).rpartition(":")[2])

    def outlives(self) -> bool:
        """Whether every run is complete, in spite of those who died."""
        self.lapse()
        return self.complete()

    def report(self) -> str:
        """Return what is known, for a failure's message."""
        lines = []
        for run in self.ledger.runs():
            facts = self.ledger.find_facts(run)
            assert facts is not None
            counts = {str(state): count for state, count in facts.counts.items() if count}
            lines.append(f"{run}: sealed {facts.sealed_ms} completed {facts.completed} {counts}")
        for path in sorted(self.folder.glob("*.log")):
            lines += [f"--- {path.name}", path.read_text("utf-8", "replace")[-3000:]]
        return "\n".join(lines)

    def client(self) -> Any:
        """Return an S3 client on the site's bucket."""
        return boto3.client(
            "s3",
            endpoint_url=self.store_settings.endpoint_url,
            region_name=self.store_settings.region,
            config=Config(s3={"addressing_style": "path"}, max_pool_connections=16),
        )

    def objects(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return what the bucket lists below a prefix, by key."""
        pages = (
            self.client()
            .get_paginator("list_objects_v2")
            .paginate(Bucket=self.store_settings.bucket, Prefix=prefix)
        )
        return {one["Key"]: one for page in pages for one in page.get("Contents", [])}

    def body(self, client: Any, key: str) -> bytes:
        """Return an object's bytes."""
        answer = client.get_object(Bucket=self.store_settings.bucket, Key=key)
        content: bytes = answer["Body"].read()
        return content

    def told(self) -> list[dict[str, Any]]:
        """Return the alerts that the command of `alerts_kept` was given."""
        path = self.folder / _ALERTS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def stop(self) -> None:
        """Kill every process of the site, with all they started."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM) if process.poll() is None else None
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def kill_host(worker: subprocess.Popen[bytes]) -> set[int]:
    """Kill a worker with all it started; return their process ids."""
    family = [*psutil.Process(worker.pid).children(recursive=True), psutil.Process(worker.pid)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none sees another one die
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)
    worker.wait()
    return {one.pid for one in family}


def alerts_kept(folder: Path) -> dict[str, object]:
    """Return settings of alerts that give them to a command, which keeps them in the folder."""
    return {"command": [sys.executable, "-c", _KEEPS, str(folder / _ALERTS)]}


@contextmanager
def open_site(
    folder: Path,
    valkey: Valkey,
    store: StoreSettings,
    roots: Mapping[str, Path],
    changes: Changes | None = None,
) -> Iterator[Site]:
    """Open a site and stop all its processes at the end."""
    site = Site(folder, valkey, store, roots, changes)
    try:
        yield site
    finally:
        site.stop()


def _toml(sections: Mapping[str, Mapping[str, object]]) -> str:
    lines = []
    for section, fields in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {_value(value)}" for name, value in fields.items()]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return json.dumps(value)
    return f'"{value}"' if isinstance(value, str) else str(value).lower()

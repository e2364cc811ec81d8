"""What do more worker hosts bring, and what does it cost when they die? `python -m
benchmarks.scaling`.

Each host is a `labferry worker` in namespaces of its own (benchmarks/hosts.py). The bucket is far
away and takes so many requests at a time (benchmarks/far_endpoint.py): on a few cores, hosts that
compute would only take them from each other. A run is ferried by each number of hosts, then again
while hosts are killed at random and started anew. After each, every file is looked for: one object
version of it, one Put accepted, one marker. Behind the proxy is SeaweedFS, its bucket versioned.
"""

import argparse
import json
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import redis

from benchmarks.accounted import Held, Leases, held_by, leases, wrong
from benchmarks.far_endpoint import FarEndpoint
from benchmarks.ferry import INSTRUMENT
from benchmarks.hosts import Host, Network, network
from benchmarks.loads import KIB, make_files
from benchmarks.programs import environment_of, programs
from benchmarks.rate import Rate
from benchmarks.servers import Endpoint, running
from benchmarks.tables import markdown
from labferry.broker import make_app
from labferry.identity import Layout, RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.settings import LedgerSettings, load_settings
from labferry.states import State
from ops.embedded import Valkey

RESULTS = Path(__file__).parent / "results" / "scaling.json"
SIZE = 4 * KIB
WARM_FILES = 48
POLL_S = 0.05
TIMEOUT_S = 600
LEASE_S, SWEEP_S = 6, 0.5

SETTINGS = """\
[store]
bucket = "{bucket}"
endpoint_url = "{url}"
[ledger]
url = "{ledger}"
lease_ttl_s = {lease_s}
heartbeat_s = 1.5
sweep_interval_s = {sweep_s}
resend_s = 5
[broker]
url = "{broker}"
bundle_max_files = 8
window_messages = 32
[worker]
small_processes = 1
small_threads = 8
small_threads_most = 8
[instruments.bench]
root = "{root}"
quiet_s = 0
settle_window_s = 0
scan_interval_s = 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run showed."""

    hosts: int
    kills: int
    files_per_s: float
    all_s: float
    leases: Leases
    wrong: Mapping[str, int]


@dataclass(slots=True)
class Fleet:
    """Hosts at work, how many were killed, and when each lease lost its holder."""

    hosts: list[Host]
    kills: int = 0
    killed_ms: dict[Held, float] = field(default_factory=dict)

    def strike(self, dice: random.Random, ledger: RedisLedger, run: RunKey) -> None:
        """Kill a host and put a new one in its place."""
        host, at_ms = dice.choice(self.hosts), time.time() * 1000
        host.kill()
        self.kills += 1
        for lease in held_by(ledger, run, host.name):
            self.killed_ms.setdefault(lease, at_ms)  # a host before it may have left it
        host.start()


@dataclass(frozen=True, slots=True)
class Lab:
    """The servers, agent and sweep that all hosts share."""

    scratch: Path
    settings: Path
    to: Endpoint
    far: FarEndpoint
    ledger: RedisLedger
    bridge: Network


def main() -> None:
    """Measure, print, and write RESULTS; exit 1 if anything was lost or came twice."""
    asked = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces would stay behind
    print(f"seed {asked.seed}; {asked.delay_s} s a request, {asked.slots} requests at a time")
    scratch = Path(tempfile.mkdtemp(prefix="labferry-scale-", dir=asked.scratch))
    outcomes = []
    try:
        for life_s in (0.0, asked.life_s):
            for count in asked.hosts:
                with _lab(scratch / f"{count}-{life_s}", asked) as lab:
                    outcomes.append(_outcome(lab, count, life_s, asked))
                print(outcomes[-1], flush=True)
    finally:
        shutil.rmtree(scratch)
    setup = {name: getattr(asked, name) for name in ("seed", "files", "delay_s", "slots", "life_s")}
    result = {**setup, "lease_s": LEASE_S, "rows": [asdict(one) for one in outcomes]}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(_table(outcomes), end="")
    if any(one.wrong for one in outcomes):
        raise SystemExit("files were lost, or came twice")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--files", type=int, default=1600, help="files of the run")
    parser.add_argument("--delay-s", type=float, default=0.25, help="what a request takes")
    parser.add_argument("--slots", type=int, default=32, help="requests that are served at a time")
    parser.add_argument("--life-s", type=float, default=30, help="mean time until a host is killed")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--scratch", type=Path, help="where to put files and servers")
    return parser


@contextmanager
def _lab(scratch: Path, asked: argparse.Namespace) -> Iterator[Lab]:
    with ExitStack() as stack:
        bridge = stack.enter_context(network())
        (scratch / "root").mkdir(parents=True)
        to = stack.enter_context(running("seaweedfs", scratch / "server"))
        to.client().put_bucket_versioning(
            Bucket=to.bucket, VersioningConfiguration={"Status": "Enabled"}
        )
        valkey = stack.enter_context(Valkey(scratch / "valkey"))
        far = stack.enter_context(
            FarEndpoint(to.url, bridge.address, delay_s=asked.delay_s, slots=asked.slots)
        )
        address = f"redis://{bridge.address}:{valkey.port}"
        settings = scratch / "labferry.toml"
        facts = {"bucket": to.bucket, "url": far.url, "root": scratch / "root"}
        facts |= {"ledger": f"{address}/1", "broker": f"{address}/0"}
        settings.write_text(SETTINGS.format(**facts, lease_s=LEASE_S, sweep_s=SWEEP_S))
        ledger = open_ledger(LedgerSettings(url=valkey.url(1)))
        with redis.Redis.from_url(valkey.url()) as server:
            server.config_set("bind", f"127.0.0.1 {bridge.address}")
            server.config_set("protected-mode", "no")
        stack.enter_context(programs(settings, to, scratch, names=("agent", "sweep")))
        yield Lab(scratch, settings, to, far, ledger, bridge)


def _outcome(lab: Lab, count: int, life_s: float, asked: argparse.Namespace) -> Outcome:
    run, dice = RunKey(INSTRUMENT, "run"), random.Random(f"{asked.seed} {count}")
    make_files(lab.scratch / "run", (SIZE,) * asked.files)
    with _fleet(lab, count) as fleet:
        _warm(lab, WARM_FILES * count)
        began_s = time.monotonic()
        (lab.scratch / "run").rename(lab.scratch / "root" / "run")
        rate = Rate(asked.files)
        next_s = began_s + dice.expovariate(count / life_s) if life_s else float("inf")
        while not _is_complete(lab, run):
            rate.look(_verified(lab, run))
            if time.monotonic() > next_s and rate.is_between:
                fleet.strike(dice, lab.ledger, run)
                next_s = time.monotonic() + dice.expovariate(count / life_s)
            _check_time(began_s, "the run complete")
            time.sleep(POLL_S)
        all_s = time.monotonic() - began_s
    place = (lab.to.bucket, Layout())
    return Outcome(
        hosts=count,
        kills=fleet.kills,
        files_per_s=rate.per_s,
        all_s=all_s,
        leases=leases(lab.ledger, run, fleet.killed_ms),
        wrong=wrong(lab.ledger, lab.to.client(), place, run, asked.files, lab.far.accepted),
    )


@contextmanager
def _fleet(lab: Lab, count: int) -> Iterator[Fleet]:
    environment = environment_of(lab.settings, lab.to)
    fleet = Fleet([])
    with ExitStack() as stack:
        for number in range(1, count + 1):
            host = Host(number, lab.bridge, environment, lab.scratch / f"host{number}.log")
            stack.callback(host.kill)
            fleet.hosts.append(host.start())
        app = make_app(load_settings(lab.settings))
        _until(lambda: len(app.control.ping(timeout=1) or []) >= count, "all hosts answering")
        yield fleet


def _warm(lab: Lab, files: int) -> None:
    make_files(lab.scratch / "warm", (SIZE,) * files)
    (lab.scratch / "warm").rename(lab.scratch / "root" / "warm")
    warm = RunKey(INSTRUMENT, "warm")
    _until(lambda: _verified(lab, warm) == files, "the first files verified")


def _verified(lab: Lab, run: RunKey) -> int:
    facts = lab.ledger.find_facts(run)
    return facts.counts[State.VERIFIED] if facts else 0


def _is_complete(lab: Lab, run: RunKey) -> bool:
    facts = lab.ledger.find_facts(run)
    return facts is not None and facts.is_over


def _until(condition: Callable[[], bool], what: str) -> None:
    began_s = time.monotonic()
    while not condition():
        _check_time(began_s, what)
        time.sleep(POLL_S)


def _check_time(began_s: float, what: str) -> None:
    if time.monotonic() > began_s + TIMEOUT_S:
        raise SystemExit(f"{what}: not within {TIMEOUT_S} s")


def _table(outcomes: Sequence[Outcome]) -> str:
    heads: tuple[str, ...] = (
        "hosts",
        "kills",
        "files/s",
        "of one host",
        "all, s",
        "leases of dead hosts",
    )
    heads += ("over after, median (most)", "verified after, most", "wrong")
    return markdown(heads, [_cells(one, outcomes[0]) for one in outcomes])


def _cells(one: Outcome, first: Outcome) -> tuple[str, ...]:
    found = one.leases
    return (
        str(one.hosts),
        str(one.kills),
        f"{one.files_per_s:.0f}",
        f"{one.files_per_s / first.files_per_s:.1f}",
        f"{one.all_s:.0f}",
        str(found.of_dead) + (f" (+{found.of_living} of living)" if found.of_living else ""),
        f"{found.over_median_s:.1f} s ({found.over_most_s:.1f} s)" if found.of_dead else "",
        f"{found.verified_most_s:.1f} s" if found.of_dead else "",
        ", ".join(f"{count} {what}" for what, count in one.wrong.items()) or "nothing",
    )


if __name__ == "__main__":
    main()

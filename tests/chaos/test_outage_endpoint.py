"""An endpoint that is away for two hours, under load, with real workers: nothing is lost, nobody is
needed.

Times are those of the defaults divided by 400: two hours are 18 s, the longest wait between probes
0.75 s instead of 300 s, a day's budget 216 s.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labferry.breakers import Phase
from labferry.failures import Cause
from labferry.identity import RunKey
from labferry.ledger import RedisLedger
from labferry.s3.store import open_store
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey, Weed
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, Hang, rule
from tests.site import Changes, Site, open_site

MIB = 1024 * 1024
HOURS_2_S = 18.0
CHANGES: Changes = {
    "breakers": {"probe_s": 0.025, "probe_cap_s": 0.75, "ramp_s": 0.05},
    "retry": {"base_s": 0.005, "floor_s": 0.001, "cap_s": 1.5, "elapsed_s": 216, "hold_s": 0.1},
    "worker": {
        "small_processes": 2,
        "large_processes": 1,
        "small_threads": 4,
        "small_threads_most": 4,
        "soft_shutdown_s": 1,
    },
    "ledger": {"sweep_interval_s": 0.1, "resend_s": 10},
    "broker": {"window_messages": 32},
}
#: So many uploads of small files may be in flight when the endpoint goes, some calls each.
IN_FLIGHT = 16
Shut = Callable[[FaultProxy], None]


@pytest.fixture
def proxy(weed: Weed) -> Iterator[FaultProxy]:
    with FaultProxy(weed.endpoint) as running:
        yield running


@pytest.fixture
def site(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    ledger_url: str,
    broker_url: str,
    proxy: FaultProxy,
    kind: str,
) -> Iterator[Site]:
    """Two instruments, whose store is the proxy; nothing runs yet."""
    roots = {name: tmp_path / name for name in ("seq", "scope")}
    for root in roots.values():
        (root / "run").mkdir(parents=True)
    store = store_settings.model_copy(
        update={
            "endpoint_url": proxy.url,
            "single_put_max_bytes": MIB,
            "part_size_bytes": 5 * MIB,
            "read_timeout_s": 5 if kind == "silent" else 60,
            "complete_timeout_s": 2,
        }
    )
    with open_site(tmp_path, valkey, store, roots, CHANGES) as opened:
        yield opened


class Load:
    """Writes files into all runs, again and again, until it is stopped."""

    def __init__(self, roots: list[Path]) -> None:
        self._roots = roots
        self.count = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stopped.wait(0.5):
            for root in self._roots:
                for _ in range(3):
                    (root / "run" / f"{self.count:06}.txt").write_bytes(os.urandom(2000))
                    self.count += 1


def count(site: Site, state: State) -> int:
    found = [site.ledger.find_facts(run) for run in site.ledger.runs()]
    return sum(facts.counts[state] for facts in found if facts)


def notes(ledger: RedisLedger) -> int:
    """How many lines there are in the histories of all files."""
    return sum(
        len(ledger.history(run.file(path)))
        for run in ledger.runs()
        for path, _ in ledger.records(run)
    )


def is_open(site: Site) -> bool:
    return any(
        one.cause is Cause.ENDPOINT and one.phase in (Phase.OPEN, Phase.PROBING)
        for one in site.ledger.conditions().breakers
    )


OUTAGES: dict[str, Shut] = {
    "refused": lambda proxy: proxy.refuse(),
    "unavailable": lambda proxy: proxy.script(rule(Answer(503, "ServiceUnavailable"))),
    "silent": lambda proxy: proxy.script(rule(Hang())),
}


@pytest.mark.parametrize(
    ("kind", "lasts_s"), [("refused", HOURS_2_S), ("unavailable", HOURS_2_S / 3), ("silent", 12)]
)
def test_two_hours_without_the_endpoint_under_load(
    site: Site, proxy: FaultProxy, store_settings: StoreSettings, kind: str, lasts_s: float
) -> None:
    (site.roots["seq"] / "run" / "large.raw").write_bytes(os.urandom(30 * MIB))
    site.start("worker")
    site.start("worker")
    site.start("agent")
    with Load(list(site.roots.values())) as load:
        site.until(lambda: count(site, State.VERIFIED) > 20, "some files verified")

        OUTAGES[kind](proxy)
        site.until(lambda: is_open(site), "the breaker open")
        calls, lines = len(proxy.log), notes(site.ledger)
        verified, written = count(site, State.VERIFIED), load.count
        time.sleep(lasts_s)  # the outage itself is the event
        site.until(lambda: load.count > written + 3 * lasts_s, "it was under load")
        assert is_open(site)
        asked = len(proxy.log) - calls
        (breaker,) = [b for b in site.ledger.conditions().breakers if b.cause is Cause.ENDPOINT]
        lasted_s = (breaker.at_ms - breaker.since_ms) / 1000
        assert breaker.opened == 1
        stored = open_store(store_settings).list_objects(f"{store_settings.prefix}/raw/")
        assert count(site, State.VERIFIED) <= len(list(stored))
        assert count(site, State.QUARANTINED) == 0
        # A few calls a probe, however many files and workers wait; and what was in flight.
        assert asked <= 6 * (breaker.probes + IN_FLIGHT), proxy.operations
        assert breaker.probes <= lasted_s / 0.7 + 8
        assert notes(site.ledger) - lines <= 4 * IN_FLIGHT

        behind = load.count
    proxy.script()
    if kind == "refused":
        proxy.accept()
    began_s = time.monotonic()
    site.until(lambda: count(site, State.VERIFIED) > behind, "all that waited verified")
    took_s = time.monotonic() - began_s
    print(
        f"{kind}: {breaker.probes} probes and {asked} calls in {lasts_s} s; "
        f"{behind - verified} files were behind and verified {took_s:.1f} s after it"
    )
    site.until(site.complete, "both runs complete")
    assert count(site, State.QUARANTINED) == count(site, State.DISCARDED) == 0
    assert [one.key.partition(":")[0] for one in site.ledger.alerts()] == ["breaker"]
    large = site.ledger.find_record(RunKey("seq", "run").file("large.raw"))
    assert large is not None
    assert (large.state, large.lost) == (State.VERIFIED, 0)

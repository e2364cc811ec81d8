"""Do hosts that die at random, all at once and without a word, cost anything but time?

The same with namespaces, and at length: benchmarks/scaling.py.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

from benchmarks.accounted import Held, leases, wrong
from labferry.identity import RunKey
from labferry.settings import StoreSettings
from labferry.states import LEASED
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Delay, rule
from tests.quay import PUT
from tests.site import Changes, Site, kill_host, open_site

RUN = RunKey("scope", "run 1")
FILES, HOSTS, KILLS = 90, 2, 3
LEASE_S, SWEEP_S = 3, 0.2
#: A sweep that waits for its turn on a busy machine; far below the minutes of a forgotten lease.
LATE_S = 120


def held_by(site: Site, pids: set[int]) -> list[Held]:
    """Return the leases of dead processes."""

    def pid(holder: int) -> int:
        return int(site.ledger.worker_name(holder).rpartition(":")[2])

    records = site.ledger.records(RUN)
    return [
        Held(path, one.token)
        for path, one in records
        if one.state in LEASED and pid(one.holder) in pids
    ]


def test_hosts_that_are_killed_at_random_lose_nothing_and_send_nothing_twice(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    ledger_url: str,
    broker_url: str,
) -> None:
    seed = int(os.environ.get("LABFERRY_SEED", "1125"))
    print(f"LABFERRY_SEED={seed}")
    dice = random.Random(seed)
    folder = tmp_path / "share" / RUN.run
    folder.mkdir(parents=True)
    for number in range(FILES):
        (folder / f"{number}").write_bytes(b"x" * 1000)
    changes: Changes = {
        "ledger": {"lease_ttl_s": LEASE_S, "heartbeat_s": 0.9, "resend_s": 1},
        "broker": {"bundle_max_files": 4, "window_messages": 16},
        "retry": {"worker_losses": 100},
        "worker": {"small_processes": 1, "small_threads": 2, "small_threads_most": 2},
    }
    store = store_settings.model_copy(update={"endpoint_url": fault_proxy.url})
    fault_proxy.script(rule(Delay(0.3), on=PUT, key="*/raw/*"))
    killed_ms: dict[Held, float] = {}
    with open_site(tmp_path, valkey, store, {"scope": tmp_path / "share"}, changes) as site:
        site.start("sweep")
        site.start("agent")
        worker = ("worker", "--lane", "small", "--no-sweep")
        hosts = [site.start(*worker) for _ in range(HOSTS)]
        for number in range(1, KILLS + 1):
            due = dice.randrange(5, 15) + FILES * (number - 1) // (KILLS + 1)
            site.until(lambda n=due: site.verified(RUN) >= n, f"{due} files verified")  # type: ignore[misc]
            host = hosts.pop(dice.randrange(len(hosts)))
            at_ms = time.time() * 1000
            for lease in held_by(site, kill_host(host)):
                killed_ms.setdefault(lease, at_ms)
            hosts.append(site.start(*worker))
        site.until(site.complete, "the run complete")
        accepted = Counter(one.key for one in fault_proxy.asked(PUT) if 200 in one.upstream)
        place = (store.bucket, site.layout)
        assert wrong(site.ledger, site.client(), place, RUN, FILES, accepted) == {}
        found = leases(site.ledger, RUN, killed_ms)
        print(KILLS, "hosts killed,", found)
        assert found.of_dead == len(killed_ms)
        assert found.over_most_s <= LEASE_S + LATE_S

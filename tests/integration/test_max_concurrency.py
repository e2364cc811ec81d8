"""Do real workers, of several hosts, keep an instrument within its cap, and nobody else?

Counted at the proxy, files of which the object is being put, and not answered yet; and at the
ledger, files under a lease.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from labferry.identity import RunKey
from labferry.settings import StoreSettings
from labferry.states import LEASED
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Exchange, Fault, rule
from tests.quay import PUT, behind
from tests.site import Site, open_site

CAP = 2
FILES = 30
CAPPED, FREE, LATER = RunKey("seq", "r1"), RunKey("scope", "r1"), RunKey("scope", "r2")
#: Small, so that a backlog rides in bundles: of the instrument without a cap in one of all files.
WINDOW = 4
#: Far beyond any wait below: nothing ends by it.
NEVER_S = 3600
_TICK_S = 0.02


@dataclass
class Flights(Fault):
    """Puts that stay in the air until they may land, counted by instrument."""

    lands: set[str] = field(default_factory=set)
    now: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)

    async def play(self, exchange: Exchange) -> None:
        """Hold one Put; that it landed is counted before the worker hears of it."""
        request = await exchange.read_body()
        name = request.key.partition("raw/")[2].partition("/")[0]
        self.now[name] += 1
        self.most[name] = max(self.most[name], self.now[name])
        while name not in self.lands:
            await asyncio.sleep(_TICK_S)
        reply = await exchange.forward()
        self.now[name] -= 1
        await exchange.answer(reply)


@pytest.fixture
def flights() -> Flights:
    return Flights()


@pytest.fixture
def site(
    tmp_path: Path,
    valkey: Valkey,
    ledger_url: str,
    broker_url: str,
    store_settings: StoreSettings,
    flights: Flights,
) -> Iterator[Site]:
    """Two workers, and two instruments with a run each; one has a cap."""
    roots = {run.instrument: tmp_path / run.instrument for run in (CAPPED, FREE)}
    for run in (CAPPED, FREE):
        write(roots[run.instrument] / run.run)
    changes = {
        "ledger": {"lease_ttl_s": NEVER_S, "heartbeat_s": 1, "resend_s": 1},
        "broker": {"window_messages": WINDOW},
        "worker": {"small_processes": 2, "large_processes": 1, "soft_shutdown_s": 0},
        f"instruments.{CAPPED.instrument}": {"max_concurrency": CAP},
    }
    assert store_settings.endpoint_url
    with FaultProxy(store_settings.endpoint_url) as proxy:
        proxy.script(rule(flights, on=PUT, key="*raw/*/f*"))
        store = behind(proxy, store_settings)
        store = store.model_copy(update={"read_timeout_s": NEVER_S, "connect_timeout_s": 60})
        with open_site(tmp_path, valkey, store, roots, changes) as opened:
            yield opened


def test_an_instrument_keeps_to_its_cap_while_another_uses_more(
    site: Site, flights: Flights
) -> None:
    site.start("agent")
    site.start("worker")
    site.start("worker")

    def within_cap() -> bool:
        assert flights.most[CAPPED.instrument] <= CAP, "more files are in flight than the cap"
        assert leased(site, CAPPED) <= CAP, "more files are leased than the cap"
        return True

    # All that is in the air stays there: whatever could be beside it has come as well.
    site.until(
        lambda: (
            within_cap()
            and flights.now[CAPPED.instrument] == CAP
            and flights.now[FREE.instrument] > CAP
        ),
        "the cap is used, and the other instrument uses more",
    )
    flights.lands.add(FREE.instrument)
    site.until(lambda: within_cap() and has_marker(site, FREE), "the other one is complete")
    # Workers take messages of all instruments in turn: with those of this run any others come.
    write(site.roots[LATER.instrument] / LATER.run)
    site.until(lambda: within_cap() and has_marker(site, LATER), "its later run is complete")
    assert flights.now[CAPPED.instrument] == CAP
    assert site.verified(CAPPED) == 0
    flights.lands.add(CAPPED.instrument)
    site.until(lambda: within_cap() and site.complete(), "all runs are complete")
    assert site.verified(CAPPED) == site.verified(FREE) == FILES


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(FILES):
        (folder / f"f{number:02}").write_bytes(b"bytes")


def leased(site: Site, run: RunKey) -> int:
    facts = site.ledger.find_facts(run)
    return sum(facts.counts[state] for state in LEASED) if facts else 0


def has_marker(site: Site, run: RunKey) -> bool:
    facts = site.ledger.find_facts(run)
    return facts is not None and facts.completed == 1

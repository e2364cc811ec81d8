"""An endpoint that asks for less gets less, of all workers together, and more again later."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey, Weed
from tests.fault_proxy import FaultProxy
from tests.faults import XML, Exchange, Fault, error_xml, rule
from tests.s3_requests import Reply
from tests.site import Changes, Site, open_site

THREADS = 8
RECOVERY_S = 2.0
#: So long takes a Put that others shall be seen beside, on a slow machine too.
LONG_S, SHORT_S = 3.0, 0.1
BUNDLE = 16
CHANGES: Changes = {
    "worker": {
        "small_processes": 1,
        "large_processes": 1,
        "small_threads": THREADS,
        "small_threads_most": THREADS,
    },
    "breakers": {"recovery_s": RECOVERY_S},
    "broker": {"window_messages": 8, "bundle_max_files": BUNDLE},
    "ledger": {"resend_s": 600},
}


@dataclass(slots=True)
class Busy(Fault):
    """Takes a moment for each Put; `most` is how many there were at a time since it was asked."""

    takes_s: float = LONG_S
    refuses: bool = False
    now: int = 0
    most: int = 0

    async def play(self, exchange: Exchange) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await exchange.read_body()
            await asyncio.sleep(self.takes_s)
            if self.refuses:
                body = error_xml("SlowDown")
                await exchange.answer(Reply(status=503, headers=(XML,), body=body))
            else:
                await exchange.answer(await exchange.forward())
        finally:
            self.now -= 1

    def asked(self) -> int:
        most, self.most = self.most, 0
        return most


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
) -> Iterator[Site]:
    """A run that takes minutes."""
    folder = tmp_path / "seq" / "run"
    folder.mkdir(parents=True)
    for number in range(4000):
        (folder / f"{number:05}").write_bytes(b"x")
    store = store_settings.model_copy(update={"endpoint_url": proxy.url})
    with open_site(tmp_path, valkey, store, {"seq": tmp_path / "seq"}, CHANGES) as opened:
        yield opened


def more_asked(site: Site, proxy: FaultProxy, count: int) -> None:
    before = proxy.count("PutObject")
    site.until(lambda: proxy.count("PutObject") > before + count, f"{count} more were sent")


def test_throttling_halves_what_two_workers_ask_for_together_and_it_recovers(
    site: Site, proxy: FaultProxy
) -> None:
    busy = Busy()
    proxy.script(rule(busy, on="PutObject"))
    for _ in range(2):
        site.start("worker", "--lane", "small")
    site.start("agent")
    site.until(lambda: busy.most == 2 * THREADS, "both workers at full width")

    busy.takes_s = SHORT_S
    busy.refuses = True
    site.until(lambda: bool(site.ledger.conditions().paces), "the pace halved")
    more_asked(site, proxy, 4 * BUNDLE)  # the bundles before it are done
    busy.asked()
    more_asked(site, proxy, BUNDLE)
    slow = busy.asked()
    (pace,) = site.ledger.conditions().paces
    assert pace.share <= 0.5
    assert slow <= 1.5 * THREADS

    busy.refuses = False
    busy.takes_s = LONG_S
    site.until(lambda: busy.asked() == 2 * THREADS, "both workers at full width again")
    facts = site.ledger.find_facts(site.ledger.runs()[0])
    assert facts is not None
    assert facts.counts[State.QUARANTINED] == 0
    assert site.ledger.alerts() == []
    assert {record.attempt for _, record in site.ledger.records(facts.run)} == {0}
    print(f"16 at a time; {slow} when throttled to {pace.share:.2f}")

"""Does a real Flower tell the truth of a message some of whose files are not verified?"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from labferry.identity import RunKey
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey, Weed
from ops.loopback import free_ports
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, rule
from tests.flower_client import PASSWORD, Flower
from tests.services import credentials
from tests.site import Site, open_site

NAMES = [f"C{number}.cbcl" for number in range(5)]
#: What becomes of each run, by its instrument.
GOOD, DEAD, PARKED = (RunKey(name, f"run-{name}") for name in ("good", "dead", "parked"))
#: Nothing that is parked comes back while a test looks.
FLOOR_S = 1200


@pytest.fixture(scope="module")
def site(
    valkey: Valkey, weed: Weed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, Flower]]:
    """Three runs of a bundle each: one is verified, one has a refused file, one a failing one."""
    folder = tmp_path_factory.mktemp("bundles")
    roots = {run.instrument: folder / run.instrument for run in (GOOD, DEAD, PARKED)}
    for run in (GOOD, DEAD, PARKED):
        (roots[run.instrument] / run.run).mkdir(parents=True)
        for name in NAMES:
            (roots[run.instrument] / run.run / name).write_bytes(b"bytes")
    (port,) = free_ports(1)
    with pytest.MonkeyPatch.context() as patch, FaultProxy(weed.endpoint) as proxy:
        for name, value in credentials(weed).items():
            patch.setenv(name, value)
        proxy.script(
            rule(Answer(403, "AccessDenied"), on="PutObject", key=f"*/raw/*{DEAD.run}/C2*"),
            rule(Answer(400, "RequestTimeout"), on="PutObject", key=f"*/raw/*{DEAD.run}/C1*"),
            rule(Answer(400, "RequestTimeout"), on="PutObject", key=f"*/raw/*{PARKED.run}/C3*"),
        )
        store = StoreSettings(bucket=weed.bucket, endpoint_url=proxy.url, prefix=folder.name)
        changes = {
            "flower": {"port": port, "silent_s": 120},
            "broker": {"window_messages": 1},
            "ledger": {"lease_ttl_s": 60, "heartbeat_s": 15},
            "retry": {"floor_s": FLOOR_S, "base_s": 2 * FLOOR_S, "cap_s": 2 * FLOOR_S},
        }
        with open_site(folder, valkey, store, roots, changes) as opened:
            opened.ledger._server.client.flushdb()
            opened.broker.flushdb()
            flower = Flower(port)
            opened.start("flower", LABFERRY_FLOWER__BASIC_AUTH=PASSWORD)
            opened.start("worker")
            opened.until(flower.is_there, "Flower answered")
            opened.until(lambda: len(flower.workers()) == 2, "both lanes were seen")
            opened.start("agent")
            yield opened, flower


def shown(site: tuple[Site, Flower], run: RunKey) -> dict[str, Any]:
    """Return what the API tells of the run's bundle, once it came to an end."""
    opened, flower = site

    def info() -> dict[str, Any]:
        rows = [one for one in flower.rows(run.run) if one["args"].endswith(" and 4 more")]
        return flower.info(rows[0]["uuid"]) if rows else {}

    ended = ("SUCCESS", "FAILURE", "RETRY")
    opened.until(lambda: info().get("state") in ended, f"the bundle of {run} ended")
    return info()


def test_a_bundle_is_a_success_when_all_its_files_are_verified(site: tuple[Site, Flower]) -> None:
    info = shown(site, GOOD)
    assert (info["state"], info["result"]) == ("SUCCESS", "'5 verified'"), info["exception"]


def test_a_bundle_with_a_dead_letter_is_a_failure_that_names_it(
    site: tuple[Site, Flower],
) -> None:
    info = shown(site, DEAD)
    assert info["state"] == "FAILURE"
    said = "FileQuarantined('1 failed, 1 quarantined, 3 verified; first C2.cbcl: AccessDenied: "
    assert said in info["exception"]


def test_a_bundle_with_a_parked_file_says_why_and_when_it_is_tried_again(
    site: tuple[Site, Flower],
) -> None:
    opened, _ = site
    info = shown(site, PARKED)
    assert info["state"] == "RETRY"
    said = "FileFailed('1 failed, 4 verified; first C3.cbcl: RequestTimeout: "
    assert said in info["exception"]
    told = re.search(r"Next try: (.+) UTC", info["exception"])
    assert told
    at = datetime.strptime(told[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert f"Retry at {at:%Y-%m-%d %H:%M:%S}" in info["traceback"]
    due_ms = opened.ledger.find_due(PARKED.file("C3.cbcl"))
    assert due_ms
    # The wait is drawn before the ledger is told of it, whose clock it then counts from.
    assert 0 <= due_ms / 1000 - at.timestamp() < FLOOR_S / 2


def test_what_a_bundle_shows_sends_nothing_again(site: tuple[Site, Flower]) -> None:
    opened, flower = site
    shown(site, PARKED)
    shown(site, DEAD)
    facts = opened.ledger.find_facts(PARKED), opened.ledger.find_facts(DEAD)
    assert [one.counts[State.FAILED] for one in facts if one] == [1, 1]
    rows = [one for one in flower.rows("cbcl") if one["args"]]
    assert len(rows) == 3

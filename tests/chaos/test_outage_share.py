"""A share that goes away on one of two hosts: the other does its work, and nothing else stops.

Both hosts are this machine; the second one has a host name and a mount point of its own.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.breakers import Breaker, Phase
from labferry.failures import Cause
from labferry.identity import RunKey
from labferry.messages import upload_queue
from labferry.records import Lane
from labferry.settings import StoreSettings
from labferry.states import State
from labferry.tallies import Tally, What
from ops.embedded import Valkey
from tests.site import Site, open_site
from tests.waiting import PATIENCE_S

SEQ, SCOPE = RunKey("seq", "run"), RunKey("scope", "run")
OTHER_HOST = "host-b"
NAMED = f"import socket\nsocket.gethostname = lambda: {OTHER_HOST!r}\n"


class Mount:
    """A mount point of the second host: a link to the share, or the empty folder below it."""

    def __init__(self, point: Path, share: Path) -> None:
        self._point = point
        self._share = share
        point.symlink_to(share)

    def go_away(self) -> None:
        self._point.unlink()
        self._point.mkdir()

    def come_back(self) -> None:
        self._point.rmdir()
        self._point.symlink_to(self._share)


@pytest.fixture
def site(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Site]:
    roots = {name: tmp_path / name for name in ("seq", "scope")}
    for root in roots.values():
        (root / "run").mkdir(parents=True)
    with open_site(tmp_path, valkey, store_settings, roots) as opened:
        yield opened


@pytest.fixture
def mount(site: Site) -> Mount:
    return Mount(site.folder / "mount-of-seq", site.roots["seq"])


def start_other(site: Site, mount: Mount) -> subprocess.Popen[bytes]:
    """Start a worker on the second host."""
    assert mount
    (site.folder / "named").mkdir(exist_ok=True)
    (site.folder / "named" / "sitecustomize.py").write_text(NAMED)
    return site.start(
        "worker",
        PYTHONPATH=str(site.folder / "named"),
        LABFERRY_INSTRUMENTS__SEQ__ROOT=str(site.folder / "mount-of-seq"),
    )


def write(site: Site, run: RunKey, prefix: str, count: int = 30) -> list[str]:
    names = [f"{prefix}{number:03}" for number in range(count)]
    for name in names:
        (site.roots[run.instrument] / run.run / name).write_bytes(os.urandom(500))
    return names


def are_verified(site: Site, run: RunKey, names: list[str]) -> bool:
    found = [site.ledger.find_record(run.file(name)) for name in names]
    return all(one is not None and one.state is State.VERIFIED for one in found)


def hosts(site: Site, run: RunKey, names: list[str]) -> set[str]:
    """The hosts that files were verified by."""
    found = [site.ledger.find_record(run.file(name)) for name in names]
    return {site.ledger.worker_name(one.holder).partition(":")[0] for one in found if one}


def breakers(site: Site) -> list[Breaker]:
    return [one for one in site.ledger.conditions().breakers if one.cause is Cause.SHARE]


def claims(site: Site) -> int:
    """How many claims of the instrument's files the workers told of, each within a second."""
    return site.ledger.tallies().counts[Tally(SEQ.instrument, What.CLAIM)]


def test_a_share_that_is_away_on_one_host_is_left_to_the_other_and_taken_up_again(
    site: Site, mount: Mount
) -> None:
    first = site.start("worker")
    other = start_other(site, mount)
    site.start("agent")
    names = write(site, SEQ, "before")
    site.until(lambda: are_verified(site, SEQ, names), "the first files verified")

    mount.go_away()
    site.until(lambda: bool(breakers(site)), "the breaker of the share open")
    names = [f for turn in range(10) for f in write(site, SEQ, f"during{turn}-")]
    scope = write(site, SCOPE, "scope", 200)
    site.until(lambda: are_verified(site, SEQ, names), "all verified by the first host")
    assert hosts(site, SEQ, names) != {OTHER_HOST}
    assert OTHER_HOST not in hosts(site, SEQ, names)
    (breaker,) = breakers(site)
    assert (breaker.name, breaker.phase) == (f"share:seq@{OTHER_HOST}", Phase.OPEN)
    site.until(lambda: are_verified(site, SCOPE, scope), "the other instrument's files")

    # While nobody but the second host is there, its messages wait: none is swallowed.
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_S) == 0
    before = claims(site)
    names = write(site, SEQ, "waiting")
    scope = write(site, SCOPE, "more", 50)
    site.until(lambda: are_verified(site, SCOPE, scope), "the other instrument goes on")
    queue = upload_queue("seq", Lane.SMALL)
    site.until(lambda: site.broker.llen(queue) > 0, "messages wait in the queue")
    assert claims(site) - before <= 2 * len(names), "they are not passed back and forth"
    assert sum(len(site.ledger.history(SEQ.file(name))) for name in names) == 0

    mount.come_back()
    site.until(lambda: are_verified(site, SEQ, names), "verified once the share is there")
    assert hosts(site, SEQ, names) == {OTHER_HOST}
    site.until(lambda: all(b.phase is Phase.RAMP for b in breakers(site)), "it closed")
    (alert,) = site.ledger.alerts()
    assert alert.text.startswith(f"share:seq@{OTHER_HOST}: ")
    assert other.poll() is None
    site.until(site.complete, "both runs complete")

"""Does a worker that is told to stop, once or twice, give its files back at once, uncharged?

Warm: short uploads end. Soft: what is not done in time is given back. Cold: told again, it waits
for nothing. No lease runs out by any of them, and none is a failed attempt.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labferry.identity import RunKey
from labferry.settings import StoreSettings
from labferry.states import Event, State
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Delay, Hang, rule
from tests.ledger_world import was_claimed_once
from tests.quay import PART, PART_PUT, PUT, behind
from tests.site import Changes, Site, open_site
from tests.waiting import PATIENCE_S

RUN = RunKey("scope", "movie 1")
SMALL, LARGE = RUN.file("notes.txt"), RUN.file("stack.raw")
#: The endpoint is asked with parts of its own first.
PARTS = f"*/{LARGE.path}"
#: Far beyond any wait below: what ends before, did not end by it.
NEVER_S = 3600
INTERRUPTED = 130


@pytest.fixture
def folder(tmp_path: Path, ledger_url: str, broker_url: str) -> Path:
    """The place of a site, on empty databases."""
    (tmp_path / "share" / RUN.run).mkdir(parents=True)
    return tmp_path


@contextmanager
def site_with(
    folder: Path, valkey: Valkey, store: StoreSettings, proxy: FaultProxy, soft_shutdown_s: float
) -> Iterator[Site]:
    """A site whose leases never run out, and whose bucket is asked through the proxy."""
    changes: Changes = {
        "ledger": {"lease_ttl_s": NEVER_S, "heartbeat_s": 1, "resend_s": 1},
        "worker": {"small_processes": 1, "large_processes": 1, "soft_shutdown_s": soft_shutdown_s},
    }
    patient = {"read_timeout_s": NEVER_S, "complete_timeout_s": 60}
    settings = behind(proxy, store).model_copy(update=patient)
    share = {"scope": folder / "share"}
    with open_site(folder, valkey, settings, share, changes) as site:
        site.start("sweep")
        site.start("agent")
        yield site


def stopped(worker: subprocess.Popen[bytes]) -> int:
    """Return its exit code, which comes long before a lease would run out."""
    return worker.wait(PATIENCE_S)


def is_stopping(site: Site) -> bool:
    return any("programs.stopping" in log.read_text() for log in site.folder.glob("*-worker.log"))


def is_verified(site: Site) -> bool:
    """Whether whoever had the small file first also ended it, uncharged."""
    record = site.ledger.find_record(SMALL)
    assert record is not None
    assert was_claimed_once(record)
    assert (record.attempt, record.lost) == (0, 0)
    return record.state is State.VERIFIED


def given_back(site: Site) -> None:
    """Demand the large file as if nobody had had it, with what was sent of it kept."""
    record = site.ledger.find_record(LARGE)
    assert record is not None
    assert record.state is State.ELIGIBLE
    assert (record.attempt, record.lost) == (0, 0)
    upload = site.ledger.find_upload(LARGE)
    assert upload is not None
    assert sum(1 for part in upload.parts.values() if part.etag) >= 2


def whole(site: Site) -> None:
    """Demand that another worker ends it, and that no lease ran out for that."""
    site.start("worker")
    site.until(site.complete, "the run complete")
    record = site.ledger.find_record(LARGE)
    assert record is not None
    assert (record.state, record.attempt, record.lost) == (State.VERIFIED, 0, 0)
    events = {note.event for note in site.ledger.history(LARGE)}
    assert not events & {Event.EXPIRE, Event.FAIL}
    assert site.ledger.markers(RUN) == {1}


def in_mid_upload(site: Site, proxy: FaultProxy) -> None:
    """Wait until two parts are sent, and the next ones hang."""

    def hangs() -> bool:
        sent = [one for one in proxy.asked(PART_PUT, PARTS) if one.answered]
        return len(sent) >= 2 and proxy.count(PART_PUT, fault="Hang") > 0

    site.until(hangs, "two parts sent, and others under way")


def write_large(folder: Path) -> None:
    (folder / "share" / RUN.run / LARGE.path).write_bytes(os.urandom(4 * PART))


def test_an_upload_that_is_done_in_time_ends_before_the_worker_does(
    folder: Path, valkey: Valkey, store_settings: StoreSettings, fault_proxy: FaultProxy
) -> None:
    (folder / "share" / RUN.run / SMALL.path).write_bytes(b"a note")
    fault_proxy.script(rule(Delay(3), on=PUT, key=f"*/{SMALL.path}"))
    with site_with(folder, valkey, store_settings, fault_proxy, NEVER_S) as site:
        worker = site.start("worker", "--lane", "small", "--no-sweep")
        site.until(lambda: fault_proxy.count(PUT, f"*/{SMALL.path}") > 0, "the file under way")
        worker.send_signal(signal.SIGTERM)
        site.until(lambda: is_stopping(site), "the wish heard")
        site.until(lambda: is_verified(site), "the file verified")
        assert stopped(worker) == 0
        assert fault_proxy.count(PUT, f"*/{SMALL.path}") == 1
        assert site.ledger.history(SMALL) == []


def test_an_upload_that_is_not_done_in_time_is_given_back(
    folder: Path, valkey: Valkey, store_settings: StoreSettings, fault_proxy: FaultProxy
) -> None:
    write_large(folder)
    fault_proxy.script(rule(Hang(), on=PART_PUT, key=PARTS, nth=range(3, 100)))
    with site_with(folder, valkey, store_settings, fault_proxy, 1) as site:
        worker = site.start("worker", "--lane", "large", "--no-sweep")
        in_mid_upload(site, fault_proxy)
        worker.send_signal(signal.SIGTERM)
        assert stopped(worker) == 0
        given_back(site)
        fault_proxy.script()
        whole(site)


def test_an_upload_is_given_back_at_once_when_the_worker_is_told_twice(
    folder: Path, valkey: Valkey, store_settings: StoreSettings, fault_proxy: FaultProxy
) -> None:
    write_large(folder)
    fault_proxy.script(rule(Hang(), on=PART_PUT, key=PARTS, nth=range(3, 100)))
    with site_with(folder, valkey, store_settings, fault_proxy, NEVER_S) as site:
        worker = site.start("worker", "--lane", "large", "--no-sweep")
        in_mid_upload(site, fault_proxy)
        worker.send_signal(signal.SIGINT)
        site.until(lambda: is_stopping(site), "the first wish heard")
        worker.send_signal(signal.SIGINT)
        assert stopped(worker) == INTERRUPTED
        given_back(site)
        fault_proxy.script()
        whole(site)

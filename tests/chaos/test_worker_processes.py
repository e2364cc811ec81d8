"""Real worker processes, killed, stopped and lied to: every file still ends verified once."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from labferry.broker import make_app
from labferry.identity import FileKey, RunKey
from labferry.messages import UPLOAD, upload_queue
from labferry.records import FileRecord, Lane
from labferry.settings import Settings, StoreSettings, load_settings
from labferry.states import State
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Hold, rule
from tests.ledger_world import was_claimed_once
from tests.quay import PART_PUT
from tests.site import Site, open_site
from tests.waiting import PATIENCE_S

RUN = RunKey("scope", "movie 1")
LARGE = FileKey(RUN, "stack.raw")
MIB = 1024 * 1024
PARTS, SENT = 12, 4


@pytest.fixture
def hold() -> Hold:
    """Lets some parts of the large file pass, and holds the others."""
    return Hold(after=SENT)


@pytest.fixture
def site(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    hold: Hold,
    ledger_url: str,
    broker_url: str,
) -> Iterator[Site]:
    """A run with one large file of many parts, most of which wait, and some small ones; nothing
    runs yet."""
    folder = tmp_path / "share" / RUN.run
    folder.mkdir(parents=True)
    with (folder / "stack.raw").open("wb") as stack:
        for _ in range(PARTS):
            stack.write(os.urandom(5 * MIB))
    for number in range(20):
        (folder / f"{number}.txt").write_bytes(b"x" * number)
    store = store_settings.model_copy(
        update={
            "endpoint_url": fault_proxy.url,
            "single_put_max_bytes": MIB,
            "part_size_bytes": 5 * MIB,
        }
    )
    fault_proxy.script(rule(hold, on=PART_PUT, key=f"*/{LARGE.path}"))
    with open_site(tmp_path, valkey, store, {"scope": tmp_path / "share"}) as opened:
        yield opened


def record(site: Site) -> FileRecord:
    found = site.ledger.find_record(LARGE)
    assert found is not None
    return found


def acknowledged(site: Site) -> int:
    """Return how many parts of the large file the server acknowledged."""
    upload = site.ledger.find_upload(LARGE)
    return sum(1 for part in upload.parts.values() if part.etag) if upload else 0


def in_mid_upload(site: Site) -> None:
    site.until(lambda: acknowledged(site) == SENT, "some parts of the large file sent")
    assert record(site).state is State.UPLOADING


def uploading_child(worker: subprocess.Popen[bytes], site: Site) -> psutil.Process:
    """Return the pool process that holds the lease on the large file."""
    name = site.ledger.worker_name(record(site).holder)
    pid = int(name.rpartition(":")[2])
    assert pid in {child.pid for child in psutil.Process(worker.pid).children(recursive=True)}
    return psutil.Process(pid)


def whole(site: Site) -> None:
    """Demand one good object, one marker, no open upload."""
    site.until(site.outlives, "the run complete")
    client = site.client()
    source = (site.roots["scope"] / RUN.run / LARGE.path).read_bytes()
    assert site.body(client, site.layout.raw(LARGE)) == source
    assert site.ledger.markers(RUN) == {1}
    uploads = client.list_multipart_uploads(
        Bucket=site.store_settings.bucket, Prefix=site.layout.raw(LARGE)
    )
    assert uploads.get("Uploads", []) == []


def test_a_killed_pool_process_is_a_lost_worker_and_the_same_upload_goes_on(
    site: Site, hold: Hold
) -> None:
    worker = site.start("worker")
    site.start("agent")
    in_mid_upload(site)
    plan = site.ledger.find_upload(LARGE)
    assert plan is not None

    uploading_child(worker, site).kill()
    hold.open()

    whole(site)
    assert record(site).lost == 1
    assert record(site).attempt == 0
    assert [note.code for note in site.ledger.history(LARGE)][:1] == ["lease_expired"]
    head = site.client().head_object(Bucket=site.store_settings.bucket, Key=site.layout.raw(LARGE))
    assert head["Metadata"]["labferry-attempt"] == plan.attempt_token


def test_a_killed_worker_takes_its_processes_along_and_another_one_finishes(
    site: Site, hold: Hold
) -> None:
    worker = site.start("worker")
    site.start("agent")
    in_mid_upload(site)
    below = psutil.Process(worker.pid).children(recursive=True)

    worker.send_signal(signal.SIGKILL)

    _, alive = psutil.wait_procs(below, timeout=PATIENCE_S)
    assert alive == []
    hold.open()
    site.start("worker")
    whole(site)
    assert record(site).attempt == 0


def test_a_worker_whose_process_never_answers_ends_all_the_same_when_nobody_is_left_to_kill_it(
    site: Site, hold: Hold
) -> None:
    worker = site.start("worker")
    site.start("agent")
    in_mid_upload(site)
    celery = psutil.Process(worker.pid).children()
    pool = [child for main in celery for child in main.children()]
    for process in pool:
        process.suspend()

    worker.send_signal(signal.SIGKILL)

    _, alive = psutil.wait_procs(celery, timeout=PATIENCE_S)
    assert alive == []
    for process in pool:
        with suppress(psutil.NoSuchProcess):
            process.resume()
    assert psutil.wait_procs(pool, timeout=PATIENCE_S)[1] == []


def settings_of(site: Site, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("LABFERRY_CONFIG", str(site.config))
    return load_settings()


UNREADABLE: list[object] = [
    None,
    [],
    {"version": 99, "run": "scope/x", "bundle": 1, "paths": ["a"]},
    {"version": 1, "run": "scope/../x", "bundle": 1, "paths": ["a"]},
    {"version": 1, "run": "scope/x", "bundle": 1, "paths": ["../../etc/passwd"]},
    {"version": 1, "run": "scope/x", "bundle": "1", "paths": ["a"]},
]


def test_messages_nobody_can_decode_are_kept_and_the_worker_goes_on(
    site: Site, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold.open()
    app, queue = make_app(settings_of(site, monkeypatch)), upload_queue("scope", Lane.SMALL)
    for payload in UNREADABLE:
        app.send_task(UPLOAD, args=[payload], queue=queue)
    app.send_task("labferry.no_such_task", args=[1], queue=queue)
    site.broker.lpush(queue, b"{ not json")
    site.start("worker")
    site.until(lambda: len(site.ledger.dead_messages()) == len(UNREADABLE), "all buried")
    kept = [json.loads(one) for one in site.ledger.dead_messages()]
    assert [one["payload"] for one in kept] == UNREADABLE
    site.start("agent")
    whole(site)
    assert len(site.ledger.dead_messages()) == len(UNREADABLE)


def test_the_same_wake_up_published_many_times_uploads_once(site: Site, hold: Hold) -> None:
    hold.open()
    site.start("agent")
    queue = upload_queue("scope", Lane.LARGE)
    site.until(lambda: site.broker.llen(queue) == 1, "the large file queued")
    [message] = site.broker.lrange(queue, 0, -1)
    for _ in range(4):
        site.broker.lpush(queue, message)
    for _ in range(2):
        site.start("worker", "--lane", "large")
    site.start("worker", "--lane", "small")
    whole(site)
    assert was_claimed_once(record(site))

"""After the marker, by real processes: sinks that die, consumers that die, work done once."""

import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labferry.celery_events import CeleryTask
from labferry.event_sinks import Parcel
from labferry.events import run_event
from labferry.identity import RunKey
from labferry.inbox import open_inbox
from labferry.manifest import read_marker
from labferry.settings import BrokerSettings, Settings, StoreSettings
from labferry.settings_events import EventSettings
from ops.embedded import Valkey
from tests.alert_server import AlertServer
from tests.services import BROKER_DATABASE
from tests.site import Site, open_site

RUN = RunKey("scope", "run 1")
QUEUE = {"celery_task": "pipeline.start", "celery_queue": "pipeline"}


@pytest.fixture
def hook() -> Iterator[AlertServer]:
    with AlertServer() as running:
        running.status = 503
        yield running


@pytest.fixture
def site(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    ledger_url: str,
    broker_url: str,
    hook: AlertServer,
) -> Iterator[Site]:
    """Two agents, a worker and its sweep; a queue that works and a webhook that is down."""
    root = tmp_path / "scope"
    root.mkdir()
    changes = {"events": {**QUEUE, "webhook_url": hook.url}}
    with open_site(tmp_path, valkey, store_settings, {"scope": root}, changes) as opened:
        yield opened


def write(site: Site, name: str, body: bytes = b"bytes") -> None:
    folder = site.roots["scope"] / RUN.run
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(body)


def complete(site: Site, number: int) -> None:
    site.until(lambda: number in site.ledger.markers(RUN), f"generation {number} complete")


def consume(site: Site, log: Path, script: str, *options: str) -> Any:
    """Start a consumer whose command notes its run and generation first."""
    noted = f'echo "$0/$1" >> {shlex.quote(str(log))}; {script}'
    command = f"sh -c {shlex.quote(noted)} {{run}} {{generation}}"
    inbox = str(site.folder / "inbox.sqlite3")
    return site.start("consume", "--exec", command, "--inbox", inbox, "--every", "0.3", *options)


def ran(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def stages(site: Site) -> dict[str, str]:
    inbox = open_inbox(str(site.folder / "inbox.sqlite3"))
    return {one.key: str(one.stage) for one in inbox.entries()}


def deliver_again(site: Site, valkey: Valkey, generations: tuple[int, ...]) -> None:
    """Put events that were delivered long ago on the queue once more, in this order."""
    settings = Settings.model_construct(
        store=site.store_settings,
        broker=BrokerSettings(url=valkey.url(BROKER_DATABASE)),
        events=EventSettings(**QUEUE),
    )
    task = CeleryTask(settings)
    for number in generations:
        key = site.layout.marker(RUN, number)
        event = run_event(read_marker(site.body(site.client(), key)), key, "lab-bucket")
        fields = {**json.loads(event), "delivery": {"attempt": 9, "unknown": 1, "sent_at": "x"}}
        parcel = Parcel(
            kind="run.completed",
            id=fields["id"],
            run=str(RUN),
            body=json.dumps(fields).encode(),
            sent_ms=0,
        )
        task.deliver(parcel)


def test_each_generation_is_worked_on_once_whatever_dies(
    site: Site, valkey: Valkey, hook: AlertServer, tmp_path: Path
) -> None:
    log = tmp_path / "ran"
    site.start("worker")
    site.start("agent")
    site.start("agent")
    write(site, "a.txt")
    first = consume(site, log, "sleep 600", "--from", "queue", "--lease", "2")
    site.until(lambda: ran(log) == [f"{RUN}/1"], "the first command ran")
    os.kill(first.pid, signal.SIGKILL)
    # Another one, of the bucket alone: the same inbox, so the same work.
    consume(site, log, "true", "--from", "bucket")
    site.until(lambda: stages(site).get(f"{RUN}/1") == "unknown", "the killed one is unknown")
    site.client().delete_object(Bucket=site.store_settings.bucket, Key=site.layout.marker(RUN, 1))
    write(site, "late.txt")
    complete(site, 2)
    site.until(lambda: stages(site).get(f"{RUN}/2") == "done", "the second generation is done")
    consume(site, log, "true", "--from", "queue")
    deliver_again(site, valkey, (2, 2))
    queue = site.broker
    site.until(lambda: queue.llen("pipeline") == 0, "the redeliveries are taken")
    again = site.run(
        "consume", "--again", f"{RUN}/1", "--reason", "nothing was submitted",
        "--inbox", str(site.folder / "inbox.sqlite3"),
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    site.until(lambda: stages(site).get(f"{RUN}/1") == "done", "it was begun again by a person")
    assert sorted(ran(log)) == [f"{RUN}/1", f"{RUN}/1", f"{RUN}/2"]

    # All that time a sink was dead, which kept nothing; now it is told everything, in order.
    status = json.loads(site.run("status", "--json").stdout)
    assert [one["sink"] for one in status["undelivered_events"]] == ["webhook"]
    hook.status = 200
    site.until(lambda: len(hook.bodies) >= 2, "the webhook was told")
    told = [json.loads(body) for body in hook.bodies]
    kinds = [(one["event"], one["generation"]) for one in told]
    assert list(dict.fromkeys(kinds)) == [("run.completed", 1), ("run.generation", 2)]
    assert told[0]["delivery"]["attempt"] > 1

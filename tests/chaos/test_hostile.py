"""Is what is hostile refused and reported, without being carried out, and are secrets kept?

Real processes. Celery case 15 and more (docs/proof.md); what parsers make of such input is tried in
tests/unit/labferry/test_hostile_input.py.
"""

import base64
import json
import os
import pickle
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from labferry.broker import make_app
from labferry.identity import RunKey
from labferry.messages import UPLOAD, upload_queue
from labferry.records import Lane
from labferry.settings import StoreSettings, load_settings
from labferry.states import State
from ops.embedded import Valkey
from ops.loopback import free_ports
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, rule
from tests.site import Changes, Site, open_site
from tests.waiting import PATIENCE_S, eventually

RUN = RunKey("scope", "movie 1")
QUEUE = upload_queue("scope", Lane.SMALL)
MIB = 1024 * 1024
HUGE = 2 * MIB


class Evil:
    """Runs a command wherever it is unpickled."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (self._command,)


def write_run(folder: Path) -> Path:
    run = folder / "share" / RUN.run
    run.mkdir(parents=True)
    for number in range(5):
        (run / f"{number}.raw").write_bytes(b"x" * number)
    return run


@pytest.fixture
def site(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Site]:
    write_run(tmp_path)
    with open_site(tmp_path, valkey, store_settings, {"scope": tmp_path / "share"}) as opened:
        yield opened


def forged(site: Site, **changes: Any) -> bytes:
    """Return a message as Celery writes it, with other headers, properties or body."""
    site.broker.delete(QUEUE)
    app = make_app(load_settings(site.config))
    app.send_task(
        UPLOAD, args=[{"version": 1, "run": str(RUN), "bundle": 0, "paths": ["a"]}], queue=QUEUE
    )
    sent: Any = site.broker.lpop(QUEUE)
    message = json.loads(sent)
    for name, value in changes.items():
        (message["headers"] if name in message["headers"] else message)[name.replace("_", "-")] = (
            value
        )
    return json.dumps(message).encode()


def payload(body: object) -> str:
    return base64.b64encode(json.dumps([[body], {}, {}]).encode()).decode()


def test_hostile_messages_are_refused_and_nothing_of_them_is_carried_out(
    site: Site, tmp_path: Path
) -> None:
    """Case 15: pickles, foreign tasks, what is too large, too deep, or no message at all."""
    proof = tmp_path / "carried out"
    evil = base64.b64encode(pickle.dumps(Evil(f"touch '{proof}'"))).decode()
    upload = {"version": 1, "run": str(RUN), "bundle": 0}
    readable = [
        payload({**upload, "paths": ["x" * HUGE]}),
        payload({**upload, "paths": ["a"] * 100_000}),
        payload({**upload, "paths": ["../../etc/passwd"]}),
        payload({**upload, "run": "scope/../../etc", "paths": ["passwd"]}),
        payload({**upload, "version": "9" * HUGE, "paths": ["a"]}),
        payload({**upload, "paths": ["a"], "bundle": {"__reduce__": ["os.system", "id"]}}),
    ]
    messages = [
        forged(site, body=evil, content_type="application/x-python-serialize"),
        forged(site, body=evil, content_type="application/x-python-serialize", task=UPLOAD),
        forged(site, body=evil),
        forged(site, task="os.system"),
        forged(site, task="celery.map", body=payload({"task": "os.system", "it": [["id"]]})),
        forged(site, body=base64.b64encode(b"[" * 200_000).decode()),
        forged(site, body="not base64!"),
        forged(site, body=payload("{0.__class__}%s%n")),
        b"{ not json",
        b"[]",
        b"\xff\xfe\x00",
        *[forged(site, body=body) for body in readable],
    ]
    for message in messages:
        site.broker.lpush(QUEUE, message)
    site.start("worker")
    # The last of the readable ones, and the one whose payload is a text.
    site.until(lambda: len(site.ledger.dead_messages()) == len(readable) + 1, "all buried")
    site.start("agent")
    site.until(site.complete, "the run complete beside them")
    assert not proof.exists()
    assert sum(map(len, site.ledger.dead_messages())) < MIB
    logs = b"".join(path.read_bytes() for path in site.folder.glob("*.log"))
    assert len(logs) < MIB
    assert b"program.ended" not in logs, "no worker ended over it"
    workers = psutil.Process(site.processes[0].pid).children(recursive=True)
    assert max(one.memory_info().rss for one in workers) < 400 * MIB


# -- secrets

WORD = "Zq9-hidden"
SECRETS = {name: f"{WORD}-{name}" for name in ("redis", "flower", "hook", "signing", "session")}


class Locked:
    """A Valkey that asks for a password."""

    def __init__(self, valkey: Valkey) -> None:
        self._valkey = valkey

    def kill(self) -> None:
        self._valkey.kill()

    def url(self, database: int = 0) -> str:
        return self._valkey.url(database).replace("//", f"//:{SECRETS['redis']}@")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Locked]:
    with Valkey(tmp_path / "valkey") as valkey:
        with redis.Redis.from_url(valkey.url()) as client:
            client.config_set("requirepass", SECRETS["redis"])
        yield Locked(valkey)


def everything_in(client: redis.Redis) -> bytes:
    """Return all keys and values of a database."""
    readers: dict[bytes | str, Callable[[bytes], Any]] = {
        b"string": client.get,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    keys = list(client.scan_iter("*"))
    return repr([(key, readers[client.type(key)](key)) for key in keys]).encode()


def fetched(url: str) -> bytes:
    request = urllib.request.Request(url)
    credentials = base64.b64encode(f"ada:{SECRETS['flower']}".encode()).decode()
    request.add_header("Authorization", f"Basic {credentials}")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        content: bytes = answer.read()
        return content


def test_no_secret_is_in_logs_ledger_broker_flower_or_bucket(
    tmp_path: Path, locked: Locked, store_settings: StoreSettings
) -> None:
    """With a dead letter, a buried message, an alert that cannot be delivered, and an outage."""
    run = write_run(tmp_path)
    (run / "bad.raw").write_bytes(b"refused")
    (port,) = free_ports(1)
    changes: Changes = {
        "flower": {"port": port},
        "alerts": {"webhook_url": f"http://127.0.0.1:1/{SECRETS['hook']}?token={SECRETS['hook']}"},
        "events": {"webhook_url": f"http://127.0.0.1:1/{SECRETS['hook']}?token={SECRETS['hook']}"},
    }
    secret_environment = {
        "LABFERRY_FLOWER__BASIC_AUTH": f"ada:{SECRETS['flower']}",
        "LABFERRY_EVENTS__WEBHOOK_SECRET": SECRETS["signing"],
    }
    assert store_settings.endpoint_url
    with (
        FaultProxy(store_settings.endpoint_url) as proxy,
        open_site(
            tmp_path,
            locked,  # type: ignore[arg-type]
            store_settings.model_copy(update={"endpoint_url": proxy.url}),
            {"scope": tmp_path / "share"},
            {**changes},
        ) as site,
    ):
        proxy.script(rule(Answer(403, "AccessDenied"), on="PutObject", key="*/raw/*/bad.raw"))
        site.start("flower", **secret_environment)
        site.start("worker", **secret_environment)
        site.start("agent", **secret_environment)
        make_app(load_settings(site.config)).send_task(UPLOAD, args=[None], queue=QUEUE)

        def is_over() -> bool:
            facts = site.ledger.find_facts(RUN)
            counts = facts.counts if facts else {}
            told = site.ledger.undelivered() and site.ledger.dead_messages()
            return bool(told) and (counts[State.VERIFIED], counts[State.QUARANTINED]) == (5, 1)

        site.until(is_over, "all files at rest, and an alert that waits")
        site.run("close", str(RUN), "--reason", "LIMS-7", "--yes")
        site.until(lambda: bool(site.ledger.markers(RUN)), "the run closed")
        proxy.script(rule(Answer(403, "InvalidAccessKeyId")))
        (run / "late.raw").write_bytes(b"late")
        site.until(lambda: bool(site.ledger.conditions().breakers), "an outage")
        seen = {
            "status": site.run("status", "--json").stdout.encode(),
            "explain": site.run("explain", f"{RUN}/bad.raw").stdout.encode(),
            "ledger": everything_in(site.ledger._server.client),
            "broker": everything_in(site.broker),
        }
        flower = f"http://127.0.0.1:{port}"
        for page in ("/api/tasks", "/api/workers?refresh=1", "/metrics", "/tasks", "/workers"):
            seen[f"Flower {page}"] = fetched(flower + page)
        assert RUN.run.encode() in seen["Flower /api/tasks"].replace(b"=20", b" ")
        proxy.script()
        client = site.client()
        for key in site.objects(f"{store_settings.prefix}/"):
            seen[f"bucket {key}"] = site.body(client, key)
        assert any("quarantine/" in key for key in seen)
        locked.kill()
        for program in ("worker", "agent"):
            (log,) = tmp_path.glob(f"*-{program}.log")
            eventually(lambda log=log: b"did not answer" in log.read_bytes())  # type: ignore[misc]
    for log in tmp_path.glob("*.log"):
        seen[log.name] = log.read_bytes()
    hidden = [*SECRETS.values(), os.environ["AWS_SECRET_ACCESS_KEY"]]
    found = [(where, one) for where, what in seen.items() for one in hidden if one.encode() in what]
    assert found == []

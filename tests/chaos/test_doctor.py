"""Does `labferry doctor` see what is wrong with real servers that are set up wrongly?"""

import importlib.metadata
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
import redis

from labferry.settings import (
    BrokerSettings,
    InstrumentSettings,
    LedgerSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from labferry.settings_watching import FlowerSettings
from ops.doctor import exit_of
from ops.doctor.broker import look_at_broker, look_at_workers
from ops.doctor.finding import Finding, Verdict
from ops.doctor.host import look_at_host
from ops.doctor.ledger import look_at_ledger
from ops.doctor.store import look_at_store
from ops.embedded import Valkey, Weed
from ops.exits import Exit
from ops.loopback import free_ports
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, EditReply, EditRequest, Rule, rule
from tests.quay import COMPLETE, CREATE, HEAD, LIST_UPLOADS, PART_PUT, PUT

GOOD, WARNING, BAD, UNKNOWN = Verdict
Make = Callable[..., Settings]


@pytest.fixture
def make(tmp_path: Path, ledger_url: str, broker_url: str, store_settings: StoreSettings) -> Make:
    """Makes settings of real servers, some of them changed."""
    share = tmp_path / "share"
    (share / "run 1").mkdir(parents=True)
    (share / "run 1" / "a.txt").write_text("data")

    def made(
        *,
        store: Mapping[str, Any] | None = None,
        ledger: str = ledger_url,
        broker: str = broker_url,
        root: Path = share,
        flower: Mapping[str, Any] | None = None,
    ) -> Settings:
        return Settings.model_construct(
            store=store_settings.model_copy(update=store or {}),
            ledger=LedgerSettings(url=ledger),
            broker=BrokerSettings(url=broker),
            worker=WorkerSettings(),
            flower=FlowerSettings(**(flower or {})),
            instruments={"scope": InstrumentSettings(root=root)},
        )

    return made


@contextmanager
def configured(valkey: Valkey, name: str, value: str) -> Iterator[None]:
    """Set the server up wrongly for a while."""
    with redis.Redis.from_url(valkey.url(), decode_responses=True) as client:
        before = client.config_get(name)[name]
        client.config_set(name, value)
        try:
            yield
        finally:
            client.config_set(name, before)


def verdicts(findings: Iterable[Finding]) -> dict[str, Verdict]:
    """Return the worst verdict of each check; one that is not good must name the next step."""
    found: dict[str, Verdict] = {}
    order = list(Verdict)
    for one in findings:
        assert one.verdict is GOOD or one.step or one.seen.count(". "), one
        found[one.check] = max(found.get(one.check, GOOD), one.verdict, key=order.index)
    return found


def ledger(settings: Settings, wall_s: Callable[[], float] = time.time) -> dict[str, Verdict]:
    return verdicts(look_at_ledger(settings, wall_s))


def store(settings: Settings, wall_s: Callable[[], float] = time.time) -> dict[str, Verdict]:
    return verdicts(look_at_store(settings.store, wall_s))


# -- ledger


def test_a_sound_ledger_is_good(make: Make) -> None:
    assert set(ledger(make()).values()) == {GOOD}


@pytest.mark.parametrize(
    ("option", "value", "check", "verdict"),
    [
        ("appendonly", "no", "durability", BAD),
        ("appendfsync", "no", "durability", WARNING),
        ("maxmemory-policy", "allkeys-lru", "eviction", BAD),
        ("maxmemory-policy", "volatile-ttl", "eviction", BAD),
    ],
)
def test_a_ledger_that_would_forget_is_told(
    make: Make, valkey: Valkey, option: str, value: str, check: str, verdict: Verdict
) -> None:
    with configured(valkey, option, value):
        found = ledger(make())
    assert {name: one for name, one in found.items() if one is not GOOD} == {check: verdict}


def test_a_ledger_that_is_nearly_full_is_told(make: Make, valkey: Valkey) -> None:
    with redis.Redis.from_url(valkey.url()) as client:
        used = int(client.info("memory")["used_memory"])
    with configured(valkey, "maxmemory", str(int(used * 1.1))):
        assert ledger(make())["memory"] is WARNING


def test_a_replica_is_no_ledger(make: Make, valkey: Valkey) -> None:
    with Valkey() as replica:
        with redis.Redis.from_url(replica.url()) as client:
            client.replicaof("127.0.0.1", str(valkey.port))
        found = ledger(make(ledger=replica.url(1)))
    assert found["role"] is BAD
    assert found["rights"] is BAD


def test_an_account_that_may_not_write_is_told(make: Make, valkey: Valkey) -> None:
    with redis.Redis.from_url(valkey.url()) as client:
        client.acl_setuser(
            "reader", enabled=True, passwords=["+secret"], categories=["+@read", "+@connection"],
            commands=["+info", "+time"], keys=["*"],
        )  # fmt: skip
        url = f"redis://reader:secret@127.0.0.1:{valkey.port}/1"
        findings = list(look_at_ledger(make(ledger=url), time.time))
        client.acl_deluser("reader")
    found = verdicts(findings)
    assert found["rights"] is BAD
    assert (
        found["durability"] is WARNING
    )  # how often it reaches the disk is not told to this account
    assert not [one for one in findings if "secret" in one.seen + one.step]


def test_a_ledger_of_another_version_is_bad(make: Make, ledger_url: str) -> None:
    with redis.Redis.from_url(ledger_url) as client:
        client.set("labferry:format", "99")
    assert ledger(make())["format"] is BAD


def test_a_ledger_that_is_away_is_unknown_and_not_bad(make: Make) -> None:
    away = make(ledger=f"redis://127.0.0.1:{free_ports(1)[0]}/1")
    assert ledger(away) == {"answer": UNKNOWN}
    assert exit_of(list(look_at_ledger(away, time.time))) is Exit.UNAVAILABLE


def test_clocks_that_are_apart_are_told(make: Make) -> None:
    assert ledger(make(), lambda: time.time() + 3600)["clock"] is WARNING
    assert store(make(), lambda: time.time() + 120)["clock"] is WARNING
    assert store(make(), lambda: time.time() - 3600)["clock"] is BAD


# -- broker


def test_a_sound_broker_is_good(make: Make) -> None:
    assert verdicts(look_at_broker(make())) == {
        "answer": GOOD,
        "eviction": GOOD,
        "rights": GOOD,
    }


def test_a_queue_without_workers_is_told(make: Make) -> None:
    assert verdicts(look_at_workers(make())) == {"answer": WARNING}


def test_the_broker_in_the_ledger_s_database_is_told(make: Make, ledger_url: str) -> None:
    found = verdicts(look_at_broker(make(broker=ledger_url)))
    assert found["database"] is BAD


def test_a_broker_that_drops_messages_is_told(make: Make, valkey: Valkey) -> None:
    with configured(valkey, "maxmemory-policy", "allkeys-lfu"):
        assert verdicts(look_at_broker(make()))["eviction"] is WARNING


def test_a_broker_that_is_away_is_unknown_and_its_password_is_not_shown(make: Make) -> None:
    url = f"redis://:secret@127.0.0.1:{free_ports(1)[0]}/0"
    (found,) = look_at_broker(make(broker=url))
    assert found.verdict is UNKNOWN
    assert "secret" not in found.seen


# -- bucket


def test_a_sound_bucket_is_good_but_for_its_lifecycle(make: Make, weed: Weed) -> None:
    found = store(make())
    assert {name: one for name, one in found.items() if one is not GOOD} == {"lifecycle": WARNING}
    client = boto3.client("s3", endpoint_url=weed.endpoint, region_name="us-east-1")
    listed = client.list_objects_v2(Bucket=weed.bucket, Prefix=f"{make().store.prefix}/")
    assert "Contents" not in listed


CHECKSUMS: dict[str, str | None] = dict.fromkeys(
    (
        "Content-MD5",
        "x-amz-checksum-algorithm",
        "x-amz-checksum-crc64nvme",
        "x-amz-checksum-type",
        "x-amz-sdk-checksum-algorithm",
    )
)
CREDULOUS = rule(EditRequest(CHECKSUMS), on=f"{PUT} {PART_PUT} {CREATE} {COMPLETE}")
LYING: dict[str, tuple[Rule, str, Verdict]] = {
    "checks no checksum": (CREDULOUS, "checksums", WARNING),
    "shows no checksum": (
        rule(EditReply({"x-amz-checksum-crc64nvme": None}), on=HEAD), "checksums", WARNING,
    ),
    "ignores conditions": (
        rule(EditRequest({"If-None-Match": None}), on=f"{PUT} {COMPLETE}"), "conditions", WARNING,
    ),
    "lists no uploads": (rule(Answer(403, "AccessDenied"), on=LIST_UPLOADS), "uploads", WARNING),
    "takes no parts": (rule(Answer(403, "AccessDenied"), on=PART_PUT), "rights", BAD),
    "deletes nothing": (rule(Answer(403, "AccessDenied"), on="DeleteObject"), "rights", WARNING),
}  # fmt: skip


@pytest.mark.parametrize(("lie", "check", "verdict"), LYING.values(), ids=LYING)
def test_an_endpoint_that_does_less_than_it_says_is_seen_through(
    make: Make, fault_proxy: FaultProxy, lie: Rule, check: str, verdict: Verdict
) -> None:
    fault_proxy.script(lie)
    found = store(make(store={"endpoint_url": fault_proxy.url}))
    fault_proxy.script()
    worse = {name: one for name, one in found.items() if one is not GOOD and name != "lifecycle"}
    assert worse == {check: verdict}


def test_evidence_that_is_weaker_than_asked_for_is_bad(make: Make, fault_proxy: FaultProxy) -> None:
    fault_proxy.script(CREDULOUS)
    found = store(make(store={"endpoint_url": fault_proxy.url, "evidence_minimum": "A"}))
    fault_proxy.script()
    assert found["evidence"] is BAD


def test_a_missing_bucket_and_wrong_credentials_are_bad_and_an_absent_endpoint_unknown(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store(make(store={"bucket": "no-such-bucket"})) == {"access": BAD}
    away = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert store(make(store={"endpoint_url": away})) == {"access": UNKNOWN}
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert store(make()) == {"access": BAD}


# -- host


def host(settings: Settings) -> dict[str, Verdict]:
    return verdicts(look_at_host(settings))


def test_a_sound_host_is_good(make: Make) -> None:
    assert host(make()) == {"packages": GOOD, "exposure": GOOD, "scope": GOOD}


def test_a_share_that_is_away_or_came_back_empty_is_bad(
    make: Make, tmp_path: Path, valkey: Valkey
) -> None:
    assert host(make(root=tmp_path / "away"))["scope"] is BAD
    (tmp_path / "empty").mkdir()
    empty = make(root=tmp_path / "empty")
    assert host(empty)["scope"] is GOOD
    with redis.Redis.from_url(empty.ledger.url) as client:
        client.sadd("labferry:runs", "scope/run 1")
    assert host(empty)["scope"] is BAD


def test_two_instruments_over_the_same_run_folders_are_a_warning(
    make: Make, tmp_path: Path
) -> None:
    settings = make()
    (tmp_path / "link").symlink_to(settings.instruments["scope"].root)
    twin = settings.instruments["scope"].model_copy(update={"root": tmp_path / "link"})
    settings.instruments["twin"] = twin
    warned = [one for one in look_at_host(settings) if one.verdict is Verdict.WARNING]
    assert [one.check for one in warned] == ["twin"]
    assert "scope's too" in warned[0].seen


def test_the_host_is_looked_at_beside_a_ledger_of_another_version(
    make: Make, tmp_path: Path, valkey: Valkey
) -> None:
    (tmp_path / "empty").mkdir()
    empty = make(root=tmp_path / "empty")
    with redis.Redis.from_url(empty.ledger.url) as client:
        client.set("labferry:format", "99")
    assert host(empty)["scope"] is GOOD


def test_a_share_whose_files_cannot_be_opened_is_bad(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    settings = make()
    settings.instruments["scope"].resolved()
    monkeypatch.setattr(Path, "open", refused)  # root, who runs tests in containers, may read all
    assert host(settings)["scope"] is BAD


def test_flower_open_to_all_is_bad(make: Make) -> None:
    assert host(make(flower={"address": "0.0.0.0"}))["exposure"] is BAD
    assert host(make(flower={"address": "0.0.0.0", "basic_auth": "a:b"}))["exposure"] is GOOD


def test_another_distribution_with_a_package_of_ours_is_bad(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = {"labferry": ["labferry"], "ops": ["labferry", "ops"], "workers": ["labferry"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: owners)
    found = next(iter(look_at_host(make())))
    assert (found.verdict, "ops (ops)" in found.seen) == (BAD, True)

"""Does a ledger on a real cluster keep what it holds, whichever node has it?"""

import contextlib
from collections.abc import Iterator

import pytest
from redis.crc import key_slot

from labferry.audit import Act
from labferry.errors import LedgerUnavailable
from labferry.identity import RunKey
from labferry.inbox.entries import Entry
from labferry.inbox.shelves import open_shelf
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.cluster import SLOT, tagged
from labferry.records import Completion, Fingerprint, Lane, Step
from labferry.settings import LedgerSettings, Settings
from labferry.states import Event, State
from ops.doctor.finding import Verdict
from ops.doctor.ledger import look_at_ledger
from tests.cluster import Cluster, running_cluster
from tests.ledger_world import EVIDENCE
from tests.waiting import eventually

RUN = RunKey("scope", "run {1}")
ACT = Act(actor="ada@lab", reason="the share is moved", what="hold")
PRINT = Fingerprint(1, 1, 1, 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def ledger(cluster: Cluster) -> RedisLedger:
    eventually(cluster.is_whole)
    cluster.holder().ask("FLUSHALL")
    return open_ledger(LedgerSettings(url=cluster.url))


def comes_back(ledger: RedisLedger, path: str) -> bool:
    with contextlib.suppress(LedgerUnavailable):
        ledger.discover(RUN, [(path, PRINT)])
        return True
    return False


def role(cluster: Cluster, url: str) -> Verdict:
    settings = Settings.model_construct(ledger=LedgerSettings(url=url))
    now_s = open_ledger(LedgerSettings(url=cluster.url)).now_ms() / 1000
    found = {one.check: one for one in look_at_ledger(settings, lambda: now_s)}
    assert all(one.step for one in found.values() if one.verdict is not Verdict.GOOD)
    return found["role"].verdict


def test_a_run_and_what_all_runs_share_lie_in_one_slot(
    cluster: Cluster, ledger: RedisLedger
) -> None:
    ledger.discover(RUN, [("a", PRINT)])
    ledger.move(RUN, Event.SETTLE, [Step(path="a", fingerprint=PRINT)])
    ledger.seal(RUN, [], 1)
    (bundle,) = ledger.take(RUN, Lane.SMALL, bundles=1, max_files=1, max_bytes=1)
    (claim,) = ledger.claim(RUN, bundle.number, [], 1)
    ledger.move(RUN, Event.VERIFY, [Step(path="a", token=claim.token, evidence=EVIDENCE)])
    done = Completion(
        generation=1, file_count=1, manifest_key="m", manifest_digest="", marker_key="k", event="{}"
    )
    assert ledger.complete(RUN, done)
    ledger.hold(RUN, ACT)  # one script with keys of the run and of all runs
    ledger.alert("key", "text")
    facts = ledger.find_facts(RUN)
    assert facts and facts.hold and facts.counts[State.VERIFIED] == 1
    assert ledger.markers(RUN) == {1}
    assert len(list(ledger.audit(RUN))) == 1
    keys = cluster.holder().ask("KEYS", "*")
    assert len(keys) > 8
    assert {key_slot(key) for key in keys} == {SLOT}
    assert sum(node.ask("DBSIZE") for node in cluster.nodes) == 2 * len(keys)  # with the replica


def test_all_runs_of_an_instrument_keep_to_a_cap_there(
    cluster: Cluster, ledger: RedisLedger
) -> None:
    claimed = []
    for run in (RUN, RunKey("scope", "run 2")):
        ledger.discover(run, [("a", PRINT), ("b", PRINT)])
        ledger.move(run, Event.SETTLE, [Step(path=path, fingerprint=PRINT) for path in "ab"])
        (bundle,) = ledger.take(run, Lane.SMALL, bundles=1, max_files=2, max_bytes=9)
        claimed.append(len(ledger.claim(run, bundle.number, [], 1, 3)))
    assert claimed == [2, 1]
    facts = ledger.find_facts(run)
    assert facts and facts.ready[Lane.SMALL] == 1
    assert {key_slot(key) for key in cluster.holder().ask("KEYS", "*")} == {SLOT}


def test_an_inbox_lies_there_too(cluster: Cluster, ledger: RedisLedger) -> None:
    shelf = open_shelf(f"{cluster.url}#ledger")
    entry = shelf.put(Entry(key="a", digest="d", content="{}"))
    assert entry and shelf.find("a") == entry
    assert shelf.put(Entry(key="a", digest="d", content="{}")) is None
    assert ledger.runs() == []


def test_a_ledger_goes_on_with_what_it_held_when_its_node_dies(
    cluster: Cluster, ledger: RedisLedger
) -> None:
    ledger.discover(RUN, [("a", PRINT)])
    holder, heir = cluster.holder(), cluster.replica()
    assert holder.ask("WAIT", 1, 10_000) == 1  # the replica has it
    holder.kill()
    try:
        eventually(lambda: comes_back(ledger, "b"))
        assert cluster.holder() is heir
        assert all(ledger.find_records(RUN, ["a", "b"]))
    finally:
        holder.start()


def test_a_primary_that_is_one_no_longer_is_left(cluster: Cluster, ledger: RedisLedger) -> None:
    ledger.discover(RUN, [("a", PRINT)])
    heir = cluster.replica()
    heir.ask("CLUSTER FAILOVER")
    eventually(lambda: heir.ask("ROLE")[0] == b"master")
    eventually(lambda: comes_back(ledger, "b"))  # over the connection that it had
    assert all(ledger.find_records(RUN, ["a", "b"]))


def test_a_node_without_its_cluster_is_refused_and_one_without_a_replica_is_named(
    cluster: Cluster, ledger: RedisLedger
) -> None:
    assert role(cluster, cluster.holder().url()) is Verdict.BAD
    assert role(cluster, cluster.url) is Verdict.GOOD
    replica = cluster.replica()
    replica.kill()
    try:
        eventually(lambda: role(cluster, cluster.url) is Verdict.WARNING)
    finally:
        replica.start()


def test_only_keys_get_the_tag() -> None:
    assert tagged(("GET", "labferry:runs")) == ("GET", b"labferry:{ledger}:runs")
    assert tagged(("HSET", b"labferry:holds", "labferry:a", "b"))[2:] == ("labferry:a", "b")
    script = tagged(("EVALSHA", "sha", 2, "labferry:a", "labferry:{r}:b", "labferry:c"))
    assert script[3:] == (b"labferry:{ledger}:a", b"labferry:{ledger}:{r}:b", "labferry:c")
    assert tagged(("AUTH", "labferry:secret")) == ("AUTH", "labferry:secret")
    assert tagged(("TIME",)) == ("TIME",)


@pytest.mark.parametrize(
    "url",
    ["redis+cluster://", "redis+cluster://a:x", "redis+cluster://a:1/1", "redis+cluster://a,,b",
     "redis+cluster://a?ssl_ca_certs=f", "rediss+cluster://a?typo=1"],
)  # fmt: skip
def test_a_cluster_that_cannot_be_named_so_is_refused_at_start(url: str) -> None:
    with pytest.raises(ValueError, match="cluster"):
        LedgerSettings(url=url)

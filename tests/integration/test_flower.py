"""Do a real Flower, logs and traces show what real processes do, for as long as they do it?"""

import json
import re
import signal
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery

from labferry.settings import StoreSettings
from ops.embedded import Valkey, Weed
from ops.flower_probe import Stream
from ops.loopback import free_ports
from tests.deaf_pipe import DeafPipe
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, rule
from tests.flower_client import PASSWORD, Flower
from tests.services import BROKER_DATABASE, LEDGER_DATABASE, credentials
from tests.site import Changes, Site, open_site
from tests.trace_sink import TraceSink
from tests.waiting import PATIENCE_S

NAMES = ["Übersicht 100% #1?.tif", "refused.czi", "slow.czi"]
RUN = "2026-03-12 Zebrafisch #7"


@pytest.fixture(scope="module")
def traces() -> Iterator[TraceSink]:
    """What the site's programs send their traces to."""
    with TraceSink() as sink:
        yield sink


@pytest.fixture(scope="module")
def site(
    valkey: Valkey, weed: Weed, traces: TraceSink, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, Flower]]:
    """One file that is verified, one that is refused, one that fails at first; and a Flower."""
    folder = tmp_path_factory.mktemp("flower")
    roots = {"scope": folder / "scope", "seq": folder / "seq"}
    for root in roots.values():
        root.mkdir()
    (roots["scope"] / RUN).mkdir()
    for name in NAMES:
        (roots["scope"] / RUN / name).write_bytes(b"bytes")
    (port,) = free_ports(1)
    rules = [
        rule(Answer(403, "AccessDenied"), on="PutObject", key="*refused*"),
        rule(Answer(400, "RequestTimeout"), on="PutObject", key="*slow*", nth=range(1, 5)),
    ]
    with pytest.MonkeyPatch.context() as patch, FaultProxy(weed.endpoint) as proxy:
        for name, value in credentials(weed).items():
            patch.setenv(name, value)
        store = StoreSettings(bucket=weed.bucket, endpoint_url=proxy.url, prefix=folder.name)
        changes: Changes = {
            "flower": {"port": port, "silent_s": 120},  # a restart forgets what was shown
            "broker": {"bundle_max_files": 1},
            "logs": {"level": "debug"},
            "traces": {"endpoint_url": traces.url},
        }
        with open_site(folder, valkey, store, roots, changes) as opened:
            for database in (BROKER_DATABASE, LEDGER_DATABASE):
                emptied(valkey, database)
            flower = Flower(port)
            opened.start("flower", LABFERRY_FLOWER__BASIC_AUTH=PASSWORD)
            opened.start("worker")
            within(opened, flower.is_there, "Flower answered")
            within(opened, lambda: len(flower.workers()) == 2, "both lanes were seen")
            proxy.script(*rules)
            opened.start("agent")
            yield opened, flower


def emptied(valkey: Valkey, database: int) -> None:
    with redis.Redis.from_url(valkey.url(database)) as client:
        client.flushdb()


def within(site: Site, condition: Callable[[], bool], what: str) -> None:
    site.until(condition, what)


def test_a_task_is_shown_under_its_files_readable_name(site: tuple[Site, Flower]) -> None:
    opened, flower = site
    within(opened, lambda: flower.row(NAMES[0]).get("state") == "SUCCESS", "the file was verified")
    row = flower.row(NAMES[0])
    assert row["args"] == f"scope/{RUN}/{NAMES[0]}"
    assert row["name"] == row["args"]  # what is a link, and never cut off
    page = flower.text(f"task/{urllib.parse.quote(row['uuid'])}")
    assert "Zebrafisch #7" in page


def test_a_file_that_is_refused_is_a_failure_with_the_real_error(
    site: tuple[Site, Flower],
) -> None:
    opened, flower = site
    within(opened, lambda: flower.row("refused.czi").get("state") == "FAILURE", "it was refused")
    task = urllib.parse.quote(flower.row("refused.czi")["uuid"])
    assert "AccessDenied" in flower.text(f"task/{task}")


def test_a_file_that_is_tried_again_is_one_row_with_the_real_error(
    site: tuple[Site, Flower],
) -> None:
    opened, flower = site
    within(opened, lambda: flower.row("slow.czi").get("state") == "SUCCESS", "it was verified")
    row = flower.row("slow.czi")
    assert row["retries"] >= 1
    assert sum("slow.czi" in one["args"] for one in flower.rows()) == 1
    page = flower.text(f"task/{urllib.parse.quote(row['uuid'])}")
    assert {"RequestTimeout", "Retried"} <= set(re.findall(r"RequestTimeout|Retried", page))
    told = flower.info(row["uuid"])["exception"]
    assert re.match(r"FileFailed\('RequestTimeout: .* Next try: 20\d\d-.* UTC\.'\)", told), told


def test_each_instrument_has_queues_of_its_own(site: tuple[Site, Flower]) -> None:
    opened, flower = site
    small = next(name for name in flower.workers() if name.startswith("small"))

    def shows_queues() -> bool:
        page = flower.text(f"worker/{urllib.parse.quote(small)}")
        return {"upload.scope.small", "upload.seq.small"} <= set(re.findall(r"upload[.\w]+", page))

    within(opened, shows_queues, "the queues of the small lane were shown")
    within(
        opened, lambda: "upload.scope.small" in flower.text("broker"), "their lengths were shown"
    )


def test_workers_are_seen_to_come_and_to_go(site: tuple[Site, Flower]) -> None:
    opened, flower = site
    before = set(flower.workers())
    second = opened.start("worker", "--no-sweep", "--lane", "small")
    within(opened, lambda: len(flower.workers()) == len(before) + 1, "a worker came")
    (name,) = set(flower.workers()) - before
    assert flower.workers()[name]["status"] is True
    second.send_signal(signal.SIGTERM)
    second.wait(PATIENCE_S)
    within(opened, lambda: flower.workers()[name]["status"] is False, "it was seen to go")
    assert all(flower.workers()[one]["status"] for one in before)


def test_one_search_follows_a_file_from_its_discovery_through_all_logs(
    site: tuple[Site, Flower],
) -> None:
    opened, flower = site
    within(opened, lambda: flower.row("slow.czi").get("state") == "SUCCESS", "it was verified")

    def told() -> list[dict[str, Any]]:
        texts = [path.read_text("utf-8") for path in opened.folder.glob("*.log")]
        lines = [
            json.loads(line) for text in texts for line in text.splitlines() if line[:1] == "{"
        ]
        mine = (one for one in lines if one.get("file") == "slow.czi")
        return sorted(mine, key=lambda one: int(one["at_ms"]))

    within(opened, lambda: told()[-1]["event"] == "file.verified", "its end was logged")
    events = [one["event"].removeprefix("file.") for one in told()]
    assert events[:2] == ["discovered", "eligible"]
    assert events[2:4] == ["uploading", "failed"]
    assert events[-2:] == ["uploading", "verified"]
    last = told()[-1]
    assert last["run"] == f"scope/{RUN}"
    assert last["worker"] == f"{last['host']}:{last['pid']}"
    assert last["attempt"] == events.count("failed") + 1
    tokens = [one["token"] for one in told() if one["event"] == "file.uploading"]
    assert tokens == sorted(set(tokens)), "each claim has a higher one"
    assert last["token"] == tokens[-1]
    failed = next(one for one in told() if one["event"] == "file.failed")
    assert (failed["code"], failed["attempt"]) == ("RequestTimeout", 1)
    assert failed["token"] == tokens[0]


def test_a_trace_leads_from_the_senders_message_to_the_workers_task(
    site: tuple[Site, Flower], traces: TraceSink
) -> None:
    opened, _ = site
    spans = traces.spans

    def joined() -> bool:
        # A sweep may be quicker than the agent.
        by_sender = {one.trace_id for name, one in spans if name != "labferry-worker"}
        tasks = [one for name, one in spans if name == "labferry-worker"]
        return any(one.name == "run/labferry.upload" and one.trace_id in by_sender for one in tasks)

    within(opened, joined, "a worker went on with its sender's trace")


def test_the_calls_of_the_object_store_are_spans_below_their_task(
    site: tuple[Site, Flower], traces: TraceSink
) -> None:
    opened, _ = site
    spans = traces.spans

    def nested() -> bool:
        tasks = {one.span_id for _, one in spans if one.name.startswith("run/labferry.")}
        return any(one.parent_span_id in tasks and one.name.startswith("S3.") for _, one in spans)

    within(opened, nested, "a call of S3 was a span of its task")


def test_thousands_of_tasks_are_searched_and_shown(
    site: tuple[Site, Flower], valkey: Valkey
) -> None:
    opened, flower = site
    app = Celery(broker=valkey.url(BROKER_DATABASE), set_as_current=False)
    with app.connection_for_write() as connection, app.events.Dispatcher(connection) as events:
        for number in range(3000):
            path = f"many/run/C{number}.cbcl"
            fields = {"uuid": f"{path}~0", "name": "upload many", "args": path, "retries": 0}
            events.send("task-received", **fields)
    app.close()
    within(opened, lambda: bool(flower.rows("C2999")), "the last one was found")
    assert [one["args"] for one in flower.rows("C2718.")] == ["many/run/C2718.cbcl"]
    assert flower.text("tasks")
    assert "many/run/C2718.cbcl" in flower.text("task/many/run/C2718.cbcl~0")


def test_a_flower_that_hears_nothing_more_is_started_again(
    site: tuple[Site, Flower], valkey: Valkey
) -> None:
    """Its connection is half open: the workers are there, and their events do not arrive."""
    opened, _ = site
    (port,) = free_ports(1)
    with DeafPipe(valkey.port) as pipe:
        flower = Flower(port)
        opened.start(
            "flower",
            LABFERRY_FLOWER__PORT=str(port),
            LABFERRY_FLOWER__BASIC_AUTH=PASSWORD,
            LABFERRY_FLOWER__SILENT_S="5",
            LABFERRY_BROKER__URL=f"redis://127.0.0.1:{pipe.port}/{BROKER_DATABASE}",
        )
        within(opened, lambda: flower.is_there() and flower.heard() > 3, "it heard the workers")
        pipe.go_deaf()
        within(opened, lambda: not flower.is_there(), "the deaf one ended")
        within(opened, lambda: flower.is_there() and flower.heard() > 3, "another one heard them")


def test_silence_is_believed_after_its_time_and_not_before() -> None:
    stream = Stream(60, 0)
    assert not stream.is_silent(5, 1)
    assert not stream.is_silent(5, 60)
    assert stream.is_silent(5, 61)
    assert not stream.is_silent(6, 62)
    assert not stream.is_silent(None, 121)
    assert stream.is_silent(None, 122)


def test_a_flower_that_counts_from_nothing_again_is_not_silent() -> None:
    stream = Stream(60, 0)
    assert not stream.is_silent(500, 1)
    assert not stream.is_silent(0, 59)
    assert not stream.is_silent(0, 100)


def test_where_nobody_is_there_to_be_heard_the_time_begins_anew() -> None:
    stream = Stream(60, 0)
    assert not stream.is_silent(0, 1)
    stream.excuse(100)
    assert not stream.is_silent(0, 130)
    assert stream.is_silent(0, 161)

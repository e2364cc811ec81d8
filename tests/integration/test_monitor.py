"""Does a real monitor expose what the alerts and the dashboard ask for?"""

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from labferry.settings import StoreSettings
from labferry.settings_watching import MonitorSettings
from labferry.states import State
from labferry.tallies import OTHER, Tally, What
from ops.embedded import Valkey
from ops.loopback import free_ports
from tests.ledger_world import RUN, World, server_world
from tests.services import LEDGER_DATABASE
from tests.site import open_site
from tests.waiting import PATIENCE_S, eventually

OPS = Path(__file__).parents[2] / "ops"
RULES: Any = yaml.safe_load((OPS / "prometheus" / "labferry.rules.yml").read_text("utf-8"))
DASHBOARD: Any = json.loads((OPS / "grafana" / "labferry.json").read_text("utf-8"))
SCRAPES: Any = yaml.safe_load((OPS / "prometheus" / "prometheus.yml").read_text("utf-8"))

ALERTS = {rule["alert"]: rule["expr"] for group in RULES["groups"] for rule in group["rules"]}
QUERIES = {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", [])
}
ASKED = [*ALERTS.items(), *QUERIES.items()]


class Series(NamedTuple):
    """One metric as a server exposes it: for each label the values that occur."""

    labels: dict[str, set[str]]


@pytest.fixture(scope="module")
def exposed(
    valkey: Valkey, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Series]]:
    """What a monitor in a process of its own exposes of a ledger in which everything happened."""
    folder = tmp_path_factory.mktemp("monitor")
    (port,) = free_ports(1)
    store = StoreSettings(bucket="bucket", endpoint_url="http://127.0.0.1:9")
    root = folder / "root"
    root.mkdir()
    with open_site(folder, valkey, store, {RUN.instrument: root}) as site:
        site.ledger._server.client.flushdb()
        happen(server_world(valkey.url(LEDGER_DATABASE)))
        process = site.start("monitor", LABFERRY_MONITOR__PORT=str(port))
        text: list[str] = []

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                    text.append(answer.read().decode())
            except OSError:
                return False
            return True

        eventually(answers)
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/").read().decode()
        assert str(RUN) in page
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        yield series(text[-1])


def happen(world: World) -> None:
    """Let everything happen that a query may ask for."""
    world.bring(State.FAILED, "a")
    ended = [(State.VERIFIED, ""), (State.FAILED, OTHER), (State.HELD, "SlowDown")]
    attempts = {Tally(RUN.instrument, What.ATTEMPT, *end): 1 for end in ended}
    world.ledger.tally(attempts, {RUN.instrument: [world.ledger.now_ms()]})
    world.ledger.alert("k", "text")
    world.ledger.enlist("webhook", gather_ms=0, new_ms=60_000)
    world.ledger.sink_since("celery")
    world.ledger.tell(RUN, ["event"])


def series(text: str) -> dict[str, Series]:
    found: dict[str, Series] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, Series({})).labels
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    # What Prometheus adds itself.
    job = {"job": {one["job_name"] for one in SCRAPES["scrape_configs"]}}
    return {**found, "up": Series(job)}


def selectors(query: str) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return each metric of a query with its matchers."""
    found = re.findall(r"\b(labferry_\w+|up)\b(?:\{([^}]*)\})?", query)
    return [
        (name, re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers))
        for name, matchers in found
    ]


@pytest.mark.parametrize(("name", "query"), ASKED, ids=[name for name, _ in ASKED])
def test_a_query_asks_for_what_a_live_monitor_exposes(
    exposed: dict[str, Series], name: str, query: str
) -> None:
    asked = selectors(query)
    assert asked, name
    for metric, matchers in asked:
        assert metric in exposed, metric
        for label, operator, value in matchers:
            assert label in exposed[metric].labels, (metric, label)
            values = value.split("|") if "~" in operator else [value]
            if not value.startswith("$"):
                assert set(values) <= exposed[metric].labels[label], (metric, label, value)
    grouped = {label for one in re.findall(r"(?:by|on) \(([^)]*)\)", query) for label in
               re.findall(r"\w+", one)}  # fmt: skip
    known = {label for metric, _ in asked for label in exposed[metric].labels}
    assert grouped <= known


@pytest.mark.parametrize(("name", "query"), QUERIES.items(), ids=QUERIES)
def test_what_a_legend_names_is_kept_by_its_query(
    exposed: dict[str, Series], name: str, query: str
) -> None:
    (legend,) = (
        target["legendFormat"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", [])
        if f"{panel['title']} {target['refId']}" == name
    )
    kept = re.findall(r"by \(([^)]*)\)", query)
    known = (
        set(re.findall(r"\w+", kept[0])) if kept else set(exposed[selectors(query)[0][0]].labels)
    )
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= known


def test_every_metric_is_on_the_dashboard_or_in_an_alert(exposed: dict[str, Series]) -> None:
    asked = {metric for _, query in ASKED for metric, _ in selectors(query)}
    ours = {name for name in exposed if name.startswith("labferry_")}
    bare = {name for name in ours if not name.endswith(("_created",))}
    # The same as the backlog and the files by state, for an autoscaler and for who wants sums.
    assert bare - asked <= {"labferry_bytes"}


def test_every_alert_says_what_to_do_and_has_a_test_of_its_own() -> None:
    tests = (OPS / "prometheus" / "labferry.rules.test.yml").read_text("utf-8")
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert set(rule["annotations"]) == {"summary", "action"}
            assert rule["labels"]["severity"] in {"page", "ticket"}
            fires = rf"alertname: {rule['alert']}\n +exp_alerts"
            assert re.search(fires, tests), rule["alert"]


def test_alerts_and_conditions_have_the_same_thresholds() -> None:
    limits = MonitorSettings()
    assert f"> {limits.hung_s:g}" in ALERTS["LabferryHung"]
    assert f"> {limits.lagging_s:g}" in ALERTS["LabferryLagging"]
    assert f"< {limits.slow_share:g}" in ALERTS["LabferryThrottled"]

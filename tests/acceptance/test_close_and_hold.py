"""Runs are closed, held and released: real processes, on each kind of run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.audit import read_line
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Hold, rule
from tests.replay_site import REASON, RUN, Refused, refused_site
from tests.site import Site, open_site

FEW = 12


@pytest.fixture
def few(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Refused]:
    with refused_site(tmp_path, valkey, store_settings, FEW) as site:
        yield site


def markers(site: Site) -> list[str]:
    keys = site.objects(site.layout.runs_prefix(RUN))
    return sorted(key.split("/", 4)[-1] for key in keys if key.endswith(".json"))


def test_an_incomplete_run_is_closed_and_completed_later(few: Refused) -> None:
    site = few.site
    assert few.labferry("close", str(RUN), *REASON).returncode == 4
    shown = few.labferry("close", str(RUN), *REASON, "--dry-run")
    assert (shown.returncode, f"{FEW} files" in shown.stdout) == (0, True)
    assert few.states() == {State.QUARANTINED: FEW}

    done = few.labferry("close", str(RUN), *REASON, "--yes")
    assert done.returncode == 0, done.stderr
    site.until(site.complete, "the marker written")

    assert [key.rpartition("/")[2] for key in markers(site)] == ["incomplete.json"]
    client = site.client()
    body = json.loads(site.body(client, site.layout.incomplete_marker(RUN, 1)))
    assert (body["incomplete"], body["left_out_files"], body["reason"]) == (True, FEW, REASON[1])
    assert few.states() == {State.DISCARDED: FEW}
    lines = [read_line(line) for line in site.ledger.audit(RUN)]
    given_up = [file for line in lines for file in line.files]
    assert {file["before"]["state"] for file in given_up} == {"quarantined"}
    code, report = few.facts("verify", str(RUN))
    assert (code, report["verdict"], report["left_out"]["files"]) == (3, "partial", FEW)
    _, status = few.facts("status", str(RUN))
    assert status["runs"][0]["state"] == "closed"
    assert few.labferry("close", str(RUN), *REASON, "--yes").returncode == 4

    few.mend()
    code, batch = few.facts("replay", "--run", str(RUN), *REASON, "--yes")
    assert (code, few.outcomes(batch)) == (0, {"verified": FEW})
    site.until(site.complete, "the second generation complete")
    names = [key.rpartition("/")[2] for key in markers(site)]
    assert names[0] == "incomplete.json"
    assert names.index("complete.json") == len(names) - 1
    code, report = few.facts("verify", str(RUN))
    assert (code, report["verdict"]) == (0, "complete")


def test_a_run_whose_end_never_comes_is_closed_as_not_complete(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> None:
    folder = tmp_path / "share" / RUN.run
    folder.mkdir(parents=True)
    for number in range(FEW):
        (folder / f"{number}.txt").write_text("x" * number)
    changes = {"instruments.scope": {"marker": "NEVER.txt"}}
    with open_site(tmp_path, valkey, store_settings, {"scope": folder.parent}, changes) as site:
        site.start("agent")
        site.start("worker")
        site.until(lambda: count(site, State.VERIFIED) == FEW, "all verified")
        assert markers(site) == []
        done = site.run("close", str(RUN), *REASON, "--yes")
        assert done.returncode == 0, done.stderr
        site.until(site.complete, "the marker written")
        assert [key.rpartition("/")[2] for key in markers(site)] == ["incomplete.json"]


def test_what_is_held_rests_and_loses_nothing(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> None:
    total = 100
    folder = tmp_path / "share" / RUN.run
    folder.mkdir(parents=True)
    for number in range(total):
        (folder / f"{number}.txt").write_text("x" * number)
    changes = {"broker": {"bundle_max_files": 1, "window_messages": 20}}
    assert store_settings.endpoint_url is not None
    with (
        FaultProxy(store_settings.endpoint_url) as proxy,
        open_site(
            tmp_path,
            valkey,
            store_settings.model_copy(update={"endpoint_url": proxy.url}),
            {"scope": folder.parent},
            changes,
        ) as site,
    ):
        hold = Hold(after=20)
        proxy.script(rule(hold, on="PutObject", key="*/raw/*"))
        site.start("agent")
        site.start("worker")
        site.until(lambda: count(site, State.VERIFIED) > 10, "some verified")
        held = site.run("hold", "scope", *REASON)
        assert held.returncode == 0, held.stderr
        hold.open()
        site.until(lambda: count(site, State.UPLOADING) == 0, "what was under way ended")
        resting = count(site, State.VERIFIED)
        assert resting < total
        shown = site.run("status", str(RUN)).stdout
        assert REASON[1] in " ".join(shown.split())
        waiting = next(number for number in range(total) if state(site, number) is State.ELIGIBLE)
        explained = site.run("explain", f"{RUN}/{waiting}.txt").stdout
        assert REASON[1] in " ".join(explained.split())
        swept = site.ledger.now_ms()
        site.until(lambda: site.ledger.now_ms() - swept > 5000, "several sweeps and resends")
        assert count(site, State.VERIFIED) == resting

        assert site.run("release", "scope", *REASON).returncode == 0
        site.until(site.complete, "the run complete")
        assert count(site, State.VERIFIED) == total
        acts = [read_line(line).act.what for line in site.ledger.audit(None)]
        assert acts == ["hold", "release"]


def count(site: Site, one: State) -> int:
    facts = site.ledger.find_facts(RUN)
    return facts.counts[one] if facts else 0


def state(site: Site, number: int) -> State:
    record = site.ledger.find_record(RUN.file(f"{number}.txt"))
    assert record is not None
    return record.state

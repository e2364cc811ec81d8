"""What does `labferry reconcile` say, and how does it end? On a real ledger and bucket."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from labferry.audit import read_line
from labferry.identity import RunKey
from labferry.s3.store import S3Store, open_store
from labferry.settings import StoreSettings
from ops.cli import run_command
from ops.embedded import Valkey
from tests.site import Site, open_site

RUN = RunKey("scope", "movie")
REASON = ("--reason", "LIMS-7: storage")


@pytest.fixture
def site(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Site]:
    (tmp_path / "share" / RUN.run).mkdir(parents=True)
    with open_site(tmp_path, valkey, store_settings, {"scope": tmp_path / "share"}) as opened:
        yield opened


@pytest.fixture
def store(store_settings: StoreSettings) -> S3Store:
    return open_store(store_settings)


@dataclass
class Reconcile:
    """The command in this process, but for what another program does."""

    site: Site
    capsys: pytest.CaptureFixture[str]

    def run(self, *options: str) -> tuple[int, str]:
        """Return the exit code and what was said."""
        code = self._run(*options)
        return code, "".join(self.capsys.readouterr())

    def facts(self, *options: str) -> tuple[int, dict[str, Any]]:
        """Return the exit code and what is printed as JSON."""
        code = self._run(*options, "--json")
        return code, json.loads(self.capsys.readouterr().out)

    def _run(self, *options: str) -> int:
        return run_command(["--config", str(self.site.config), "reconcile", *options])


@pytest.fixture
def reconcile(site: Site, capsys: pytest.CaptureFixture[str]) -> Reconcile:
    return Reconcile(site, capsys)


def test_an_orphan_is_reported_then_ended_with_who_and_why_on_record(
    reconcile: Reconcile, store: S3Store
) -> None:
    site = reconcile.site
    key = site.layout.raw(RUN.file("large"))
    upload_id = store.create_upload(key, "nobody's")
    code, found = reconcile.facts()
    assert (code, found["uploads"]["orphans"]) == (3, 1)
    assert found["uploads"]["first"] == [f"{key} {upload_id}"]

    code, words = reconcile.run("--abort-orphans", "--yes")
    assert (code, "--reason" in words) == (2, True)
    assert reconcile.run("--abort-orphans", *REASON)[0] == 4  # nobody to ask
    assert reconcile.run("--abort-orphans", "--dry-run")[0] == 3
    assert store.find_uploads(key) == [upload_id]

    code, found = reconcile.facts("--abort-orphans", *REASON, "--yes")
    assert (code, found["uploads"]["aborted"]) == (0, 1)
    assert store.find_uploads(key) == []
    (act,) = [read_line(line).act for line in site.ledger.audit(None)]
    assert (act.selector, act.reason) == (f"{key} {upload_id}", REASON[1])
    assert reconcile.facts()[0] == 0


def test_a_run_that_neither_ledger_nor_bucket_has_is_not_called_sound(
    reconcile: Reconcile,
) -> None:
    code, words = reconcile.run("scope/mistyped")
    assert (code, "scope/mistyped is not known" in words) == (5, True)


def test_what_is_only_in_the_bucket_is_drift_until_it_is_taken_over(
    reconcile: Reconcile, store: S3Store
) -> None:
    site = reconcile.site
    body = os.urandom(100)
    (site.roots["scope"] / RUN.run / "a").write_bytes(body)
    store.put_fast(site.layout.raw(RUN.file("a")), body, "before the ledger was lost")
    code, found = reconcile.facts()
    assert (code, [run["run"] for run in found["runs"]]) == (3, [str(RUN)])
    assert list(found["runs"][0]["drift"]) == ["unknown"]
    _, words = reconcile.run()
    assert "1 unknown" in words
    assert "--rebuild" in words

    assert reconcile.run("--rebuild", "--yes")[0] == 2
    assert reconcile.run("--rebuild", *REASON)[0] == 4
    assert reconcile.run("--rebuild", "--abort-orphans", *REASON, "--yes")[0] == 2
    dry = site.run("reconcile", "--rebuild", "--dry-run", *REASON, "--json")
    would = json.loads(dry.stdout)
    assert (dry.returncode, would["dry_run"], would["runs"][0]["verified"]) == (0, True, 1)
    assert site.ledger.runs() == []
    done = site.run("reconcile", "--rebuild", str(RUN), *REASON, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 files verified" in done.stdout
    code, status = reconcile.facts()
    assert (code, status["runs"]) == (0, [])
    assert reconcile.run("not a run")[0] == 2

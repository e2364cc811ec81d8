"""Does a drill pass where promises are kept, fail where one is broken, and leave nothing?"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from labferry.s3.store import open_store
from labferry.settings import StoreSettings
from ops.drill.cases import CASES
from ops.embedded import Weed
from tests.acceptance.command import Command, ctrl_c, processes_below
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, EditRequest, rule
from tests.services import credentials
from tests.waiting import PATIENCE_S, eventually


def configure(folder: Path, store: StoreSettings) -> Path:
    """Write a facility's own labferry.toml; nothing of it but the bucket may be used."""
    config = folder / "labferry.toml"
    fields = store.model_dump(mode="json", exclude_none=True)
    lines = ["[store]", *(f"{name} = {json.dumps(value)}" for name, value in fields.items())]
    lines += ["[ledger]", 'url = "redis://127.0.0.1:1/0"', "[instruments.real]"]
    lines += [f"root = {json.dumps(str(folder / 'not touched'))}"]
    config.write_text("\n".join(lines), "utf-8")
    return config


def drill(
    folder: Path, store: StoreSettings, *options: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run a drill to its end, and return its report too."""
    report = folder / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "ops.cli", "drill", "--report", str(report), *options],
        env={**os.environ, "LABFERRY_CONFIG": str(configure(folder, store))},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    return done, json.loads(report.read_text("utf-8"))


def failed(report: dict[str, Any]) -> dict[str, list[str]]:
    return {
        case["name"]: [check["what"] for check in case["checks"] if not check["holds"]]
        for case in report["cases"]
        if not case["passed"]
    }


def test_every_case_passes_and_nothing_is_left(
    tmp_path: Path, store_settings: StoreSettings
) -> None:
    """Issue 4, point 9."""
    done, report = drill(tmp_path, store_settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert failed(report) == {}
    assert [case["name"] for case in report["cases"]] == list(CASES)
    assert all(case["checks"] for case in report["cases"])
    assert report["passed"] is True
    assert report["left_behind"] == 0
    store = open_store(store_settings)
    assert list(store.list_objects(store_settings.prefix)) == []
    assert list(store.list_uploads(store_settings.prefix)) == []
    for name in CASES:
        assert f"passed  {name}" in done.stdout


def test_a_bucket_that_breaks_a_promise_fails_the_drill(
    tmp_path: Path, store_settings: StoreSettings, weed: Weed
) -> None:
    """A bucket that lets markers be overwritten, and forgets what it has of an upload."""
    assert store_settings.endpoint_url is not None
    keys = (weed.access_key, weed.secret_key)
    with FaultProxy(store_settings.endpoint_url, credentials=keys) as proxy:
        proxy.script(
            rule(EditRequest({"If-None-Match": None}), on="PutObject", key="*/complete.json"),
            rule(Answer(404, "NoSuchUpload"), on="ListParts", nth=1),
        )
        behind = store_settings.model_copy(update={"endpoint_url": proxy.url})
        done, report = drill(tmp_path, behind, "--case", "marker", "--case", "kill", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout)["passed"] is False
    found = failed(report)
    assert "the bucket refuses a second marker" in found["marker"]
    assert "the marker is the same object" in found["marker"]
    assert "the upload was gone on with, not begun again" in found["kill"]
    assert "what was acknowledged was not sent again" in found["kill"]


def test_after_ctrl_c_nothing_is_left_either(
    tmp_path: Path, store_settings: StoreSettings, weed: Weed
) -> None:
    configure(tmp_path, store_settings)
    command = Command(tmp_path, {**credentials(weed), "TMPDIR": str(tmp_path)})
    store = open_store(store_settings)
    try:
        process = command.start("drill", "--case", "broker")
        eventually(lambda: next(iter(store.list_objects(store_settings.prefix)), None))
        ctrl_c(process)
    finally:
        command.close()
    assert process.returncode == 130
    assert list(store.list_objects(store_settings.prefix)) == []
    assert processes_below(tmp_path) == []
    assert not (tmp_path / "labferry-drill.json").exists()

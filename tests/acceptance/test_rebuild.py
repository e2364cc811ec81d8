"""Does a site whose ledger is lost go on, with real processes, and send nothing twice?"""

import json
import os
import signal
from pathlib import Path
from typing import Any

from labferry.identity import RunKey
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, rule
from tests.site import Site, open_site
from tests.waiting import PATIENCE_S

DONE, HALF = RunKey("scope", "done"), RunKey("scope", "half")
LARGE = os.urandom(6 * 1024 * 1024)
REASON = ("--reason", "LIMS-7: the ledger's disk died")
SENDS = ("PutObject", "CompleteMultipartUpload")
SMALL_PARTS = {"single_put_max_bytes": 1024 * 1024, "part_size_bytes": 5 * 1024 * 1024}


def sent(proxy: FaultProxy) -> list[str]:
    """The files that were sent whole, each as often as it was."""
    asked = [one for operation in SENDS for one in proxy.asked(operation, "*/raw/*", "Pass")]
    return sorted(one.key for one in asked)


def state_of(site: Site, run: RunKey, name: str) -> State | None:
    record = site.ledger.find_record(run.file(name))
    return record.state if record else None


def documents(site: Site) -> dict[str, tuple[str, Any]]:
    """Manifests and markers, with what would tell that they were written again."""
    found = site.objects(f"{site.layout.prefix}/runs/")
    return {key: (one["ETag"], one["LastModified"]) for key, one in found.items()}


def completed(site: Site, run: RunKey, generation: int) -> bool:
    facts = site.ledger.find_facts(run)
    return facts is not None and facts.is_over and facts.generation == generation


def test_after_the_ledger_was_lost_nothing_is_sent_twice_and_no_marker_is_rewritten(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    ledger_url: str,
    broker_url: str,
) -> None:
    """Issue 4, point 5: a run complete in two generations, one half done, a dead letter."""
    root = tmp_path / "share"
    for run, names in ((DONE, ("a", "b")), (HALF, ("c", "large", "bad"))):
        (root / run.run).mkdir(parents=True)
        for name in names:
            (root / run.run / name).write_bytes(LARGE if name == "large" else name.encode())
    assert store_settings.endpoint_url is not None
    with FaultProxy(store_settings.endpoint_url) as proxy:
        proxy.script(rule(Answer(403, "AccessDenied"), on="PutObject", key="*/raw/*/bad"))
        behind = store_settings.model_copy(update={"endpoint_url": proxy.url, **SMALL_PARTS})
        with open_site(tmp_path, valkey, behind, {"scope": root}) as site:
            agent, worker = site.start("agent"), site.start("worker")
            site.until(lambda: completed(site, DONE, 1), "the run complete")
            (root / DONE.run / "late").write_bytes(b"late")
            site.until(lambda: completed(site, DONE, 2), "its second generation complete")
            site.until(lambda: state_of(site, HALF, "bad") is State.QUARANTINED, "a letter")
            site.until(lambda: state_of(site, HALF, "large") is State.VERIFIED, "it is sent")
            reason = site.layout.reason(HALF.file("bad"))
            site.until(lambda: reason in site.objects(reason), "the letter told of")
            letter = site.ledger.history(HALF.file("bad"))
            worker.send_signal(signal.SIGTERM)
            worker.wait(PATIENCE_S)
            before, files = documents(site), sent(proxy)
            assert len(files) == 5

            site.broker.flushall()  # the agent goes on scanning
            proxy.script()
            done = site.run("reconcile", "--rebuild", *REASON, "--yes", "--json")
            assert (done.returncode, done.stderr) == (0, "")
            runs = {run["run"]: run for run in json.loads(done.stdout)["runs"]}
            assert runs[str(DONE)]["generations"] == [1, 2]
            assert (runs[str(DONE)]["verified"], runs[str(HALF)]["verified"]) == (3, 2)
            assert runs[str(HALF)]["letters"] == 1
            assert site.ledger.history(HALF.file("bad")) == letter

            site.start("worker")
            requeue = site.run("dead-letters", "requeue", "--all", *REASON, "--yes")
            assert requeue.returncode == 0, requeue.stdout + requeue.stderr
            site.until(lambda: completed(site, HALF, 1), "the other run complete")
            assert completed(site, DONE, 2)
            assert sent(proxy) == [site.layout.raw(HALF.file("bad"))]
            assert {key: documents(site)[key] for key in before} == before
            assert site.run("verify", str(DONE)).returncode == 0
            assert site.run("verify", str(HALF)).returncode == 0
            agent.send_signal(signal.SIGTERM)
            agent.wait(PATIENCE_S)
            checked = site.run("reconcile", "--json")
            assert checked.returncode == 0, checked.stdout
            audit = site.run("audit", "verify")
            assert audit.returncode == 0, audit.stdout

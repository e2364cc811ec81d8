"""One file that kills its workers among two hundred: a dead letter, and nobody else's trouble."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from labferry.identity import FileKey, RunKey
from labferry.records import FileRecord
from labferry.settings import StoreSettings
from labferry.states import LEASED, State
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Hold, rule
from tests.quay import COMPLETE
from tests.site import Site, open_site

ILL, WELL = RunKey("scope", "movie 1"), RunKey("seq", "240601_A0001")
POISON = FileKey(ILL, "stack.raw")
MIB = 1024 * 1024
FILES = 100


@pytest.fixture
def site(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    ledger_url: str,
    broker_url: str,
) -> Iterator[Site]:
    """A run of a hundred files on each of two instruments, one of them large; nothing runs yet."""
    roots = {run.instrument: tmp_path / run.instrument for run in (ILL, WELL)}
    for run in (ILL, WELL):
        folder = roots[run.instrument] / run.run / "d"
        folder.mkdir(parents=True)
        for number in range(FILES - 1):
            (folder / f"{number}.txt").write_bytes(b"x" * number)
    (roots["seq"] / WELL.run / "last.txt").write_bytes(b"last")
    with (roots["scope"] / ILL.run / POISON.path).open("wb") as stack:
        for _ in range(3):
            stack.write(os.urandom(5 * MIB))
    store = store_settings.model_copy(
        update={
            "endpoint_url": fault_proxy.url,
            "single_put_max_bytes": MIB,
            "part_size_bytes": 5 * MIB,
        }
    )
    fault_proxy.script(
        rule(Hold(), on=COMPLETE, key=f"*/{POISON.path}")
    )  # whoever has it is killed
    with open_site(tmp_path, valkey, store, roots) as opened:
        yield opened


def record(site: Site, file: FileKey) -> FileRecord:
    found = site.ledger.find_record(file)
    assert found is not None
    return found


def counts(site: Site, run: RunKey) -> dict[State, int]:
    facts = site.ledger.find_facts(run)
    return facts.counts if facts else dict.fromkeys(State, 0)


class Killer:
    """Kills the process that holds the poison, once each time it was claimed."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.killed: set[int] = set()

    def is_done(self) -> bool:
        """Kill what holds it now; return whether it is quarantined."""
        self._site.lapse()
        found = self._site.ledger.find_record(POISON)
        if found is None or found.state not in LEASED or found.token in self.killed:
            return found is not None and found.state is State.QUARANTINED
        self.killed.add(found.token)
        pid = int(self._site.ledger.worker_name(found.holder).rpartition(":")[2])
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
        return False


def facts(site: Site, *command: str) -> Any:
    ended = site.run(*command, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def reason(site: Site, file: FileKey) -> dict[str, Any] | None:
    """Return the document in the bucket."""
    key = site.layout.reason(file)
    if key not in site.objects(key):
        return None
    found: dict[str, Any] = json.loads(site.body(site.client(), key))
    return found


def test_a_file_that_kills_its_workers_is_a_dead_letter_and_all_else_goes_on(site: Site) -> None:
    site.start("worker")
    site.start("agent")
    killer = Killer(site)
    site.until(killer.is_done, "the poison quarantined")

    assert len(killer.killed) == 3
    assert record(site, POISON).lost == 3
    site.until(lambda: counts(site, WELL)[State.VERIFIED] == FILES, "the other run verified")
    site.until(lambda: site.ledger.markers(WELL) == {1}, "the other run complete")
    site.until(lambda: counts(site, ILL)[State.VERIFIED] == FILES - 1, "its neighbours verified")
    assert site.ledger.markers(ILL) == set()

    site.until(lambda: reason(site, POISON) is not None, "the bucket tells of it")
    told = reason(site, POISON)
    assert told is not None
    assert (told["status"], told["kind"], told["code"]) == ("dead", "worker_lost", "lease_expired")
    [letter] = facts(site, "dead-letters", "list")["letters"]
    assert letter == {name: value for name, value in told.items() if name != "labferry_reason"}
    assert [(one["token"], one["kind"]) for one in letter["attempts"]] == [
        (token, "worker_lost") for token in sorted(killer.killed)
    ]
    assert len({one["worker"] for one in letter["attempts"]}) == 3

    [run] = [one for one in facts(site, "status")["runs"] if one["run"] == str(ILL)]
    assert run["state"] == "incomplete"
    assert [(cause["code"], cause["count"]) for cause in run["causes"]] == [("lease_expired", 1)]
    assert run["files"]["verified"] == FILES - 1

    _give_up(site)
    _change_what_was_verified(site)


def _give_up(site: Site) -> None:
    """A person discards it: on record with who and why, here and in the bucket."""
    ended = site.run("dead-letters", "discard", "--file", str(POISON), "--reason", "LIMS-7")
    assert (ended.returncode, "--yes" in ended.stderr) == (4, True)
    ended = site.run(
        "dead-letters", "discard", "--file", str(POISON), "--reason", "LIMS-7", "--yes"
    )
    assert ended.returncode == 0, ended.stderr
    assert record(site, POISON).state is State.DISCARDED

    def is_told() -> bool:
        told = reason(site, POISON)
        return told is not None and told["status"] == "discarded"

    site.until(is_told, "the bucket tells that it was discarded")
    told = reason(site, POISON)
    assert told is not None
    assert [act["reason"] for act in told["acts"]] == ["LIMS-7"]
    assert len(told["attempts"]) == 3
    [entry] = facts(site, "audit", str(ILL))["entries"]
    assert (entry["reason"], entry["files"][0]["path"]) == ("LIMS-7", POISON.path)
    assert site.run("audit", "verify").returncode == 0
    assert "LIMS-7" in site.run("explain", str(POISON)).stdout


def _change_what_was_verified(site: Site) -> None:
    """The agent finds another file where one was verified, in a run that is complete."""
    changed = FileKey(WELL, "d/7.txt")
    raw = site.body(site.client(), site.layout.raw(changed))
    (site.roots["seq"] / WELL.run / changed.path).write_bytes(b"other bytes")
    site.until(lambda: reason(site, changed) is not None, "the bucket tells of the conflict")
    told = reason(site, changed)
    assert told is not None
    assert told["code"] == "changed_after_verified"
    assert told["checksums"]["crc64nvme"]
    assert site.body(site.client(), site.layout.raw(changed)) == raw
    assert site.ledger.markers(WELL) == {1}

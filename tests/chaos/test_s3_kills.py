"""Does a worker process killed before or after any of its S3 calls leave nothing half done?

Test 1 of research (docs/proof.md), with SIGKILL and real processes; at the calls of the ledger, and
with more kinds of endpoint: tests/chaos/test_kill_at_every_call.py.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.identity import FileKey, RunKey
from labferry.s3.checksum import crc64nvme
from labferry.s3.probe import prove
from labferry.s3.store import open_store
from labferry.settings import StoreSettings
from labferry.states import Event, State
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Kill, rule
from tests.quay import (
    COMPLETE,
    CREATE,
    HEAD,
    LIST,
    LIST_UPLOADS,
    PART,
    PART_PUT,
    PUT,
    behind,
)
from tests.site import Changes, Site, open_site

RUN = RunKey("scope", "movie 1")
PARTS = 2
#: The calls of one large file in their order, each by its operation and how often it came.
CALLS = [
    (HEAD, 1),
    (LIST_UPLOADS, 1),
    (CREATE, 1),
    (PART_PUT, 1),
    (PART_PUT, 2),
    (COMPLETE, 1),
    (HEAD, 2),
    (LIST_UPLOADS, 2),
]
LARGE = {
    f"{operation} {nth} {'after' if applied else 'before'}": (operation, nth, applied)
    for operation, nth in CALLS
    for applied in (False, True)
}
SMALL = {f"{PUT} {'after' if applied else 'before'}": applied for applied in (False, True)}


@pytest.fixture
def site(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    ledger_url: str,
    broker_url: str,
) -> Iterator[Site]:
    """A run with a file for each kill; nothing runs yet."""
    folder = tmp_path / "share" / RUN.run
    folder.mkdir(parents=True)
    for name in LARGE:
        (folder / name).write_bytes(os.urandom(PART + 1))
    for name in SMALL:
        (folder / name).write_bytes(name.encode())
    changes: Changes = {
        "ledger": {"resend_s": 1, "sweep_interval_s": 0.2},
        "retry": {"worker_losses": 20, "base_s": 0.1, "cap_s": 0.1, "floor_s": 0.05},
        "worker": {"large_processes": 2, "part_threads": 1, "max_bytes_in_flight": PART},
    }
    soon = {"complete_timeout_s": 5}
    settings = behind(fault_proxy, store_settings).model_copy(update=soon)
    with open_site(tmp_path, valkey, settings, {"scope": tmp_path / "share"}, changes) as opened:
        opened.ledger.save_proof(
            settings.endpoint,
            prove(open_store(settings), opened.layout, now_ms=opened.ledger.now_ms()),
            keep_s=3600,
        )
        yield opened


def test_a_worker_killed_before_or_after_any_call_leaves_one_good_object_a_file_and_one_marker(
    site: Site, fault_proxy: FaultProxy
) -> None:
    """Test 1: what the server acknowledged is not sent again, and no upload stays open."""
    raw, runs = site.layout.raw_prefix(RUN), site.layout.marker(RUN, 1).rpartition("/")[0]
    fault_proxy.script(
        *[
            rule(Kill(applied), on=operation, key=f"*/{name}", nth=nth)
            for name, (operation, nth, applied) in LARGE.items()
        ],
        *[rule(Kill(applied), on=PUT, key=f"*/{name}", nth=1) for name, applied in SMALL.items()],
        # The run's completion dies at one call after the other.
        rule(Kill(applied=False), on=LIST, key=raw, nth=1),
        rule(Kill(applied=True), on=LIST, key=raw, nth=2),
        rule(Kill(applied=False), on=PUT, key=f"{runs}/manifest.jsonl", nth=1),
        rule(Kill(applied=True), on=PUT, key=f"{runs}/manifest.jsonl", nth=2),
        rule(Kill(applied=False), on=PUT, key=f"{runs}/complete.json", nth=1),
        rule(Kill(applied=True), on=PUT, key=f"{runs}/complete.json", nth=2),
    )
    site.start("worker")
    site.start("agent")

    def complete() -> bool:
        # The dead completer's lock ends by itself after a minute; the test does not wait for that.
        site.ledger._server.client.delete(f"labferry:leader:complete:{RUN}")
        return site.outlives()

    site.until(complete, "the run complete in spite of all kills")
    kills = fault_proxy.asked(fault="Kill")
    sent = Counter((one.key, one.part) for one in fault_proxy.asked(PART_PUT))
    fault_proxy.script()

    assert len(kills) == len(LARGE) + len(SMALL) + 6
    every_file_is_good(site)
    every_history_is_legal(site)
    # Only the part that was on its way when its sender died is sent again.
    again = {key.rpartition("/")[2] for (key, _), count in sent.items() if count > 1}
    assert again <= {name for name in LARGE if name.startswith(PART_PUT)}
    assert max(sent.values()) <= 2
    uploads = site.client().list_multipart_uploads(Bucket=site.store_settings.bucket, Prefix=raw)
    assert uploads.get("Uploads", []) == []
    assert site.ledger.markers(RUN) == {1}
    assert set(site.objects(f"{runs}/")) == {f"{runs}/manifest.jsonl", f"{runs}/complete.json"}


def every_file_is_good(site: Site) -> None:
    client = site.client()
    assert set(site.objects(site.layout.raw_prefix(RUN))) == {
        site.layout.raw(FileKey(RUN, name)) for name in (*LARGE, *SMALL)
    }
    for name in (*LARGE, *SMALL):
        file = FileKey(RUN, name)
        source = (site.roots["scope"] / RUN.run / name).read_bytes()
        record = site.ledger.find_record(file)
        assert record is not None
        assert (record.state, record.attempt, record.rounds) == (State.VERIFIED, 0, 0), name
        assert record.evidence is not None
        assert record.evidence.crc64 == crc64nvme(source)
        assert site.body(client, site.layout.raw(file)) == source


def every_history_is_legal(site: Site) -> None:
    for name in (*LARGE, *SMALL):
        events = {note.event for note in site.ledger.history(FileKey(RUN, name))}
        assert events == {Event.EXPIRE}, name

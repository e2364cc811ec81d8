"""Does the bundle of a run hold all that is known of it, and nothing secret?"""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from labferry.errors import NotFound, StoreError
from labferry.identity import RunKey
from labferry.ports import ObjectStore
from labferry.records import Completion, Note, Step
from labferry.settings import LedgerSettings, Settings, StoreSettings
from labferry.settings_events import EventSettings
from labferry.states import Event
from ops.bundle import shown_settings, write_bundle
from tests.bucket_by_hand import RUN, complete_bucket
from tests.ledger_world import ACT, PRINT
from tests.memory_ledger import MemoryLedger
from tests.memory_store import MemoryStore

SECRETS = ("tell-nobody", "token=", "--password")


def settings() -> Settings:
    return Settings.model_construct(
        store=StoreSettings(bucket="lab-bucket", prefix="lab"),
        ledger=LedgerSettings(url="redis://ada:tell-nobody@host:6379/1"),
        events=EventSettings(
            webhook_url="https://ada:tell-nobody@hook.example.org/a?token=1",
            webhook_secret="tell-nobody",
            command=("mail", "--password", "tell-nobody"),
            celery_broker_url="amqp://ada:tell-nobody@rabbit/",
        ),
    )


@pytest.fixture
def ledger() -> MemoryLedger:
    found = MemoryLedger()
    found.discover(RUN, [("a.txt", PRINT)])
    note = Note(event=Event.REFUSE, kind="permanent", code="bad_name", message="no key holds it")
    found.move(RUN, Event.REFUSE, [Step(path="a.txt", note=note)])
    found.record_act(RUN, ACT)
    completion = Completion(
        generation=1,
        file_count=1,
        manifest_key="m",
        manifest_digest="d",
        marker_key="k",
        event='{"event": 1}',
    )
    found.complete(RUN, completion)
    return found


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        found = {one.name.partition("/")[2]: tar.extractfile(one) for one in tar.getmembers()}
        return {name: file.read() for name, file in found.items() if file}


def write(ledger: MemoryLedger, store: ObjectStore, path: Path) -> dict[str, bytes]:
    write_bundle(settings(), ledger, store, RUN, path)
    return members(path)


def test_everything_that_is_known_is_in_it(ledger: MemoryLedger, tmp_path: Path) -> None:
    store = complete_bucket()
    found = write(ledger, store, tmp_path / "b.tar.gz")
    assert sorted(found) == [
        "SHA256SUMS", "audit.json", "audit.log", "bucket/1/complete.json",
        "bucket/1/manifest.jsonl", "deliveries.json", "events.jsonl", "files.jsonl", "run.json",
        "settings.json",
    ]  # fmt: skip
    assert found["bucket/1/manifest.jsonl"] in {one.body for one in store.objects.values()}
    (file,) = map(json.loads, found["files.jsonl"].splitlines())
    assert (file["path"], file["history"][0]["code"]) == ("a.txt", "bad_name")
    assert json.loads(found["audit.json"])["whole"]
    assert ACT.reason in found["audit.log"].decode()
    assert found["events.jsonl"] == b'{"event": 1}\n'
    assert json.loads(found["run.json"])["run"] == str(RUN)


def test_each_member_is_listed_with_its_digest(ledger: MemoryLedger, tmp_path: Path) -> None:
    found = write(ledger, complete_bucket(), tmp_path / "b.tar.gz")
    sums = dict(line.split("  ")[::-1] for line in found.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(body).hexdigest() for name, body in found.items()}


def test_no_secret_is_in_it(ledger: MemoryLedger, tmp_path: Path) -> None:
    found = write(ledger, complete_bucket(), tmp_path / "b.tar.gz")
    for body in found.values():
        for secret in SECRETS:
            assert secret.encode() not in body
    shown = json.loads(found["settings.json"])
    assert shown["ledger"]["url"] == "redis://ada:***@host:6379/1"
    assert shown["events"]["webhook_url"] == "https://hook.example.org/..."
    assert shown_settings({"command": []}) == {"command": []}


def test_a_bundle_is_there_whole_or_not_at_all(ledger: MemoryLedger, tmp_path: Path) -> None:
    class Down(MemoryStore):
        def read(self, key: str, version_id: str = "") -> Any:
            raise StoreError(operation="GetObject", key=key, code="SlowDown", status=503)

    with pytest.raises(StoreError):
        write(ledger, Down(), tmp_path / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_not_known_has_none(ledger: MemoryLedger, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        write_bundle(settings(), ledger, MemoryStore(), RunKey("a", "b"), tmp_path / "b")

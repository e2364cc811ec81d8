"""Credentials that expire, or are wrong for good: real workers behind a proxy that checks keys.

The proxy takes any key but those that expired, and signs requests anew for the server.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import pytest

from labferry.breakers import Breaker, Phase
from labferry.failures import Cause
from labferry.identity import FileKey, RunKey
from labferry.records import FileRecord
from labferry.settings import StoreSettings
from labferry.states import Event, State
from ops.embedded import Valkey, Weed
from tests.fault_proxy import FaultProxy
from tests.faults import XML, Exchange, Fault, Hold, error_xml, rule
from tests.quay import PART_PUT
from tests.s3_requests import Reply
from tests.site import Changes, Site, alerts_kept, open_site

MIB = 1024 * 1024
RUN = RunKey("scope", "run")
LARGE = FileKey(RUN, "large.raw")
PARTS, SENT = 12, 3
FILES = 31


@dataclass(frozen=True, slots=True)
class Checked(Fault):
    """A request is carried out if its key is not among the expired ones."""

    expired: set[str] = field(default_factory=set)
    code: str = "ExpiredToken"
    hold: Hold = field(default_factory=lambda: Hold(after=inf))

    async def play(self, exchange: Exchange) -> None:
        if exchange.request.operation == PART_PUT and exchange.request.key.endswith(LARGE.path):
            await self.hold.wait()
        request = await exchange.read_body()
        key = request.header("authorization").partition("Credential=")[2].partition("/")[0]
        if key in self.expired:
            body = error_xml(self.code)
            await exchange.answer(Reply(status=403, headers=(XML,), body=body))
        else:
            await exchange.answer(await exchange.forward(request, sign=True))


class Keys:
    """The file in which the workers find their credentials."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)

    def write(self, name: str) -> None:
        text = f"[default]\naws_access_key_id = {name}\naws_secret_access_key = secret-{name}\n"
        self._path.with_suffix(".new").write_text(text)
        self._path.with_suffix(".new").rename(self._path)


@pytest.fixture
def proxy(weed: Weed) -> Iterator[FaultProxy]:
    with FaultProxy(weed.endpoint, credentials=(weed.access_key, weed.secret_key)) as running:
        yield running


@pytest.fixture
def keys(tmp_path: Path, store_settings: StoreSettings, monkeypatch: pytest.MonkeyPatch) -> Keys:
    assert store_settings
    keys = Keys(tmp_path / "credentials", monkeypatch)
    keys.write("OLD")
    return keys


@pytest.fixture
def site(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    ledger_url: str,
    broker_url: str,
    proxy: FaultProxy,
    keys: Keys,
) -> Iterator[Site]:
    """A run with one large file and some small ones, and a command that keeps alerts."""
    folder = tmp_path / "scope" / RUN.run
    folder.mkdir(parents=True)
    (folder / LARGE.path).write_bytes(os.urandom(PARTS * 5 * MIB))
    for number in range(FILES - 1):
        (folder / f"{number}.txt").write_bytes(b"x" * number)
    store = store_settings.model_copy(
        update={
            "endpoint_url": proxy.url,
            "single_put_max_bytes": MIB,
            "part_size_bytes": 5 * MIB,
        }
    )
    alerts = {
        **alerts_kept(tmp_path),
        "webhook_url": "http://127.0.0.1:9/hook",  # nobody listens there
        "timeout_s": 60,
    }
    one_by_one = {"part_threads": 1, "max_bytes_in_flight": 5 * MIB}
    # What comes back while the ramp is remembered is the same trouble: no second alert.
    changes: Changes = {
        "alerts": alerts,
        "breakers": {"ramp_s": 5},
        "worker": one_by_one,
    }
    with open_site(tmp_path, valkey, store, {"scope": tmp_path / "scope"}, changes) as opened:
        yield opened


def record(site: Site, file: FileKey = LARGE) -> FileRecord:
    found = site.ledger.find_record(file)
    assert found is not None
    return found


def acknowledged(site: Site) -> int:
    upload = site.ledger.find_upload(LARGE)
    return sum(1 for part in upload.parts.values() if part.etag) if upload else 0


def waiting(site: Site) -> int:
    """How many files wait, or are tried."""
    facts = site.ledger.find_facts(RUN)
    states = (State.HELD, State.ELIGIBLE, State.UPLOADING)
    return sum(facts.counts[state] for state in states) if facts else 0


def breaker(site: Site) -> Breaker | None:
    found = [one for one in site.ledger.conditions().breakers if one.cause is Cause.CREDENTIALS]
    return found[0] if found else None


def is_held(site: Site) -> bool:
    seen = breaker(site)
    return seen is not None and seen.phase is Phase.OPEN and seen.probes >= 2


def test_credentials_that_expire_in_mid_upload_and_are_renewed_resume_the_same_upload(
    site: Site, proxy: FaultProxy, keys: Keys
) -> None:
    checked = Checked(hold=Hold(after=SENT))
    proxy.script(rule(checked))
    site.start("worker")
    site.start("agent")
    site.until(lambda: acknowledged(site) == SENT, "some parts sent")
    checked.expired.add("OLD")
    checked.hold.open()
    site.until(lambda: is_held(site), "held, and probed in vain")
    plan = site.ledger.find_upload(LARGE)
    assert plan is not None
    assert acknowledged(site) == SENT
    assert record(site).state is not State.QUARANTINED

    keys.write("NEW")
    site.until(site.complete, "the run complete")

    head = site.client().head_object(Bucket=site.store_settings.bucket, Key=site.layout.raw(LARGE))
    assert head["Metadata"]["labferry-attempt"] == plan.attempt_token
    key = site.layout.raw(LARGE)
    assert proxy.count("CreateMultipartUpload", key) == 1
    good = [one.part for one in proxy.asked("UploadPart", key) if one.answered == 200]
    assert sorted(good) == list(range(1, PARTS + 1)), "no part was sent twice"
    assert (record(site).attempt, record(site).lost) == (0, 0)
    events = [note.event for note in site.ledger.history(LARGE)]
    assert set(events) <= {Event.HOLD}
    assert len(events) <= 1
    site.until(lambda: len(site.told()) == 1, "the alert delivered")
    assert str(site.told()[0]["text"]).startswith("credentials:")


def test_credentials_that_are_wrong_for_good_hold_everything_and_are_told_of_once(
    site: Site, proxy: FaultProxy, keys: Keys
) -> None:
    proxy.script(rule(Checked({"OLD"}, "InvalidAccessKeyId")))
    for _ in range(2):
        site.start("worker")
    site.start("agent")

    def has_settled() -> bool:
        seen = breaker(site)
        return seen is not None and seen.probes >= 8

    site.until(has_settled, "eight probes in vain")
    site.until(lambda: waiting(site) == FILES, "all files wait")
    asked = proxy.count()
    seen = breaker(site)
    assert seen is not None
    # Nothing was ever proven of this endpoint: each probe begins with that.
    assert asked <= 6 * seen.probes + 10
    assert proxy.count(key=f"{site.layout.prefix}/runs/*") == 0

    # A dead webhook keeps neither the command from its alert nor the sweep from its work.
    site.until(lambda: len(site.told()) == 1, "the alert delivered")
    assert "InvalidAccessKeyId" in str(site.told()[0]["text"])
    site.until(lambda: bool(site.ledger.undelivered()), "the webhook's failure on record")
    (waits,) = site.ledger.undelivered()
    assert (waits.sink, waits.waiting) == ("webhook", 1)
    assert "ConnectionRefusedError" in waits.why

    keys.write("NEW")
    site.until(site.complete, "the run complete")
    assert len(site.told()) == 1

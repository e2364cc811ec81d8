"""Are ledger and broker reached over TLS, by processes that fork, and only where they are proven?

By the URLs of docs/hosts.md. The wheel's Valkey has no TLS of its own: tests.tls_front gives it.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from labferry.celery_events import CeleryQueue, CeleryTask
from labferry.errors import NotDelivered, SettingsError
from labferry.event_sinks import Parcel
from labferry.ledger import open_ledger
from labferry.settings import BrokerSettings, LedgerSettings, Settings, StoreSettings
from labferry.settings_events import EventSettings
from ops.doctor.broker import look_at_broker
from ops.doctor.finding import Finding, Verdict
from ops.doctor.ledger import look_at_ledger
from ops.embedded import Valkey
from ops.exits import Exit
from ops.loopback import HOST
from tests.certificates import Certified, certified
from tests.services import BROKER_DATABASE, LEDGER_DATABASE
from tests.site import open_site
from tests.tls_front import tls_front

DOCS = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text("utf-8")
FILES = 12
PARCEL = Parcel(kind="run.completed", id="i", run="scope/run 1", body=b'{"a":1}', sent_ms=1)


@dataclass(frozen=True)
class Front:
    """A Valkey behind TLS; the URLs are those of the documents."""

    port: int
    authority: Path

    def url(self, row: str, authority: Path | None = None) -> str:
        shown: str
        (shown,) = re.findall(rf"^\| {row} \| `(rediss://.*?)` \|", DOCS, re.MULTILINE)
        url = shown.replace("HOST:6380", f"{HOST}:{self.port}")
        return url.replace("/etc/labferry/ca.pem", str(authority or self.authority))

    def settings(self, authority: Path | None = None) -> Settings:
        return Settings.model_construct(
            ledger=LedgerSettings(url=self.url("TLS", authority)),
            broker=BrokerSettings(url=self.url("with TLS", authority)),
            events=EventSettings(celery_task="pipeline.start", celery_queue="pipeline"),
            store=StoreSettings(bucket="lab-bucket"),
            instruments={},
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("tls"), f"IP:{HOST}")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """Of another authority, and for another host."""
    return certified(tmp_path_factory.mktemp("stranger"), "DNS:elsewhere")


@pytest.fixture
def front(valkey: Valkey, ledger_url: str, broker_url: str, made: Certified) -> Iterator[Front]:
    with tls_front(valkey.port, made.chain) as port:
        yield Front(port, made.authority)


def test_a_run_is_ferried_with_ledger_and_broker_over_tls(
    tmp_path: Path, valkey: Valkey, front: Front, store_settings: StoreSettings
) -> None:
    share = tmp_path / "share"
    (share / "run 1").mkdir(parents=True)
    for number in range(FILES):
        (share / "run 1" / f"{number}").write_bytes(os.urandom(1000))
    changes = {"ledger": {"url": front.url("TLS")}, "broker": {"url": front.url("with TLS")}}
    with open_site(tmp_path, valkey, store_settings, {"scope": share}, changes) as site:
        site.start("worker")
        site.start("agent")
        site.until(site.complete, "the run complete")
        (run,) = site.ledger.runs()
        assert site.verified(run) == FILES
        told = site.run("doctor", "--light")
        assert told.returncode == Exit.DONE, told.stdout


def test_a_worker_ends_where_the_authority_is_another_and_says_what_mends_it(
    tmp_path: Path,
    valkey: Valkey,
    front: Front,
    stranger: Certified,
    store_settings: StoreSettings,
) -> None:
    share = tmp_path / "share"
    share.mkdir()
    changes = {
        "ledger": {"url": front.url("TLS", stranger.authority)},
        "broker": {"url": front.url("with TLS", stranger.authority)},
    }
    with open_site(tmp_path, valkey, store_settings, {"scope": share}, changes) as site:
        done = site.run("worker")
    assert done.returncode == Exit.UNAVAILABLE
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr
    assert "Let `ssl_ca_certs` in [ledger] url name the authority" in done.stderr


def answers(settings: Settings) -> list[Finding]:
    found = [*look_at_ledger(settings, time.time), *look_at_broker(settings)]
    return [one for one in found if one.check == "answer"]


def are_refused(settings: Settings) -> bool:
    found = answers(settings)
    assert {one.area for one in found} == {"ledger", "broker"}
    return all(
        one.verdict is Verdict.BAD and "`ssl_ca_certs`" in f"{one.seen} {one.step}" for one in found
    )


def test_the_doctor_names_an_authority_that_is_not_the_server_s(
    front: Front, stranger: Certified
) -> None:
    assert {one.verdict for one in answers(front.settings())} == {Verdict.GOOD}
    assert are_refused(front.settings(stranger.authority))


def test_the_doctor_names_a_certificate_that_is_for_another_host(
    valkey: Valkey, stranger: Certified
) -> None:
    with tls_front(valkey.port, stranger.chain) as port:
        assert are_refused(Front(port, stranger.authority).settings())


def test_a_url_without_options_trusts_what_the_system_trusts_alone(front: Front) -> None:
    urls = {"ledger": LEDGER_DATABASE, "broker": BROKER_DATABASE}
    bare = {name: f"rediss://{HOST}:{front.port}/{number}" for name, number in urls.items()}
    settings = Settings.model_construct(
        ledger=LedgerSettings(url=bare["ledger"]),
        broker=BrokerSettings(url=bare["broker"]),
        instruments={},
    )
    assert are_refused(settings)


def test_a_ledger_s_options_of_tls_without_tls_are_told_and_no_fault_of_labferry_s() -> None:
    with pytest.raises(SettingsError, match="or rediss:// with TLS"):
        open_ledger(LedgerSettings(url=f"redis://{HOST}:1/1?ssl_ca_certs=/etc/labferry/ca.pem"))


def test_events_go_over_it_too(front: Front) -> None:
    CeleryTask(front.settings()).deliver(PARCEL)
    taken: list[object] = []
    queue = CeleryQueue(front.settings(), wait_s=5)
    assert queue.look(taken.append)
    queue.close()
    assert taken == [{"a": 1}]


def test_no_event_goes_to_a_server_that_is_not_trusted(front: Front, stranger: Certified) -> None:
    with pytest.raises(NotDelivered, match="CERTIFICATE_VERIFY_FAILED"):
        CeleryTask(front.settings(stranger.authority)).deliver(PARCEL)

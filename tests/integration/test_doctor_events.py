"""Does `labferry doctor` say of each sink of events whether it could be reached?"""

from collections.abc import Iterator
from typing import Any

import pytest

from labferry.messages import CONTROL_QUEUE
from labferry.settings import BrokerSettings, Settings, StoreSettings
from labferry.settings_events import EventSettings
from ops.doctor.events import look_at_events
from ops.doctor.finding import Verdict
from tests.alert_server import AlertServer

DEAD = "http://127.0.0.1:1/hook?token=secret"


@pytest.fixture
def server() -> Iterator[AlertServer]:
    with AlertServer() as running:
        yield running


def findings(url: str = "redis://127.0.0.1:1/0", **events: Any) -> dict[str, Verdict]:
    settings = Settings.model_construct(
        store=StoreSettings(bucket="lab-bucket"),
        broker=BrokerSettings(url=url),
        events=EventSettings(**events),
        instruments={},
    )
    found = list(look_at_events(settings))
    assert not any("secret" in one.seen for one in found), "an address may hold a token"
    assert all(one.step for one in found if one.verdict is not Verdict.GOOD)
    return {one.check: one.verdict for one in found}


def test_without_sinks_nothing_is_said() -> None:
    assert findings() == {}


def test_a_webhook_is_reached_and_nothing_is_posted(server: AlertServer) -> None:
    found = findings(webhook_url=server.url, webhook_secret="s")
    assert found == {"webhook": Verdict.GOOD}
    assert server.bodies == []


def test_a_webhook_that_is_away_or_not_signed_is_told() -> None:
    found = findings(webhook_url=DEAD)
    assert found == {"webhook secret": Verdict.WARNING, "webhook": Verdict.UNKNOWN}


def test_a_command_has_to_be_there() -> None:
    assert findings(command=("sh", "-c", "true")) == {"command": Verdict.GOOD}
    assert findings(command=("/no/such/program",)) == {"command": Verdict.BAD}


def test_the_broker_of_events_is_asked(broker_url: str) -> None:
    assert findings(broker_url, celery_task="t") == {"celery": Verdict.GOOD}
    assert findings(celery_task="t") == {"celery": Verdict.UNKNOWN}


def test_a_queue_of_labferry_s_own_is_refused(broker_url: str) -> None:
    found = findings(broker_url, celery_task="t", celery_queue=CONTROL_QUEUE)
    assert found["celery queue"] is Verdict.BAD


def test_a_service_of_aws_is_looked_at(
    server: AlertServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", server.url.partition("/hook")[0])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server.answer = b"{}"
    url = "https://sqs.eu-west-1.amazonaws.com/1/q"
    assert findings(sqs_queue_url=url) == {"sqs": Verdict.GOOD}
    assert "/eu-west-1/sqs/" in server.headers[-1]["authorization"], "where the queue is"
    server.status = 403
    assert findings(sqs_queue_url=url) == {"sqs": Verdict.WARNING}

"""Are the foreign clients told what they must be told?"""

import pytest

from labferry.s3.clients import ClientsOfProcess, signs_payload
from labferry.settings import StoreSettings


@pytest.mark.parametrize(
    ("url", "signed"),
    [
        ("https://s3.eu-central-1.amazonaws.com", False),
        ("https://10.0.0.5:9000", False),
        ("http://127.0.0.1:8333", False),
        ("http://[::1]:8333", False),
        ("http://localhost:8333", False),
        ("http://10.0.0.5:9000", True),
        ("http://localhost.lab.example:9000", True),
        ("http://s3.lab.example", True),
    ],
)
def test_bodies_are_signed_where_nothing_else_protects_them(url: str, signed: bool) -> None:
    assert signs_payload(url) is signed


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> ClientsOfProcess:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return ClientsOfProcess(
        StoreSettings(
            bucket="lab-bucket",
            endpoint_url="http://s3.lab.example",
            region="eu-central-1",
            connect_timeout_s=3,
            read_timeout_s=7,
            complete_timeout_s=500,
        )
    )


def test_one_attempt_own_checksums_and_patience_for_complete(made: ClientsOfProcess) -> None:
    clients = made.get()
    for client, read_timeout_s in ((clients.calls, 7), (clients.patient, 500)):
        config = client.meta.config
        assert config.retries["total_max_attempts"] == 1
        assert config.request_checksum_calculation == "when_required"
        assert config.response_checksum_validation == "when_required"
        assert (config.connect_timeout, config.read_timeout) == (3, read_timeout_s)
        assert config.max_pool_connections >= 256 + 2
        assert config.tcp_keepalive is True
        assert config.s3 == {"addressing_style": "path", "payload_signing_enabled": True}
        assert client.meta.endpoint_url == "http://s3.lab.example"
        assert client.meta.region_name == "eu-central-1"


def test_clients_are_made_once_and_anew_when_forgotten(made: ClientsOfProcess) -> None:
    first = made.get()
    assert made.get() is first
    made.forget(first)
    second = made.get()
    assert second is not first
    made.forget(first)
    assert made.get() is second


def test_another_process_gets_clients_of_its_own(
    made: ClientsOfProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made.get()
    monkeypatch.setattr("labferry.s3.clients.os.getpid", lambda: first.pid + 1)
    assert made.get() is not first


def test_unset_endpoint_means_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    settings = StoreSettings(bucket="lab-bucket", region="eu-central-1")
    clients = ClientsOfProcess(settings).get()
    assert clients.calls.meta.endpoint_url == "https://s3.eu-central-1.amazonaws.com"
    assert clients.calls.meta.config.s3["payload_signing_enabled"] is False

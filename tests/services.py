"""Which real servers do tests run against? One Valkey and one SeaweedFS for a whole session."""

import secrets
from collections.abc import Iterator

import pytest
import redis

from labferry.settings import StoreSettings
from ops.embedded import Valkey, Weed

BUCKET = "lab-bucket"
BROKER_DATABASE = 0
LEDGER_DATABASE = 1


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """A Valkey; `valkey.url(database)` names one of its databases."""
    server = Valkey()
    server.start()
    yield server
    server.stop(grace_s=0)


@pytest.fixture(scope="session")
def weed() -> Iterator[Weed]:
    """A SeaweedFS with one bucket: `.endpoint`, `.bucket`, `.access_key`, `.secret_key`."""
    server = Weed(BUCKET)
    server.start()
    yield server
    server.stop(grace_s=0)


@pytest.fixture
def ledger_url(valkey: Valkey) -> str:
    """An empty database for the ledger."""
    return _emptied(valkey.url(LEDGER_DATABASE))


@pytest.fixture
def broker_url(valkey: Valkey) -> str:
    """An empty database for the broker."""
    return _emptied(valkey.url(BROKER_DATABASE))


@pytest.fixture
def store_settings(weed: Weed, monkeypatch: pytest.MonkeyPatch) -> StoreSettings:
    """The bucket, below a prefix of this test's own, with credentials in the environment."""
    for name, value in credentials(weed).items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    return StoreSettings(
        bucket=weed.bucket, endpoint_url=weed.endpoint, prefix=f"test-{secrets.token_hex(6)}"
    )


def credentials(weed: Weed) -> dict[str, str]:
    """Return the environment variables under which the AWS chain finds the server's user."""
    return {
        "AWS_ACCESS_KEY_ID": weed.access_key,
        "AWS_SECRET_ACCESS_KEY": weed.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _emptied(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url

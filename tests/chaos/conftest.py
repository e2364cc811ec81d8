"""What do tests that break things run on? The real servers, with the fault proxy before S3."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.settings import StoreSettings
from ops.embedded import Weed
from tests.fault_proxy import FaultProxy
from tests.quay import Quay, Stores, open_quay, open_stores
from tests.services import credentials


@pytest.fixture(scope="session")
def fault_proxy(weed: Weed) -> Iterator[FaultProxy]:
    """The proxy in front of the session's SeaweedFS."""
    credentials = (weed.access_key, weed.secret_key)
    with FaultProxy(weed.endpoint, credentials=credentials) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def stores(weed: Weed, fault_proxy: FaultProxy) -> Stores:
    """The bucket through the proxy and directly, for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials(weed).items():
            patch.setenv(name, value)
        settings = StoreSettings(bucket=weed.bucket, endpoint_url=weed.endpoint)
        made = open_stores(settings, fault_proxy)
        for store in (made.proxied, made.direct):
            store.find_object("made at the first use")
        return made


@pytest.fixture
def quay(
    tmp_path: Path,
    ledger_url: str,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    stores: Stores,
) -> Quay:
    """A run whose files go to S3 through the proxy; no rules yet."""
    fault_proxy.script()
    return open_quay(tmp_path, ledger_url, store_settings, fault_proxy, stores)

"""A dock whose S3 server is real and reached through the fault proxy."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labferry.records import Proof
from labferry.s3.checksum import crc64nvme
from labferry.s3.store import S3Store, open_store
from labferry.settings import StoreSettings
from labferry.states import State
from tests.dock import PROVEN, RUN, Dock
from tests.fault_proxy import FaultProxy
from tests.faults import Rule
from workers.transfer import Result

MIB = 1024 * 1024
#: The least that a server takes for a part that is not the last.
PART = 5 * MIB
#: Small files ride in one Put, larger ones in parts.
SINGLE_MAX = MIB // 4

PUT, PART_PUT, HEAD, GET = "PutObject", "UploadPart", "HeadObject", "GetObject"
CREATE, COMPLETE, ABORT = (
    "CreateMultipartUpload",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
)
LIST, LIST_PARTS, LIST_UPLOADS = "ListObjectsV2", "ListParts", "ListMultipartUploads"


def behind(proxy: FaultProxy, settings: StoreSettings) -> StoreSettings:
    """Return the bucket's settings with the proxy for its endpoint, and small sizes."""
    changes = {
        "endpoint_url": proxy.url,
        "single_put_max_bytes": SINGLE_MAX,
        "part_size_bytes": PART,
        "complete_timeout_s": 60,
    }
    return settings.model_copy(update=changes)


@dataclass
class Quay:
    """`dock.store` is asked through the proxy, `direct` is the server itself."""

    dock: Dock
    proxy: FaultProxy
    direct: S3Store
    results: dict[str, Result] = field(default_factory=dict)

    def write(self, name: str, body: bytes) -> None:
        """Write a source file and settle it."""
        self.dock.write(name, body)
        self.dock.settle(name)

    def lose_patience(self, **timeouts_s: float) -> None:
        """Ask S3 with other timeouts from now on."""
        changed = behind(self.proxy, self.dock.settings.store).model_copy(update=timeouts_s)
        self.dock.store = open_store(changed)

    def ferry(self, *rules: Rule, proof: Proof = PROVEN, **options: Any) -> dict[str, Result]:
        """Ferry what is eligible, once, under these rules; `results` has each file's last one."""
        self.proxy.script(*rules)
        results = self.dock.ferry(proof=proof, **options)
        self.results |= results
        return results

    def finish(self, *rules: Rule, **options: Any) -> None:
        """Ferry until every file is at rest, under these rules."""
        self.proxy.script(*rules)
        self.dock.finish(**options)

    def verified(self, *names: str) -> None:
        """Demand one good object a file and no upload left open, by asking the server itself."""
        for name in names:
            key, source = self.dock.key(name), self.dock.source(name).read_bytes()
            assert self.dock.state(name) is State.VERIFIED, self.dock.codes(name)
            found = self.direct.find_object(key)
            assert found is not None
            evidence = self.dock.record(name).evidence
            assert evidence is not None
            assert (evidence.crc64, evidence.etag) == (crc64nvme(source), found.etag)
            assert b"".join(self.direct.read(key)) == source
            assert self.uploads(name) == []
            assert self.dock.ledger.find_upload(RUN.file(name)) is None

    def held(self, name: str, code: str) -> None:
        """Demand that a file waits for the environment, says why, and has cost nothing."""
        record, failure = self.dock.record(name), self.results[name].failure
        assert record.state is State.HELD, self.dock.codes(name)
        assert (record.attempt, record.lost, record.rounds) == (0, 0, 0)
        assert failure is not None
        assert failure.code == code

    def absent(self, name: str) -> None:
        """Demand that there is no object, by asking the server itself."""
        assert self.direct.find_object(self.dock.key(name)) is None

    def uploads(self, name: str) -> list[str]:
        """The uploads that are open for a file."""
        return self.direct.find_uploads(self.dock.key(name))

    def untouched(self, name: str) -> None:
        """Demand that nothing of it stands in the file's history and no attempt was counted."""
        record = self.dock.record(name)
        assert (record.attempt, record.lost, record.rounds) == (0, 0, 0)
        assert self.dock.codes(name) == []


@dataclass(frozen=True)
class Stores:
    """The bucket through the proxy, and directly; they take long to make."""

    proxied: S3Store
    direct: S3Store


def open_stores(settings: StoreSettings, proxy: FaultProxy) -> Stores:
    """Return both, for quays of one session."""
    return Stores(open_store(behind(proxy, settings)), open_store(settings))


def open_quay(
    folder: Path, url: str, settings: StoreSettings, proxy: FaultProxy, stores: Stores
) -> Quay:
    """Return a quay on an empty ledger."""
    dock = Dock(folder, url, stores.proxied, store_settings=behind(proxy, settings))
    dock.tune("worker", part_threads=1)
    # So long a Complete without an answer is awaited; the store waits longer for the answer.
    dock.tune("store", complete_timeout_s=0.4)
    return Quay(dock, proxy, stores.direct)

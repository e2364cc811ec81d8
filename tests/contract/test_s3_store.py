"""What is true of the S3 adapter on a real server alone?"""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from labferry.errors import StoreError
from labferry.identity import Layout
from labferry.records import Part, Proof
from labferry.s3.checksum import crc64nvme
from labferry.s3.probe import prove
from labferry.s3.store import S3Store, open_store
from labferry.settings import StoreSettings
from tests.waiting import PATIENCE_S

CALLS: dict[str, Callable[[S3Store], object]] = {
    "find_object": lambda store: store.find_object("k"),
    "put_fast": lambda store: store.put_fast("k", b"x", "t"),
    "put_absent": lambda store: store.put_absent("k", b"x", crc64nvme(b"x"), "t"),
    "create_upload": lambda store: store.create_upload("k", "t"),
    "find_uploads": lambda store: store.find_uploads("k"),
    "list_parts": lambda store: store.list_parts("k", "u"),
    "put_part": lambda store: store.put_part("k", "u", 1, b"x", crc64nvme(b"x")),
    "complete_upload": lambda store: store.complete_upload("k", "u", {1: Part(1, 1, "e")}, 1),
    "list_objects": lambda store: list(store.list_objects("k")),
    "read": lambda store: list(store.read("k")),
    "delete": lambda store: store.delete("k"),
}

#: Uses the fast way before and after a fork, as a worker does that was not careful.
FORKS = """
import os, sys
from labferry.s3.store import open_store
from labferry.settings import StoreSettings
prefix, endpoint, used_before = sys.argv[1:]
store = open_store(StoreSettings(bucket="lab-bucket", endpoint_url=endpoint))
store.find_object("warm")
if used_before == "fast":
    store.put_fast(f"{prefix}/parent", b"parent", "t")
children = []
for number in range(2):
    child = os.fork()
    if child == 0:
        store.put_fast(f"{prefix}/child{number}", b"child", "t")
        os._exit(0 if store.find_object(f"{prefix}/child{number}") else 1)
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
store.put_fast(f"{prefix}/parent-again", b"parent", "t")
sys.exit(max(statuses))
"""


@pytest.fixture
def store(store_settings: StoreSettings) -> S3Store:
    return open_store(store_settings)


def test_a_missing_bucket_is_told_by_every_call_and_never_made(
    store_settings: StoreSettings,
) -> None:
    store = open_store(store_settings.model_copy(update={"bucket": "lab-bukket"}))
    for name, call in CALLS.items():
        with pytest.raises(StoreError) as failed:
            call(store)
        assert (failed.value.code, failed.value.status) == ("NoSuchBucket", 404), name


@pytest.mark.parametrize(
    ("variable", "code"),
    [
        ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"),
    ],
)
def test_wrong_credentials_are_told_and_are_not_absence(
    store_settings: StoreSettings, monkeypatch: pytest.MonkeyPatch, variable: str, code: str
) -> None:
    monkeypatch.setenv(variable, "wrong")
    store = open_store(store_settings)
    for name, call in CALLS.items():
        with pytest.raises(StoreError) as failed:
            call(store)
        # An answer to HEAD has no body: a call that has one is asked what it means.
        assert (failed.value.code, failed.value.status) == (code, 403), name


def test_the_server_is_proven_and_kept_clean(store: S3Store, store_settings: StoreSettings) -> None:
    proof = prove(store, Layout(store_settings.prefix), now_ms=7)
    assert proof == Proof(
        refuses_wrong_checksum=True,
        attests_checksum=True,
        full_object=True,
        conditional_put=True,
        conditional_complete=True,
        content_md5=True,
        proven_ms=7,
    )
    assert list(store.list_objects(store_settings.prefix)) == []
    assert store.find_uploads(store_settings.prefix) == []


@pytest.mark.parametrize("used_before", ["fast", "no"])
def test_a_fork_neither_hangs_nor_shares_connections(
    store: S3Store, store_settings: StoreSettings, used_before: str
) -> None:
    prefix, endpoint = store_settings.prefix, str(store_settings.endpoint_url)
    done = subprocess.run(
        [sys.executable, "-c", FORKS, prefix, endpoint, used_before],
        env=dict(os.environ),
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0
    names = {listed.key.removeprefix(f"{prefix}/") for listed in store.list_objects(prefix)}
    parent = {"parent"} if used_before == "fast" else set()
    assert names == {"child0", "child1", "parent-again"} | parent

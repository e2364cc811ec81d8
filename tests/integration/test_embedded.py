"""Do the embedded servers come up, keep what they must and leave nothing behind?"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import boto3
import psutil
import pytest
import redis

from labferry.errors import ServiceFailed
from ops import embedded
from ops.embedded import Valkey, Weed
from tests.waiting import PATIENCE_S

#: Starts a server, tells its process id and folder, and is then killed without a chance.
ORPHANER = """
import sys, time
from ops.embedded import Valkey
server = Valkey().start()
print(server.pid, server.directory, flush=True)
time.sleep(60)
"""


def wait_for(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def listening_addresses(pid: int) -> set[str]:
    connections = psutil.Process(pid).net_connections("inet")
    return {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}


def test_valkey_is_durable_and_evicts_nothing(valkey: Valkey) -> None:
    with redis.Redis.from_url(valkey.url(3), decode_responses=True) as client:
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_servers_listen_on_loopback_alone(valkey: Valkey, weed: Weed) -> None:
    assert listening_addresses(valkey.pid) == {"127.0.0.1"}
    assert listening_addresses(weed.pid) == {"127.0.0.1"}


def test_a_killed_valkey_comes_back_with_its_data_under_the_same_url() -> None:
    with Valkey() as server:
        with redis.Redis.from_url(server.url()) as client:
            client.set("kept", "yes")
            client.execute_command("WAITAOF", 1, 0, 5000)
        server.kill()
        server.start()
        with redis.Redis.from_url(server.url()) as client:
            assert client.get("kept") == b"yes"


def test_a_given_folder_outlives_the_server(tmp_path: Path) -> None:
    with Valkey(tmp_path) as server, redis.Redis.from_url(server.url()) as client:
        client.set("kept", "yes")
    with Valkey(tmp_path) as server, redis.Redis.from_url(server.url()) as client:
        assert client.get("kept") == b"yes"


def test_nothing_is_left_after_a_stop() -> None:
    server = Valkey().start()
    pid, directory = server.pid, server.directory
    server.stop()
    assert not psutil.pid_exists(pid)
    assert not directory.exists()


def test_a_taken_port_is_replaced() -> None:
    with Valkey() as first, Valkey() as second:
        taken = first.port
        second.stop()
        second.port = taken
        second.start()
        assert second.port != taken
        with redis.Redis.from_url(second.url()) as client:
            assert client.info("server")["process_id"] == second.pid


def test_a_server_ends_with_a_parent_that_was_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANER], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert parent.stdout is not None
    with parent, parent.stdout:
        pid, _, directory = parent.stdout.readline().strip().partition(" ")
        parent.send_signal(signal.SIGKILL)
    try:
        assert wait_for(lambda: not psutil.pid_exists(int(pid)))
    finally:
        subprocess.run(["rm", "-rf", directory], check=True)


def test_a_server_that_does_not_come_up_says_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "_weed_binary", lambda: "/bin/false")
    server = Weed("lab-bucket")
    with pytest.raises(ServiceFailed, match="seaweedfs did not come up: it ended with status 1"):
        server.start()
    assert server.pid == 0


def test_a_bucket_that_is_missing_is_not_created(weed: Weed) -> None:
    session = boto3.Session(weed.access_key, weed.secret_key, region_name="us-east-1")
    client = session.client("s3", endpoint_url=weed.endpoint)
    with pytest.raises(client.exceptions.NoSuchBucket):
        client.put_object(Bucket="lab-bukket", Key="k", Body=b"")
    client.close()

"""Are many objects put at once, and is each told what became of it?"""

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from labferry.errors import StoreError
from labferry.s3.checksum import crc64nvme
from labferry.s3.store import S3Store, open_store
from labferry.settings import StoreSettings
from tests.canned_server import Answer, CannedServer

STORED = Answer(200, headers={"ETag": '"e"'})


class Small(NamedTuple):
    key: str
    body: bytes = b"bytes"
    crc64: int = crc64nvme(b"bytes")
    attempt_token: str = "t"


def puts(count: int) -> list[Small]:
    return [Small(f"raw/{number}") for number in range(count)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CannedServer]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with CannedServer() as server:
        yield server


def reach(server: CannedServer, read_timeout_s: float = 10) -> S3Store:
    return open_store(
        StoreSettings(bucket="lab-bucket", endpoint_url=server.url, read_timeout_s=read_timeout_s)
    )


def codes(found: list[tuple[Small, str | StoreError]]) -> list[str]:
    return sorted(one if isinstance(one, str) else one.code for _, one in found)


def test_many_are_under_way_before_the_first_is_answered_in_one_thread(
    server: CannedServer,
) -> None:
    server.answer(Answer(200, headers={"ETag": '"e"'}, once_asked=12))
    flying = reach(server).put_many(puts(20), lambda: 12)
    before = threading.active_count()
    first = next(flying)
    assert len(server.asked) == 12
    assert first[1] == "e"
    found = [first, *flying]
    assert {put.key for put, _ in found} == {put.key for put in puts(20)}
    assert codes(found) == ["e"] * 20
    assert threading.active_count() - before <= 20  # the server's own


def test_the_next_is_asked_for_when_there_is_room(server: CannedServer) -> None:
    server.answer(STORED)
    given: list[str] = []

    def source() -> Iterator[Small]:
        for put in puts(5):
            given.append(put.key)
            yield put

    for number, _ in enumerate(reach(server).put_many(source(), lambda: 1), 1):
        assert len(given) == number


def test_each_request_is_a_whole_one(server: CannedServer) -> None:
    server.answer(STORED)
    put = Small("raw/größe 1", b"x" * 200_000, crc64nvme(b"x" * 200_000), "token")
    assert codes(list(reach(server).put_many([put], lambda: 4))) == ["e"]
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("PUT", "/lab-bucket/raw/größe 1")
    assert asked.body == put.body
    assert asked.headers["if-none-match"] == "*"
    assert asked.headers["x-amz-meta-labferry-attempt"] == "token"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(then="drop"), "ConnectionClosedError"),
        (Answer(then="hang"), "ReadTimeoutError"),
        (Answer(200), "NoETag"),
        (Answer(412, "<Error><Code>PreconditionFailed</Code></Error>"), "PreconditionFailed"),
    ],
)
def test_what_becomes_of_one_is_not_its_neighbours(
    server: CannedServer, answer: Answer, code: str
) -> None:
    server.answer(answer, STORED)
    found = list(reach(server, read_timeout_s=3).put_many(puts(8), lambda: 4))
    assert codes(found) == sorted(["e"] * 7 + [code])


def test_an_answer_that_came_in_time_counts_though_it_was_read_late(server: CannedServer) -> None:
    server.answer(STORED, Answer(200, headers={"ETag": '"e"'}, after_s=0.2))
    flying = reach(server, read_timeout_s=3).put_many(puts(8), lambda: 8)
    found = [next(flying)]
    time.sleep(3.5)  # whoever asked was busy
    assert codes([*found, *flying]) == ["e"] * 8


def test_where_nobody_listens_each_is_told(server: CannedServer) -> None:
    settings = StoreSettings(bucket="lab-bucket", endpoint_url="http://127.0.0.1:1")
    found = list(open_store(settings).put_many(puts(3), lambda: 2))
    assert codes(found) == ["EndpointConnectionError"] * 3


def test_connections_are_kept_from_one_call_to_the_next(server: CannedServer) -> None:
    server.answer(STORED)
    store = reach(server)
    for _ in range(3):
        assert codes(list(store.put_many(puts(5), lambda: 2))) == ["e"] * 5
    assert len(server.peers) <= 2


def test_credentials_are_read_again_once_for_all_that_were_refused(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = reach(server)
    server.answer(Answer(403, "<Error><Code>ExpiredToken</Code></Error>"))
    assert codes(list(store.put_many(puts(6), lambda: 3))) == ["ExpiredToken"] * 6
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "renewed")
    server.answer(STORED)
    assert codes(list(store.put_many(puts(3), lambda: 3))) == ["e"] * 3
    assert all("Credential=renewed/" in one.headers["authorization"] for one in server.asked)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
def test_through_a_proxy_nothing_flies(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv(variable, server.url)
    server.answer(STORED)
    store = open_store(StoreSettings(bucket="lab-bucket", endpoint_url="http://s3.example"))
    assert not store.puts_many()
    assert store.put_fast("raw/k", b"x", "t") == "e"
    assert server.asked[0].headers["host"] == "s3.example"

"""Does the fault proxy do to requests what it is told, and write down what it did?"""

import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse

import pytest

from tests.canned_server import Answer as Canned
from tests.canned_server import CannedServer
from tests.fault_proxy import FaultProxy
from tests.faults import (
    Answer,
    Delay,
    Drip,
    DropAfter,
    DropBefore,
    Duplicate,
    EditReply,
    EditRequest,
    FlipByte,
    Hang,
    RepeatAnswer,
    ResetMid,
    Rule,
    Truncate,
    rule,
)
from tests.waiting import eventually

BODY = b"0123456789"


@pytest.fixture(scope="module")
def server() -> Iterator[CannedServer]:
    with CannedServer() as server:
        yield server


@pytest.fixture(scope="module")
def running(server: CannedServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.url, credentials=("user", "secret")) as proxy:
        yield proxy


@pytest.fixture
def proxy(running: FaultProxy, server: CannedServer) -> FaultProxy:
    running.script()
    server.answer(Canned(200, "whole body", {"ETag": '"e"', "x-amz-version-id": "v"}))
    return running


def ask(
    proxy: FaultProxy,
    method: str = "PUT",
    target: str = "/bucket/d/f%231",
    body: bytes = BODY,
    timeout_s: float = 20,
) -> tuple[int, bytes, HTTPResponse]:
    port = int(proxy.url.rpartition(":")[2])
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request(method, target, body if method in {"PUT", "POST"} else None)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer
    finally:
        connection.close()


def fails(proxy: FaultProxy, *error: type[Exception]) -> None:
    with pytest.raises(error or (ConnectionError, HTTPException)):
        ask(proxy, timeout_s=0.5)


def test_without_a_rule_a_request_passes_as_it_is(proxy: FaultProxy, server: CannedServer) -> None:
    status, body, answer = ask(proxy)
    assert (status, body, answer.headers["ETag"]) == (200, b"whole body", '"e"')
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("PUT", "/bucket/d/f#1", BODY)
    assert asked.headers["host"] == proxy.url.removeprefix("http://")
    (one,) = proxy.log
    assert (one.operation, one.key, one.nth, one.fault) == ("PutObject", "d/f#1", 1, "Pass")
    assert (one.upstream, one.answered) == ([200], 200)


@pytest.mark.parametrize(
    ("method", "target", "operation", "key"),
    [
        ("HEAD", "/b/k", "HeadObject", "k"),
        ("HEAD", "/b", "HeadBucket", ""),
        ("GET", "/b/k", "GetObject", "k"),
        ("GET", "/b/k?uploadId=u&part-number-marker=3", "ListParts", "k"),
        ("GET", "/b?uploads&prefix=a%2Fb", "ListMultipartUploads", "a/b"),
        ("GET", "/b?list-type=2&prefix=p%2F", "ListObjectsV2", "p/"),
        ("PUT", "/b/k", "PutObject", "k"),
        ("PUT", "/b/k?uploadId=u&partNumber=7", "UploadPart", "k"),
        ("POST", "/b/k?uploads", "CreateMultipartUpload", "k"),
        ("POST", "/b/k?uploadId=u", "CompleteMultipartUpload", "k"),
        ("DELETE", "/b/k?uploadId=u", "AbortMultipartUpload", "k"),
        ("DELETE", "/b/k", "DeleteObject", "k"),
    ],
)
def test_a_request_has_its_operation_and_key(
    proxy: FaultProxy, method: str, target: str, operation: str, key: str
) -> None:
    ask(proxy, method, target)
    assert (proxy.log[0].operation, proxy.log[0].key) == (operation, key)
    assert proxy.log[0].part == (7 if operation == "UploadPart" else 0)


def test_a_connection_carries_one_request_after_the_other(proxy: FaultProxy) -> None:
    connection = HTTPConnection("127.0.0.1", int(proxy.url.rpartition(":")[2]), timeout=20)
    for _ in range(2):
        connection.request("PUT", "/b/k", BODY)
        assert connection.getresponse().read() == b"whole body"
    connection.close()
    assert proxy.count("PutObject") == 2


def test_a_client_that_waits_to_send_its_body_is_told_to_go_on(
    proxy: FaultProxy, server: CannedServer
) -> None:
    with socket.create_connection(("127.0.0.1", int(proxy.url.rpartition(":")[2])), 20) as client:
        head = "PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        client.sendall(head.encode())
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"ab")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert server.asked[0].body == b"ab"
    assert "expect" not in server.asked[0].headers


def test_a_head_keeps_the_length_of_what_it_tells_of(proxy: FaultProxy) -> None:
    status, body, answer = ask(proxy, "HEAD")
    assert (status, body, answer.headers["Content-Length"]) == (200, b"", "10")


# -- faults


def test_a_request_dropped_before_never_arrives(proxy: FaultProxy, server: CannedServer) -> None:
    proxy.script(rule(DropBefore()))
    fails(proxy)
    assert server.asked == []
    assert proxy.log[0].answered is None


def test_a_request_dropped_after_was_carried_out(proxy: FaultProxy, server: CannedServer) -> None:
    proxy.script(rule(DropAfter()))
    fails(proxy)
    assert len(server.asked) == 1
    assert (proxy.log[0].upstream, proxy.log[0].answered) == ([200], None)


def test_a_body_can_be_cut_on_its_way(proxy: FaultProxy, server: CannedServer) -> None:
    proxy.script(rule(ResetMid(4)))
    fails(proxy)
    assert server.asked == []


@pytest.mark.parametrize("applied", [False, True])
def test_an_answer_can_be_made_up(proxy: FaultProxy, server: CannedServer, applied: bool) -> None:
    proxy.script(rule(Answer(503, "SlowDown", headers=(("Retry-After", "7"),), applied=applied)))
    status, body, answer = ask(proxy)
    assert (status, answer.headers["Retry-After"]) == (503, "7")
    assert b"<Code>SlowDown</Code>" in body
    assert len(server.asked) == applied
    assert ask(proxy, "HEAD")[1] == b""


@pytest.mark.parametrize(
    ("closes", "error"), [(True, ConnectionError), (False, TimeoutError)], ids=["closed", "open"]
)
def test_an_answer_can_end_early(proxy: FaultProxy, closes: bool, error: type[Exception]) -> None:
    proxy.script(rule(Truncate(3, closes)))
    fails(proxy, error)


def test_an_answer_can_stay_away(proxy: FaultProxy, server: CannedServer) -> None:
    proxy.script(rule(Hang(applied=True)))
    fails(proxy, TimeoutError)
    assert len(server.asked) == 1


def test_a_request_can_be_carried_out_after_the_client_left(
    proxy: FaultProxy, server: CannedServer
) -> None:
    proxy.script(rule(Delay(before_s=0.3)))
    with socket.create_connection(("127.0.0.1", int(proxy.url.rpartition(":")[2])), 20) as client:
        client.sendall(b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na")
        eventually(lambda: proxy.log)
    eventually(lambda: server.asked)
    assert proxy.asked("PutObject")[0].fault == "Delay"


@pytest.mark.parametrize("drip", [Drip(request_bytes_per_s=50), Drip(reply_bytes_per_s=50)])
def test_bodies_can_come_slowly(proxy: FaultProxy, server: CannedServer, drip: Drip) -> None:
    proxy.script(rule(drip))
    begun = time.monotonic()
    assert ask(proxy)[1] == b"whole body"
    assert time.monotonic() - begun > 0.15
    assert server.asked[0].body == BODY


@pytest.mark.parametrize("hears", [0, 1])
def test_a_request_can_arrive_twice(proxy: FaultProxy, server: CannedServer, hears: int) -> None:
    server.answer(Canned(200, "first"), Canned(404, "second"))
    proxy.script(rule(Duplicate(hears)))
    assert ask(proxy)[0] == (200, 404)[hears]
    assert [asked.body for asked in server.asked] == [BODY, BODY]
    assert proxy.log[0].upstream == [200, 404]


def test_a_bit_can_flip(proxy: FaultProxy, server: CannedServer) -> None:
    proxy.script(rule(FlipByte(-1)))
    ask(proxy)
    assert server.asked[0].body == b"0123456788"


def test_a_request_can_be_another_and_is_signed_as_such(
    proxy: FaultProxy, server: CannedServer
) -> None:
    proxy.script(rule(EditRequest({"Accept-Encoding": None, "x-amz-a": "b"}, bytes.upper)))
    ask(proxy, body=b"abc")
    (asked,) = server.asked
    assert (asked.body, asked.headers["x-amz-a"]) == (b"ABC", "b")
    assert "accept-encoding" not in asked.headers
    assert "SignedHeaders=host;x-amz-a;x-amz-content" in asked.headers["authorization"]


def test_an_answer_can_be_edited(proxy: FaultProxy) -> None:
    edit = EditReply({"ETag": '"other"', "x-amz-version-id": None, "x": "y"}, bytes.upper)
    proxy.script(rule(edit))
    _, body, answer = ask(proxy)
    assert (body, answer.headers["ETag"], answer.headers["x"]) == (b"WHOLE BODY", '"other"', "y")
    assert "x-amz-version-id" not in answer.headers


def test_an_answer_can_come_again(proxy: FaultProxy, server: CannedServer) -> None:
    server.answer(Canned(200, "page 1"), Canned(200, "page 2"))
    proxy.script(rule(RepeatAnswer(), nth=2))
    target = "/b?list-type=2&prefix=p"
    assert [ask(proxy, "GET", target)[1] for _ in range(2)] == [b"page 1", b"page 1"]
    assert len(server.asked) == 1


def test_connections_are_refused_until_they_are_accepted_again(proxy: FaultProxy) -> None:
    proxy.refuse()
    fails(proxy, ConnectionRefusedError)
    proxy.accept()
    assert ask(proxy)[0] == 200


# -- rules


def faults_of(proxy: FaultProxy) -> list[str]:
    return [one.fault for one in proxy.log]


def test_a_rule_chooses_by_operation_key_and_number(proxy: FaultProxy) -> None:
    proxy.script(rule(FlipByte(), on="PutObject UploadPart", key="*/b", nth=[2]))
    for target in ("/x/d/b", "/x/d/a", "/x/d/b", "/x/d/b"):
        ask(proxy, target=target)
    ask(proxy, "GET", "/x/d/b")
    assert faults_of(proxy) == ["Pass", "Pass", "FlipByte", "Pass", "Pass"]
    assert [one.nth for one in proxy.log] == [1, 2, 3, 4, 1]


def test_the_first_rule_that_fits_decides_and_the_others_count_on(proxy: FaultProxy) -> None:
    proxy.script(rule(FlipByte(), nth=1), rule(Answer(), nth=[1, 2]))
    for _ in range(3):
        ask(proxy)
    assert faults_of(proxy) == ["FlipByte", "Answer", "Pass"]


def rolled(server: CannedServer, seed: int, targets: list[str], chaos: Rule) -> dict[str, str]:
    with FaultProxy(server.url, seed=seed) as proxy:
        proxy.script(chaos)
        threads = [threading.Thread(target=ask, args=(proxy, "PUT", one)) for one in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {one.key: one.fault for one in proxy.log}


def test_the_same_seed_rolls_the_same_faults_in_any_order(
    proxy: FaultProxy, server: CannedServer
) -> None:
    targets = [f"/b/{number}" for number in range(30)]
    chaos = rule(FlipByte(), Answer(), chance=0.3)
    first = rolled(server, 7, targets, chaos)
    assert rolled(server, 7, targets[::-1], chaos) == first
    assert rolled(server, 8, targets, chaos) != first
    assert 3 <= sum(fault != "Pass" for fault in first.values()) <= 20
    assert set(first.values()) == {"Pass", "FlipByte", "Answer"}

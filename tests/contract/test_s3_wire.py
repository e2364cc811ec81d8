"""Does the wire outlive servers, hosts and networks that do what they should not?"""

import errno
import os
import resource
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from labferry.errors import StoreError
from labferry.failures import Cause, classify
from labferry.s3 import wire as wires
from labferry.s3.store import open_store
from labferry.s3.wire import Wire
from labferry.settings import StoreSettings
from tests.certificates import Certified, certified
from tests.waiting import PATIENCE_S

STORED = b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 0\r\n\r\n'
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
HEAD = b"PUT /b/k HTTP/1.1\r\n\r\n"
#: More than the buffers of a connection hold.
LARGE = bytes(32 * 1024 * 1024)

Script = Callable[[socket.socket], object]
Serve = Callable[[Script], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Run a script for each connection to a port; yield the function that opens such ports."""
    with ExitStack() as stack:

        def opened(script: Script) -> int:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            threading.Thread(target=_accept, args=(listener, script, stack), daemon=True).start()
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
            port: int = listener.getsockname()[1]
            return port

        yield opened


def _accept(listener: socket.socket, script: Script, stack: ExitStack) -> None:
    def run(link: socket.socket) -> None:
        with suppress(OSError):
            script(link)

    with suppress(OSError):
        while True:
            link, _ = listener.accept()
            stack.callback(link.close)
            threading.Thread(target=run, args=(link,), daemon=True).start()


def reach(port: int, read_timeout_s: float = 10) -> Wire:
    return Wire(
        f"http://127.0.0.1:{port}",
        connect_timeout_s=10,
        read_timeout_s=read_timeout_s,
        context=ssl.create_default_context,
    )


def answering(answer: bytes) -> Script:
    def script(link: socket.socket) -> None:
        while link.recv(65536):
            link.sendall(answer)

    return script


# -- servers


def test_a_refusal_is_heard_though_the_server_reads_no_more(serve: Serve) -> None:
    def script(link: socket.socket) -> None:
        link.recv(100)
        link.sendall(BUSY)

    answer = reach(serve(script), read_timeout_s=3).ask(HEAD, LARGE)
    assert (answer.status, answer.keeps_alive) == (503, False)


def test_a_refusal_without_a_length_is_heard_though_the_server_resets(serve: Serve) -> None:
    def script(link: socket.socket) -> None:
        link.recv(100)
        link.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n<Code>AccessDenied</Code>")
        link.close()

    answer = reach(serve(script)).ask(HEAD, LARGE)
    assert (answer.status, answer.body) == (403, b"<Code>AccessDenied</Code>")


@pytest.mark.parametrize("closes", [True, False])
def test_no_success_is_believed_before_all_was_sent(serve: Serve, closes: bool) -> None:
    def script(link: socket.socket) -> None:
        link.recv(100)
        link.sendall(STORED)
        if closes:
            link.close()

    with pytest.raises(OSError):
        reach(serve(script), read_timeout_s=0.3).ask(HEAD, LARGE)


def test_what_follows_an_answer_is_not_the_next_ones(serve: Serve) -> None:
    wire = reach(serve(answering(STORED + b"HTTP/1.1 400 Bad Request\r\n")))
    for _ in range(3):
        assert wire.ask(HEAD, b"").status == 200


def test_a_connection_that_rested_for_long_is_not_used_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers: list[socket.socket] = []

    def script(link: socket.socket) -> None:
        peers.append(link)
        answering(STORED)(link)

    wire = reach(serve(script))
    wire.ask(HEAD, b"")
    wire.ask(HEAD, b"")
    assert len(peers) == 1
    monkeypatch.setattr(wires, "_IDLE_S", 0)
    wire.ask(HEAD, b"")
    assert len(peers) == 2


def test_connections_that_nobody_needs_any_more_are_closed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = threading.Semaphore(0)

    def script(link: socket.socket) -> None:
        answering(STORED)(link)
        gone.release()

    wire = reach(serve(script))
    requests = [wire.request(HEAD, b"") for _ in range(3)]
    for request in requests:  # all have a connection of their own
        next(request)
    monkeypatch.setattr(wires, "_IDLE_S", 0)
    for request in requests:
        with pytest.raises(StopIteration):
            while True:
                next(request)
    assert all(gone.acquire(timeout=PATIENCE_S) for _ in requests)


# -- hosts


def test_a_host_without_ipv6_uses_the_other_address(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = serve(answering(STORED))
    real = socket.socket
    found = socket.getaddrinfo("127.0.0.1", port, type=socket.SOCK_STREAM)
    six = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))

    def without_six(
        family: int = -1, kind: int = -1, protocol: int = -1, fileno: int | None = None
    ) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, kind, protocol, fileno)

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [six, *found])
    monkeypatch.setattr(socket, "socket", without_six)
    assert reach(port).ask(HEAD, b"").status == 200


def test_a_host_without_a_free_descriptor_says_so_of_itself(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    url = f"http://127.0.0.1:{serve(answering(STORED))}"
    store = open_store(StoreSettings(bucket="lab-bucket", endpoint_url=url))
    assert store.puts_many()
    calls: list[Callable[[], object]] = [
        lambda: store.put_fast("k", b"", "t"),
        lambda: store.find_object("k"),
    ]
    for call in calls:
        with no_free_descriptor(), pytest.raises(StoreError) as refused:
            call()
        failure = classify(refused.value)
        assert (failure.code, failure.cause) == ("EMFILE", Cause.LOCAL)
    assert store.put_fast("k", b"", "t") == "e"


@contextmanager
def no_free_descriptor() -> Iterator[None]:
    free = os.dup(0)
    os.close(free)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# -- TLS


@pytest.fixture(scope="module")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("tls"), "DNS:localhost")


@pytest.mark.parametrize(
    ("host", "bundle", "code"),
    [
        ("localhost", "ca.pem", None),
        ("127.0.0.1", "ca.pem", "SSLError"),  # another host
        ("localhost", None, "SSLError"),  # not trusted
        ("localhost", "missing.pem", "SSLError"),
    ],
)
def test_tls_trusts_the_bundle_and_the_right_host_alone(
    serve: Serve,
    localhost: Certified,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    bundle: str | None,
    code: str | None,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(localhost.chain)
    got = bytearray()

    def script(link: socket.socket) -> None:
        with context.wrap_socket(link, server_side=True) as secured:
            while not got.endswith(b"end"):
                got.extend(secured.recv(65536))
            secured.sendall(STORED)

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    if bundle:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(localhost.authority.with_name(bundle)))
    url = f"https://{host}:{serve(script)}"
    store = open_store(StoreSettings(bucket="lab-bucket", endpoint_url=url))
    if code is None:
        assert store.put_fast("k", bytes(3_000_000) + b"end", "t") == "e"
    else:
        with pytest.raises(StoreError) as refused:
            store.put_fast("k", b"end", "t")
        assert refused.value.code == code
        assert not got

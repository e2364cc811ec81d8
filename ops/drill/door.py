"""What does the drill put between its workers and the bucket, to make requests fail on purpose?

A door on loopback: it passes each request on to the real endpoint, signed anew, unless a rule says
otherwise, and remembers all of them. Nothing of a facility's own traffic goes through it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import ceil
from threading import Lock, Thread
from typing import NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session
from botocore.session import get_session
from botocore.utils import get_environ_proxies

from labferry.settings import StoreSettings
from ops.loopback import HOST

#: Made anew by the signature, or of one connection alone.
_NOT_PASSED_ON = re.compile(
    "authorization|x-amz-date|x-amz-content-sha256|x-amz-security-token|host|connection|expect"
    "|content-length|accept-encoding|user-agent|amz-sdk-.*",
    re.IGNORECASE,
)
_CONNECTIONS = 50
_NOT_PASSED_BACK = re.compile("connection|transfer-encoding|content-length", re.IGNORECASE)


class Asked(NamedTuple):
    """One request: its method and key, the part it sends or 0, whether it begins an upload."""

    method: str
    key: str
    part: int
    begins_upload: bool


class Refusal(NamedTuple):
    """What the door answers by itself."""

    status: int
    code: str


@dataclass(slots=True)
class Rule:
    """`act` is called for each request that fits, at most `times`; it may answer by itself."""

    fits: Callable[[Asked], bool]
    act: Callable[[], Refusal | None]
    times: int = 1


@dataclass(slots=True)
class Door:
    """The door of one bucket; use it in a `with`."""

    settings: StoreSettings
    rules: list[Rule] = field(default_factory=list)
    log: list[Asked] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The endpoint that workers are given."""
        assert self._server is not None  # noqa: S101  inside a `with`
        return f"http://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        upstream = _Upstream(self.settings)

        class Handler(_Handler):
            def respond(self, asked: Asked, body: bytes) -> tuple[int, dict[str, str], bytes]:
                refusal = door.judge(asked)
                if refusal is not None:
                    return refusal.status, {"Content-Type": "application/xml"}, _error(refusal)
                return upstream.send(self.command, self.path, dict(self.headers.items()), body)

        door = self
        self._server = _Server((HOST, 0), Handler)
        Thread(target=self._server.serve_forever, name="door", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def count(self, fits: Callable[[Asked], bool]) -> int:
        """Return how many requests were like that."""
        return sum(map(fits, list(self.log)))

    def judge(self, asked: Asked) -> Refusal | None:
        """Note a request, and return what the first rule that fits answers."""
        with self._lock:
            self.log.append(asked)
            rule = next((one for one in self.rules if one.times and one.fits(asked)), None)
            if rule is None:
                return None
            rule.times -= 1
        return rule.act()


class _Upstream:
    """The real endpoint."""

    def __init__(self, settings: StoreSettings) -> None:
        self._session = get_session()
        self._region = settings.region
        aws = f"https://s3.{settings.region}.amazonaws.com"
        self._base = (settings.endpoint_url or aws).rstrip("/")
        self._http = URLLib3Session(
            verify=self._session.get_config_variable("ca_bundle") or True,
            proxies=get_environ_proxies(self._base),
            timeout=ceil(settings.read_timeout_s),
            max_pool_connections=_CONNECTIONS,
        )

    def send(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Pass a request on; return status, headers and body of the answer."""
        kept = {name: value for name, value in headers.items() if not _NOT_PASSED_ON.match(name)}
        request = AWSRequest(method, self._base + target, kept, body)
        credentials = self._session.get_credentials()
        assert credentials is not None  # noqa: S101  the bucket was looked at before
        S3SigV4Auth(credentials, "s3", self._region).add_auth(request)
        answer = self._http.send(request.prepare())
        found = {n: v for n, v in answer.headers.items() if not _NOT_PASSED_BACK.match(n)}
        if method == "HEAD" and "content-length" in answer.headers:
            found["Content-Length"] = answer.headers["content-length"]
        return answer.status_code, found, answer.content


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: a worker that was killed hears no answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def respond(self, asked: Asked, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        raise NotImplementedError

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            status, headers, content = self.respond(_asked(self.command, self.path), body)
        except Exception:  # noqa: BLE001  whatever it is, the worker sees a line that broke
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle  # noqa: N815  http.server's names

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _asked(method: str, target: str) -> Asked:
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    _, _, key = unquote(parts.path.lstrip("/")).partition("/")
    part = int(query.get("partNumber", ["0"])[0])
    return Asked(method, key, part, method == "POST" and "uploads" in query)


def _error(refusal: Refusal) -> bytes:
    text = f"<Error><Code>{refusal.code}</Code><Message>labferry drill</Message></Error>"
    return f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()

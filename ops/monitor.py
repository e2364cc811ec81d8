"""How are the metrics and the status page served? By a small web server that only reads.

`/metrics` names no file and needs no password; the pages show names of files, and off loopback they
are answered only to who knows the password. Links are relative: any prefix of a proxy will do.
"""

import hmac
import signal
import socket
import threading
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from labferry.clock import SystemClock
from labferry.errors import LabferryError, LedgerUnavailable, NotFound, SettingsError
from labferry.ledger import open_ledger
from labferry.ports import Ledger
from labferry.settings import Settings, load_settings
from ops.collector import LedgerCollector
from ops.flower_access import is_loopback
from ops.pace import Pacers
from ops.pages import Page, error_page, explain_page, run_page, status_page

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
_HTML = ("Content-Type", "text/html; charset=utf-8")
_SAFE = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
    ("Referrer-Policy", "no-referrer"),
)
_FORBIDDEN = (
    "This page names files. Set LABFERRY_MONITOR__BASIC_AUTH=user:password where the monitor runs "
    "to see it from here; /metrics needs none."
)
_STATUS_OF: tuple[tuple[type[LabferryError], HTTPStatus], ...] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (SettingsError, HTTPStatus.BAD_REQUEST),
    (LedgerUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
)


class Monitor:
    """The WSGI application."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._clock = SystemClock()
        self._pacers, self._pacing = Pacers(), threading.Lock()
        self._password = settings.monitor.basic_auth.get_secret_value()
        self._is_private = is_loopback(settings.monitor.address)
        registry = CollectorRegistry()
        registry.register(LedgerCollector(ledger, settings))
        self._metrics = make_wsgi_app(registry)

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "/")
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return _answer(start, HTTPStatus.METHOD_NOT_ALLOWED, error_page("It only reads."))
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start)
            return answer
        if path == "/healthcheck":
            return _answer(start, HTTPStatus.OK, Page("OK"))
        if why := self._why_not(environ):
            status = HTTPStatus.UNAUTHORIZED if self._password else HTTPStatus.FORBIDDEN
            return _answer(start, status, error_page(why))
        return self._page(path, parse_qs(environ.get("QUERY_STRING", "")), start)

    def _page(
        self, path: str, query: dict[str, list[str]], start: StartResponse
    ) -> Iterable[bytes]:
        try:
            page = self._make_page(path, query)
        except LabferryError as error:
            status = next((one for kind, one in _STATUS_OF if isinstance(error, kind)), None)
            return _answer(
                start, status or HTTPStatus.INTERNAL_SERVER_ERROR, error_page(str(error))
            )
        if page is None:
            return _answer(start, HTTPStatus.NOT_FOUND, error_page("There is no such page."))
        return _answer(start, HTTPStatus.OK, page)

    def _make_page(self, path: str, query: dict[str, list[str]]) -> Page | None:
        key = query.get("key", [""])[0]
        if path == "/":
            with self._pacing:
                now_s = self._clock.mono_s()
                return status_page(self._ledger, self._settings, self._pacers, now_s)
        if path == "/run":
            return run_page(self._ledger, self._settings, key)
        if path == "/explain":
            return explain_page(self._ledger, self._settings, key)
        return None

    def _why_not(self, environ: Environ) -> str:
        """Return why a page is not shown, or ''."""
        if not self._password:
            return "" if self._is_private else _FORBIDDEN
        given = environ.get("HTTP_AUTHORIZATION", "")
        scheme, _, encoded = given.partition(" ")
        try:
            said = b64decode(encoded, validate=True) if scheme.lower() == "basic" else b""
        except NotBase64:
            said = b""
        return "" if hmac.compare_digest(said, self._password.encode()) else "Who are you?"


def _answer(start: StartResponse, status: HTTPStatus, page: Page) -> Iterable[bytes]:
    body = page.encode("utf-8", "surrogateescape")
    headers = [_HTML, ("Content-Length", str(len(body))), *_SAFE]
    if status is HTTPStatus.UNAUTHORIZED:
        headers.append(("WWW-Authenticate", 'Basic realm="labferry"'))
    start(f"{status.value} {status.phrase}", headers)
    return [body]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without asking a name server what this host is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _ServerOnIPv6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = 30  # a client that says nothing holds a thread no longer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""


def open_monitor(settings: Settings) -> WSGIServer:
    """Return the server, bound and not yet serving."""
    address, port = settings.monitor.address, settings.monitor.port
    app = Monitor(open_ledger(settings.ledger), settings)
    kind = _ServerOnIPv6 if ":" in address else _Server
    return make_server(address, port, app, server_class=kind, handler_class=_Handler)


def main() -> None:
    """Run `python -m ops.monitor` until SIGTERM or SIGINT; it has nothing to put away."""
    settings = load_settings()
    settings.logs.apply("monitor")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open_monitor(settings) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()

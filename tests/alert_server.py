"""An HTTP server that keeps what it is sent, and answers as it is told."""

import http.server
import threading
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S

_SNS_ANSWER = (
    b'<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishResult>'
    b"<MessageId>1</MessageId></PublishResult></PublishResponse>"
)


class AlertServer:
    """`bodies` are the requests it took, with `headers` and `types`; `status` is its answer."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.types: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.retry_after = ""
        self.answer = _SNS_ANSWER
        self.status = 200
        self.known: set[str] = set()
        self.location = ""
        self.hangs = threading.Event()
        self.hangs.set()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook?token=secret"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.hangs.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        alerts = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                alerts.hangs.wait(PATIENCE_S)
                if alerts.status == 200:
                    alerts.bodies.append(body)
                    alerts.types.append(self.headers["Content-Type"])
                    alerts.headers.append({k.lower(): v for k, v in self.headers.items()})
                self.send_response(alerts.status)
                if alerts.location:
                    self.send_header("Location", alerts.location)
                if alerts.retry_after:
                    self.send_header("Retry-After", alerts.retry_after)
                self.send_header("Content-Length", str(len(alerts.answer)))
                self.end_headers()
                self.wfile.write(alerts.answer)

            def do_GET(self) -> None:
                known = self.headers["webhook-id"] in alerts.known
                self.send_response(200 if known else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

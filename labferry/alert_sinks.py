"""Where do alerts go: a webhook, a command, an SNS topic?

Each delivery ends within its time, one way or the other.
"""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from tempfile import TemporaryFile
from typing import IO, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from labferry.condition_port import AlertSink
from labferry.errors import NotDelivered
from labferry.s3.translate import retry_after_s
from labferry.settings_trouble import AlertSettings

_SUBJECT = "labferry needs a person"
_LAST_WORDS = 300
_NO_HEADERS: Mapping[str, str] = {}
#: Whoever says so has sent nothing.
_NEVER_SENT = (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError, ValueError)


def open_sinks(settings: AlertSettings) -> Iterator[AlertSink]:
    """Yield the sinks that the settings name."""
    if settings.webhook_url:
        yield Webhook(settings.webhook_url, settings.timeout_s)
    if settings.command:
        yield Command(settings.command, settings.timeout_s)
    if settings.sns_topic_arn:
        yield SnsTopic(settings.sns_topic_arn, settings.timeout_s)


class Webhook:
    """POSTs an alert as JSON; any answer but a success is a failure, a redirect too."""

    name = "webhook"

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirect)

    def deliver(self, payload: bytes, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        """Send one alert, or what else is JSON, with more headers. Raises: NotDelivered."""
        all_ = {"Content-Type": "application/json", "User-Agent": "labferry", **headers}
        request = urllib.request.Request(self._url, payload, all_)  # noqa: S310  http(s) alone
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                answer.read(_LAST_WORDS)
        except urllib.error.HTTPError as error:
            error.close()
            raise NotDelivered(
                sink=self.name,
                why=f"it answered {error.code}",
                status=error.code,
                retry_after_s=retry_after_s({k.lower(): v for k, v in error.headers.items()}),
            ) from None
        except (OSError, ValueError, HTTPException) as error:
            # The address may hold a secret: the reason alone is told.
            why = getattr(error, "reason", error)
            raise NotDelivered(
                sink=self.name,
                why=f"{type(why).__name__}: {why}",
                answered=isinstance(why, _NEVER_SENT),
            ) from None

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the receiver answers a GET with these headers by a success."""
        request = urllib.request.Request(self._url, headers={"User-Agent": "labferry", **headers})  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout_s):
                return True
        except (OSError, ValueError, HTTPException):
            return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without the alert."""

    def redirect_request(self, *_: object) -> None:
        return None


class Command:
    """Runs a program with an alert's JSON on its standard input; it must exit with 0."""

    name = "command"

    def __init__(self, arguments: tuple[str, ...], timeout_s: float) -> None:
        self._arguments = arguments
        self._timeout_s = timeout_s

    def deliver(self, payload: bytes) -> None:
        """Send one alert. Raises: NotDelivered."""
        # Files, not pipes: what the program started and left behind may hold a pipe open for ever.
        with TemporaryFile() as said, TemporaryFile() as given:
            given.write(payload)
            given.seek(0)
            try:
                status = self._run(given, said)
            except OSError as error:
                raise NotDelivered(sink=self.name, why=str(error)) from error
            if status == 0:
                return
            said.seek(max(said.seek(0, os.SEEK_END) - _LAST_WORDS, 0))
            words = said.read().decode(errors="replace").strip()
        how = f"ended with {status}" if status else f"took longer than {self._timeout_s:g} s"
        why = f"{self._arguments[0]} {how} {words}".strip()
        raise NotDelivered(sink=self.name, why=why, answered=status is not None, status=status)

    def _run(self, given: IO[bytes], said: IO[bytes]) -> int | None:
        """Return the exit status, None when the time was over and the program was killed."""
        process = subprocess.Popen(  # noqa: S603  the settings name it
            self._arguments,
            stdin=given,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            return process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with whatever it started
            process.wait()


class SnsTopic:
    """Publishes an alert's JSON to an SNS topic, with credentials of the AWS chain."""

    name = "sns"

    def __init__(self, topic_arn: str, timeout_s: float) -> None:
        self._topic_arn = topic_arn
        self._timeout_s = timeout_s

    def deliver(self, payload: bytes) -> None:
        """Send one alert. Raises: NotDelivered."""
        region = region_of(self._topic_arn, "")
        try:
            client = aws_client("sns", region, self._timeout_s)
            client.publish(TopicArn=self._topic_arn, Subject=_SUBJECT, Message=payload.decode())
        except (BotoCoreError, ClientError) as error:
            raise NotDelivered(sink=self.name, why=str(error)) from error


def aws_client(service: str, region: str, timeout_s: float) -> Any:
    """Return a client of AWS with one attempt a call; made anew for each, so that renewed
    credentials are read."""
    named: Any = service  # the stubs know a type for each name
    config = Config(
        connect_timeout=timeout_s / 2,
        read_timeout=timeout_s / 2,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return boto3.session.Session().client(named, region_name=region, config=config)


def region_of(name: str, region: str) -> str:
    """Return the region in an ARN or in the URL of a queue; the given one where there is none."""
    if name.startswith("arn:"):
        return name.split(":")[3]
    host = name.split("/")[2].split(".") if "://" in name else []
    return host[1] if host[:1] == ["sqs"] and host[2:3] == ["amazonaws"] else region

"""How are the foreign clients told to behave, and who makes them when?

One attempt a call, because we reconcile the outcome ourselves; checksums only ours; no hidden
transfer manager. A comment gives the reason for each deviation from the defaults.
"""

import os
import ssl
import threading
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import NoCredentialsError, SSLError
from botocore.httpsession import create_urllib3_context, get_cert_path
from botocore.utils import get_environ_proxies

from labferry.s3.contents import take_contents
from labferry.s3.fast import Fast
from labferry.s3.signing import Signer
from labferry.s3.wire import Wire
from labferry.settings import StoreSettings

#: Above every number of threads a worker may have, so that no connection is thrown away.
POOL_CONNECTIONS = 300

#: Held across a fork, so that no child inherits it locked by a thread it does not have.
_MAKING = threading.Lock()
os.register_at_fork(
    before=_MAKING.acquire, after_in_parent=_MAKING.release, after_in_child=_MAKING.release
)


@dataclass(frozen=True, slots=True)
class Clients:
    """One process's connections; `patient` waits minutes for an answer.

    `fast` is None where a proxy stands in between.
    """

    pid: int
    calls: Any
    patient: Any
    fast: Fast | None


class ClientsOfProcess:
    """Makes clients at first use in each process: connections do not survive a fork."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._made: Clients | None = None

    def get(self) -> Clients:
        """Return this process's clients."""
        made = self._made
        if made is not None and made.pid == os.getpid():
            return made
        with _MAKING:
            if self._made is None or self._made.pid != os.getpid():
                self._made = _make(self._settings)
            return self._made

    def forget(self, clients: Clients | None = None) -> None:
        """Make others than these, or than any, at the next use, with credentials read again."""
        with _MAKING:
            if clients is None or self._made is clients:
                self._made = None


def signs_payload(endpoint_url: str) -> bool:
    """Whether bodies are hashed with SHA-256 into the signature.

    TLS and loopback protect a body already, and its CRC64NVME finds accidents: a second pass over
    every byte would buy nothing. On plain HTTP across a network it is what keeps a body and its
    checksum from being replaced together, and servers may demand it there.
    """
    parts = urlsplit(endpoint_url)
    if parts.scheme == "https":
        return False
    host = parts.hostname or ""
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def _make(settings: StoreSettings) -> Clients:
    inner = botocore.session.get_session()
    session = boto3.Session(botocore_session=inner, region_name=settings.region)
    if session.get_credentials() is None:
        raise NoCredentialsError
    calls = session.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        config=_config(settings, settings.read_timeout_s),
    )
    calls.meta.events.register("before-parse.s3.ListObjectsV2", take_contents)
    patient = session.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        config=_config(settings, settings.complete_timeout_s),
    )
    fast = _fast(settings, session, calls.meta.endpoint_url, inner.get_config_variable("ca_bundle"))
    return Clients(os.getpid(), calls, patient, fast)


def _config(settings: StoreSettings, read_timeout_s: float) -> Config:
    custom = settings.endpoint_url is not None
    return Config(  # type: ignore[call-arg]  # the stub lags behind botocore
        connect_timeout=settings.connect_timeout_s,
        read_timeout=read_timeout_s,
        # A retried Create leaves an orphan, a retried Complete or Put reads as somebody else's.
        retries={"mode": "standard", "total_max_attempts": 1},
        # Many servers refuse the default, a checksum that trails the body.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        max_pool_connections=POOL_CONNECTIONS,
        tcp_keepalive=True,
        signature_version="s3v4",
        # The bucket is where the settings say: no variable of another tool moves it.
        ignore_configured_endpoint_urls=True,
        s3={
            "addressing_style": "path" if custom else "auto",
            "payload_signing_enabled": signs_payload(settings.endpoint_url or "https:"),
        },
    )


def _fast(
    settings: StoreSettings, session: boto3.Session, endpoint_url: str, ca_bundle: str | None
) -> Fast | None:
    if get_environ_proxies(endpoint_url):
        return None

    def context() -> ssl.SSLContext:
        made: ssl.SSLContext = create_urllib3_context()
        made.verify_mode, made.check_hostname = ssl.CERT_REQUIRED, True
        try:
            made.load_verify_locations(ca_bundle or get_cert_path(True))
        except OSError as error:  # a missing file is no fault of what is to be sent
            raise SSLError(endpoint_url=endpoint_url, error=error) from error
        return made

    parts = urlsplit(endpoint_url)
    return Fast(
        bucket=f"{parts.path.rstrip('/')}/{settings.bucket}",
        signer=Signer(parts.netloc, settings.region, signs_payload=signs_payload(endpoint_url)),
        wire=Wire(
            endpoint_url,
            connect_timeout_s=settings.connect_timeout_s,
            read_timeout_s=settings.read_timeout_s,
            context=context,
        ),
        credentials=session.get_credentials(),
    )

"""Where do the copies go? SeaweedFS, a real server; and the sink, which is never the bottleneck.

The sink alone speaks TLS, by a certificate made for the one run, and stands far away if asked to.
"""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from ops.embedded import Weed
from ops.loopback import HOST, free_ports

BUCKET = "bench"
START_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server that runs now."""

    name: str
    url: str
    access_key: str
    secret_key: str
    bucket: str = BUCKET
    certificate: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Return the credentials, and whom to trust, as every tool reads them."""
        # What is made with boto, and what is made with Go.
        trusting = ("AWS_CA_BUNDLE", "SSL_CERT_FILE") if self.certificate else ()
        return {
            **dict.fromkeys(trusting, str(self.certificate)),
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self) -> Any:
        """Return a client for the harness's own questions."""
        session = boto3.Session(self.access_key, self.secret_key, region_name="us-east-1")
        config = Config(s3={"addressing_style": "path"}, proxies={})
        trusted = str(self.certificate) if self.certificate else None
        return session.client("s3", endpoint_url=self.url, config=config, verify=trusted)


@contextlib.contextmanager
def running(name: str, folder: Path, *, tls: bool = False, delay_ms: int = 0) -> Iterator[Endpoint]:
    """Run an empty server in a folder of its own, which is removed afterwards.

    `nowhere` is an endpoint that nobody serves.
    """
    folder.mkdir(parents=True)
    try:
        with _named(name, folder, tls=tls, delay_ms=delay_ms) as endpoint:
            yield endpoint
    finally:
        shutil.rmtree(folder)


def _named(
    name: str, folder: Path, *, tls: bool, delay_ms: int
) -> contextlib.AbstractContextManager[Endpoint]:
    if name == "sink":
        return _sink(folder, tls=tls, delay_ms=delay_ms)
    if tls or delay_ms:
        raise SystemExit("TLS and a delay are the sink's alone.")
    return _seaweedfs(folder) if name == "seaweedfs" else contextlib.nullcontext(_NOWHERE)


_NOWHERE = Endpoint(name="nowhere", url=f"http://{HOST}:9", access_key="a", secret_key="b")


@contextlib.contextmanager
def _seaweedfs(folder: Path) -> Iterator[Endpoint]:
    with Weed(BUCKET, folder / "data") as weed:
        yield Endpoint(
            name="seaweedfs",
            url=weed.endpoint,
            access_key=weed.access_key,
            secret_key=weed.secret_key,
        )


@contextlib.contextmanager
def _sink(folder: Path, *, tls: bool, delay_ms: int) -> Iterator[Endpoint]:
    (port,) = free_ports(1)
    certificate, key = _certified(folder) if tls else (None, None)
    words = [str(one) for one in (port, delay_ms, certificate, key) if one is not None]
    process = subprocess.Popen([str(_compiled(folder)), *words])
    endpoint = Endpoint(
        name="sink",
        url=f"{'https' if tls else 'http'}://{HOST}:{port}",
        access_key="a",
        secret_key="b",
        certificate=certificate,
    )
    try:
        _await_answer(endpoint)
        yield endpoint
    finally:
        process.kill()
        process.wait()


def _certified(folder: Path) -> tuple[Path, Path]:
    """Return a certificate that is its own authority, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    asked = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=bench"]
    names = ["-addext", f"subjectAltName=DNS:localhost,IP:{HOST}"]
    where = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *asked, *names, *where], check=True, capture_output=True)
    return certificate, key


def _compiled(folder: Path) -> Path:
    binary = folder / "sink"
    source = Path(__file__).with_name("sink.c")
    command = ["cc", "-O2", "-pthread", "-o", str(binary), str(source), "-lssl", "-lcrypto"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit(
            "The sink needs a C compiler. Debian: apt install gcc libssl-dev"
        ) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"The sink cannot be compiled (libssl-dev?):\n{error.stderr}") from None
    return binary


def _await_answer(endpoint: Endpoint) -> None:
    client = endpoint.client()
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            client.list_objects_v2(Bucket=BUCKET, MaxKeys=1)
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return

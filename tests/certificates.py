"""Whom does a test's server have trusted? An authority made for the one test, by openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

#: Made much faster than an RSA key.
_CURVE = ("-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True, slots=True)
class Certified:
    """`authority` is what a client trusts, `chain` the server's certificate and key."""

    authority: Path
    chain: Path


def certified(folder: Path, *names: str) -> Certified:
    """Make an authority in a folder, and what it signs for these names (DNS:..., IP:...)."""
    made = Certified(folder / "ca.pem", folder / "server.pem")
    signing, key, signed = (folder / name for name in ("ca.key", "server.key", "signed.pem"))
    _openssl("/CN=a test's authority", signing, made.authority)
    by = ["-CA", str(made.authority), "-CAkey", str(signing)]
    allowed = [f"subjectAltName={','.join(names)}", "basicConstraints=critical,CA:FALSE"]
    extensions = [word for one in allowed for word in ("-addext", one)]
    _openssl("/CN=a test's server", key, signed, *by, *extensions)
    made.chain.write_bytes(key.read_bytes() + signed.read_bytes())
    return made


def _openssl(subject: str, key: Path, certificate: Path, *more: str) -> None:
    asked = ["-x509", "-newkey", "ec", *_CURVE, "-nodes", "-days", "1", "-subj", subject]
    where = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *asked, *more, *where], check=True, capture_output=True)

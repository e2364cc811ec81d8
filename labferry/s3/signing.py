"""How is a request signed, by AWS Signature Version 4, without costing more than the request?

botocore's signer takes longer than the sending of a small file; this one knows the few forms of
request that `wire.py` sends. Held to botocore's by a test.
"""

import hmac
import re
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote

from labferry.store_port import Buffer

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNSIGNED = "UNSIGNED-PAYLOAD"
#: A path with nothing to quote.
_PLAIN = re.compile(r"[A-Za-z0-9/_.~-]+")


class Credentials(Protocol):
    """What botocore calls frozen credentials."""

    access_key: str
    secret_key: str
    token: str | None


class Signer:
    """Writes heads of requests to one host. Safe in threads."""

    def __init__(self, host: str, region: str, *, signs_payload: bool) -> None:
        self._host = host
        self._region = region
        self._signs_payload = signs_payload
        #: Secret, day, and the key derived from them.
        self._derived: tuple[str, str, bytes] = ("", "", b"")
        #: A second, and how requests write it down.
        self._dated: tuple[time.struct_time | None, str] = (None, "")

    def put(
        self,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: Buffer,
        credentials: Credentials,
    ) -> bytes:
        """Return the head of a PUT; names of headers are in lower case, the path is as it is.

        Raises: UnicodeEncodeError.
        """
        target = path if _PLAIN.fullmatch(path) else quote(path, safe="/~", errors="strict")
        asked = "&".join(f"{name}={quote(query[name], safe='~')}" for name in sorted(query))
        at = self._now()
        digest = sha256(body).hexdigest() if self._signs_payload else _UNSIGNED
        signed = {
            "host": self._host,
            "x-amz-content-sha256": digest,
            "x-amz-date": at,
            **headers,
        }
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        names = sorted(signed)
        listed = ";".join(names)
        lines = "".join([f"{name}:{signed[name]}\n" for name in names])
        canonical = f"PUT\n{target}\n{asked}\n{lines}\n{listed}\n{digest}"
        scope = f"{at[:8]}/{self._region}/s3/aws4_request"
        whole = f"{_ALGORITHM}\n{at}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        key = self._key(credentials.secret_key, at[:8])
        signature = hmac.digest(key, whole.encode(), "sha256").hex()
        sent = "".join([f"{name}: {signed[name]}\r\n" for name in names])
        return (
            f"PUT {target}{'?' if asked else ''}{asked} HTTP/1.1\r\n{sent}"
            f"content-length: {len(body)}\r\n"
            f"authorization: {_ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={listed}, Signature={signature}\r\n\r\n"
        ).encode()

    def _now(self) -> str:
        now, (known, at) = time.gmtime(), self._dated
        if now != known:
            at = time.strftime("%Y%m%dT%H%M%SZ", now)
            self._dated = (now, at)
        return at

    def _key(self, secret: str, day: str) -> bytes:
        known_secret, known_day, key = self._derived
        if (secret, day) != (known_secret, known_day):
            key = f"AWS4{secret}".encode()
            for step in (day, self._region, "s3", "aws4_request"):
                key = hmac.digest(key, step.encode(), "sha256")
            self._derived = (secret, day, key)
        return key

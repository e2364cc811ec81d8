"""How are bodies put the cheapest way? By requests of our own over plain connections.

What boto3 takes for a Put of a few KiB is five times what all else of a small file costs, and twice
what the bytes of a part cost. These two requests, and no others, are made here; every fact of an
answer is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labferry.s3.answers import ATTEMPT, unquoted
from labferry.s3.checksum import to_base64
from labferry.s3.http_answer import HttpAnswer
from labferry.s3.signing import Signer
from labferry.s3.translate import no_etag, refusal
from labferry.s3.wire import Request, Wire
from labferry.store_port import Buffer

_SUCCESS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fast:
    """One bucket, over the wire; `bucket` is the path in front of a key, `credentials` botocore's.

    Raises what the wire and botocore raise. Safe in threads.
    """

    bucket: str
    signer: Signer
    wire: Wire
    credentials: Any

    def put(self, key: str, body: Buffer, crc64: int, attempt_token: str) -> str:
        """Create an object, If-None-Match and CRC64NVME on it; return its ETag."""
        head = self._head_of_put(key, body, crc64, attempt_token)
        return etag_of(self.wire.ask(head, body), "PutObject", key)

    def begin_put(self, key: str, body: Buffer, crc64: int, attempt_token: str) -> Request:
        """Return the same request, to be waited for beside others."""
        return self.wire.request(self._head_of_put(key, body, crc64, attempt_token), body)

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        """Send one part with its checksum; return its ETag."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        head = self._head(key, query, {"x-amz-checksum-crc64nvme": to_base64(crc64)}, body)
        return etag_of(self.wire.ask(head, body), "UploadPart", key)

    def _head_of_put(self, key: str, body: Buffer, crc64: int, attempt_token: str) -> bytes:
        headers = {
            "if-none-match": "*",
            "x-amz-checksum-crc64nvme": to_base64(crc64),
            f"x-amz-meta-{ATTEMPT}": attempt_token,
        }
        return self._head(key, {}, headers, body)

    def _head(
        self, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: Buffer
    ) -> bytes:
        frozen = self.credentials.get_frozen_credentials()
        return self.signer.put(f"{self.bucket}/{key}", query, headers, body, frozen)


def etag_of(answer: HttpAnswer, operation: str, key: str) -> str:
    """Return the ETag of an answer. Raises: StoreError for any but a clear success."""
    if answer.status // 100 != _SUCCESS:
        raise refusal(answer, operation, key)
    found = unquoted(answer.headers.get("etag", ""))
    if not found:
        raise no_etag(operation, key)
    return found

"""What does an answer of the server say of an object?"""

import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from labferry.s3.checksum import from_base64
from labferry.s3.translate import no_etag
from labferry.stored import StoredObject

#: Where an object's metadata holds the attempt token: tells our lost answer from another's object.
ATTEMPT = "labferry-attempt"

Answer = Mapping[str, Any]


def stored(key: str, size: int, answer: Answer) -> StoredObject:
    """Return the object that an answer speaks of."""
    composite = answer.get("ChecksumType") == "COMPOSITE"
    return StoredObject(
        key=key,
        size=size,
        etag=unquoted(answer.get("ETag", "")),
        version_id=answer.get("VersionId", ""),
        crc64=None if composite else from_base64(answer.get("ChecksumCRC64NVME", "")),
        attempt_token=answer.get("Metadata", {}).get(ATTEMPT, ""),
    )


def etag(answer: Answer, operation: str, key: str) -> str:
    """Return the ETag of an answer. Raises: StoreError where there is none."""
    found = unquoted(answer.get("ETag", ""))
    if not found:
        raise no_etag(operation, key)
    return found


def unquoted(text: str) -> str:
    """Return an ETag without its quotes."""
    return text.strip('"')


def remaining(body: BinaryIO) -> int:
    """Return how many bytes of a body are left to read."""
    start = body.tell()
    end = body.seek(0, os.SEEK_END)
    body.seek(start)
    return end - start

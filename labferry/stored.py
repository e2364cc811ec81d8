"""What does an object store show of an object, in a HEAD or in a listing?"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object as HEAD shows it. `crc64` is None where the server attests none."""

    key: str
    size: int
    etag: str
    version_id: str
    crc64: int | None
    attempt_token: str


class Listed(NamedTuple):
    """An object as a listing shows it; `etag` is without quotes."""

    key: str
    size: int
    etag: str


class ServerPart(NamedTuple):
    """A part as ListParts shows it; `etag` is without quotes."""

    number: int
    etag: str
    size: int

"""What does labferry ask of a bucket?"""

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Protocol, TypeVar

from labferry.records import Part
from labferry.stored import Listed, ServerPart, StoredObject

Buffer = bytes | bytearray | memoryview


class SmallPut(Protocol):
    """An object that is to be created from memory."""

    @property
    def key(self) -> str:
        """Its key."""
        ...

    @property
    def body(self) -> bytes:
        """Its bytes."""
        ...

    @property
    def crc64(self) -> int:
        """Their CRC64NVME."""
        ...

    @property
    def attempt_token(self) -> str:
        """What stands in its metadata."""
        ...


P = TypeVar("P", bound=SmallPut)


class ObjectStore(Protocol):
    """A bucket. One attempt a call, no retries inside; every failure is a StoreError."""

    endpoint: str  # names endpoint and bucket, for proofs
    bucket: str

    def renew_credentials(self) -> None:
        """Read credentials again before the next request."""
        ...

    def find_object(self, key: str) -> StoredObject | None:
        """HEAD with checksums; None for a clear 404. A 403 raises: it is not absence."""
        ...

    def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
        """Create an object from memory the cheapest way, If-None-Match and CRC64NVME on it; return
        its ETag. Any StoreError means the outcome is unknown: HEAD decides."""
        ...

    def puts_many(self) -> bool:
        """Whether `put_many` can be asked."""
        ...

    def put_many(
        self, puts: Iterable[P], room: Callable[[], int]
    ) -> Iterator[tuple[P, str | Exception]]:
        """Do as put_fast for many objects, up to `room` of them at a time and in one thread; yield
        the ETag of each, or what put_fast would raise, as answers come. The next one is asked for
        when there is room."""
        ...

    def put_absent(
        self, key: str, body: bytes | BinaryIO, crc64: int, attempt_token: str
    ) -> StoredObject:
        """Create an object, If-None-Match and CRC64NVME on it, with exact facts on failure."""
        ...

    def create_upload(self, key: str, attempt_token: str) -> str:
        """Begin a multipart upload with a full-object CRC64NVME; return its id."""
        ...

    def find_uploads(self, key: str) -> list[str]:
        """Return the ids of open uploads under exactly this key; [] where none can be listed."""
        ...

    def list_uploads(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield key and id of open uploads below a prefix; some servers take it for a key."""
        ...

    def list_parts(self, key: str, upload_id: str) -> set[ServerPart]:
        """Return all parts; one number may stand several times. Raises: BadListing."""
        ...

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        """Send one part with its checksum; return its ETag."""
        ...

    def complete_upload(self, key: str, upload_id: str, parts: dict[int, Part], crc64: int) -> None:
        """Ask once for the object, If-None-Match and the full CRC64NVME on it. Neither a return nor
        an error decides: HEAD does."""
        ...

    def abort_upload(self, key: str, upload_id: str) -> None:
        """End an upload; done also when it is gone already."""
        ...

    def list_objects(self, prefix: str) -> Iterator[Listed]:
        """Yield every object below a prefix, in no order. Raises: BadListing when a cursor is
        missing or repeats, or when there are too many pages."""
        ...

    def list_folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of what looks like folders directly below a prefix that ends in `/`."""
        ...

    def read(self, key: str, version_id: str = "") -> Iterable[bytes]:
        """Yield an object's bytes in blocks."""
        ...

    def put_document(self, key: str, body: bytes) -> None:
        """Write a document of labferry's own, over an older one; raw data never comes this way."""
        ...

    def delete(self, key: str, version_id: str = "") -> None:
        """Remove a scratch object of the endpoint's proof; nothing else is ever deleted."""
        ...

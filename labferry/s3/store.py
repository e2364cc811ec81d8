"""How does labferry talk to a bucket?

boto3 for every call whose outcome is reasoned about, the wire for the mass of bytes. One attempt a
call; every failure is a StoreError. Nothing here creates a bucket or overwrites.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from typing import BinaryIO

from labferry.errors import StoreError
from labferry.records import Part
from labferry.s3.answers import ATTEMPT, etag, remaining, stored, unquoted
from labferry.s3.bucket import Bucket
from labferry.s3.checksum import crc64nvme, to_base64
from labferry.s3.contents import LISTED
from labferry.s3.listing import Listing
from labferry.s3.many import can_put_many, put_many
from labferry.settings import StoreSettings
from labferry.store_port import Buffer, P
from labferry.stored import Listed, ServerPart, StoredObject

BLOCK_BYTES = 1024 * 1024
#: A part sent again may be listed again; room for every part four times, 1,000 a page.
PART_PAGES_PER_PART = 4 / 1000

#: The endpoint does not list uploads, or not for us.
CANNOT_LIST = frozenset({"AccessDenied", "NotImplemented", "MethodNotAllowed"})


def open_store(settings: StoreSettings) -> "S3Store":
    """Return the bucket of the settings; nothing is asked of it yet."""
    return S3Store(settings)


class S3Store:
    """ObjectStore on S3. Safe for threads and across a fork."""

    def __init__(self, settings: StoreSettings) -> None:
        self.endpoint = settings.endpoint
        self.bucket = settings.bucket
        self._bucket = Bucket(settings)
        self._max_parts = settings.max_parts

    def renew_credentials(self) -> None:
        """Read credentials again before the next request."""
        self._bucket.renew_credentials()

    # -- single objects

    def find_object(self, key: str) -> StoredObject | None:
        """HEAD with checksums; None for a clear 404. A 403 raises: it is not absence."""
        try:
            with self._bucket.asking("HeadObject", key) as clients:
                head = clients.calls.head_object(
                    Bucket=self._bucket.name, Key=key, ChecksumMode="ENABLED"
                )
        except StoreError as error:
            self._bucket.conclude_absence(error)
            return None
        etag(head, "HeadObject", key)
        return stored(key, head["ContentLength"], head)

    def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
        """Create an object from memory the cheapest way, If-None-Match and CRC64NVME on it; return
        its ETag. Any StoreError means the outcome is unknown: HEAD decides."""
        crc64 = crc64nvme(body)
        with self._bucket.asking("PutObject", key) as clients:
            if clients.fast is not None:
                return clients.fast.put(key, body, crc64, attempt_token)
        return self.put_absent(key, body, crc64, attempt_token).etag

    def puts_many(self) -> bool:
        """Whether `put_many` can be asked: not through a proxy, nor without credentials."""
        return can_put_many(self._bucket)

    def put_many(
        self, puts: Iterable[P], room: Callable[[], int]
    ) -> Iterator[tuple[P, str | StoreError]]:
        """Do as put_fast for many objects, up to `room` of them at a time and in one thread; yield
        the ETag of each, or what put_fast would raise, as answers come."""
        return put_many(self._bucket, puts, room)

    def put_absent(
        self, key: str, body: bytes | BinaryIO, crc64: int, attempt_token: str
    ) -> StoredObject:
        """Create an object, If-None-Match and CRC64NVME on it, with exact facts on failure."""
        with self._bucket.asking("PutObject", key) as clients:
            size = len(body) if isinstance(body, bytes) else remaining(body)
            answer = clients.calls.put_object(
                Bucket=self._bucket.name,
                Key=key,
                Body=body,
                IfNoneMatch="*",
                ChecksumCRC64NVME=to_base64(crc64),
                Metadata={ATTEMPT: attempt_token},
            )
        etag(answer, "PutObject", key)
        return replace(stored(key, size, answer), attempt_token=attempt_token)

    def put_document(self, key: str, body: bytes) -> None:
        """Write a document of labferry's own, over an older one; raw data never comes this way."""
        with self._bucket.asking("PutObject", key) as clients:
            answer = clients.calls.put_object(
                Bucket=self._bucket.name,
                Key=key,
                Body=body,
                ContentType="application/json",
                ChecksumCRC64NVME=to_base64(crc64nvme(body)),
            )
        etag(answer, "PutObject", key)

    def put_with_md5(self, key: str, body: bytes, md5: str) -> str:
        """Create a scratch object with a Content-MD5 (base64) and no other checksum; return its
        ETag. Not of the port: for the endpoint's proof."""
        with self._bucket.asking("PutObject", key) as clients:
            answer = clients.calls.put_object(
                Bucket=self._bucket.name, Key=key, Body=body, ContentMD5=md5
            )
        return etag(answer, "PutObject", key)

    def read(self, key: str, version_id: str = "") -> Iterable[bytes]:
        """Yield an object's bytes in blocks; a body that ends early raises."""
        pin = {"VersionId": version_id} if version_id else {}
        with self._bucket.asking("GetObject", key) as clients:
            body = clients.calls.get_object(Bucket=self._bucket.name, Key=key, **pin)["Body"]
            try:
                yield from body.iter_chunks(BLOCK_BYTES)
            finally:
                body.close()

    def delete(self, key: str, version_id: str = "") -> None:
        """Remove a scratch object of the endpoint's proof; nothing else is ever deleted."""
        pin = {"VersionId": version_id} if version_id else {}
        with self._bucket.asking("DeleteObject", key) as clients:
            clients.calls.delete_object(Bucket=self._bucket.name, Key=key, **pin)

    # -- multipart uploads

    def create_upload(self, key: str, attempt_token: str) -> str:
        """Begin a multipart upload with a full-object CRC64NVME; return its id."""
        operation = "CreateMultipartUpload"
        with self._bucket.asking(operation, key) as clients:
            answer = clients.calls.create_multipart_upload(
                Bucket=self._bucket.name,
                Key=key,
                ChecksumAlgorithm="CRC64NVME",
                ChecksumType="FULL_OBJECT",
                Metadata={ATTEMPT: attempt_token},
            )
        upload_id: str = answer.get("UploadId", "")
        if not upload_id:
            raise StoreError(operation=operation, key=key, code="NoUploadId", status=200)
        return upload_id

    def find_uploads(self, key: str) -> list[str]:
        """Return the ids of open uploads under exactly this key; [] where none can be listed.

        Prefix `a` also lists `ab`.
        """
        try:
            return [upload_id for found, upload_id in self.list_uploads(key) if found == key]
        except StoreError as error:
            if error.code in CANNOT_LIST:
                return []
            raise

    def list_uploads(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield key and id of every open upload below a prefix; some servers show those alone
        whose key is the prefix. SeaweedFS lists entries without a key: they are left out."""
        cursor = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
        listing = Listing("ListMultipartUploads", prefix, cursor)
        with self._bucket.asking("ListMultipartUploads", prefix) as clients:
            for page in listing.pages(
                lambda **at: clients.calls.list_multipart_uploads(
                    Bucket=self._bucket.name, Prefix=prefix, **at
                )
            ):
                found = [(one.get("Key", ""), one["UploadId"]) for one in page.get("Uploads", [])]
                yield from (one for one in found if one[0].startswith(prefix) and all(one))

    def list_parts(self, key: str, upload_id: str) -> set[ServerPart]:
        """Return all parts; one number may stand several times. Raises: BadListing."""
        listing = Listing(
            "ListParts",
            key,
            {"PartNumberMarker": "NextPartNumberMarker"},
            max_pages=2 + int(self._max_parts * PART_PAGES_PER_PART),
        )
        with self._bucket.asking("ListParts", key) as clients:
            pages = listing.growing(
                lambda **at: clients.calls.list_parts(
                    Bucket=self._bucket.name, Key=key, UploadId=upload_id, **at
                )
            )
            return {
                ServerPart(part["PartNumber"], unquoted(part["ETag"]), part["Size"])
                for page in pages
                for part in page.get("Parts", [])
            }

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        """Send one part with its checksum; return its ETag."""
        with self._bucket.asking("UploadPart", key) as clients:
            if clients.fast is not None:
                return clients.fast.put_part(key, upload_id, number, body, crc64)
            answer = clients.calls.upload_part(
                Bucket=self._bucket.name,
                Key=key,
                UploadId=upload_id,
                PartNumber=number,
                Body=BytesIO(body),
                ChecksumCRC64NVME=to_base64(crc64),
            )
        return etag(answer, "UploadPart", key)

    def complete_upload(self, key: str, upload_id: str, parts: dict[int, Part], crc64: int) -> None:
        """Ask once for the object, If-None-Match and the full CRC64NVME on it. Neither a return nor
        an error decides: HEAD does."""
        listed = [
            {
                "PartNumber": number,
                "ETag": f'"{part.etag}"',
                "ChecksumCRC64NVME": to_base64(part.crc64),
            }
            for number, part in sorted(parts.items())
        ]
        with self._bucket.asking("CompleteMultipartUpload", key) as clients:
            answer = clients.patient.complete_multipart_upload(
                Bucket=self._bucket.name,
                Key=key,
                UploadId=upload_id,
                MultipartUpload={"Parts": listed},
                ChecksumCRC64NVME=to_base64(crc64),
                ChecksumType="FULL_OBJECT",
                MpuObjectSize=sum(part.size for part in parts.values()),
                IfNoneMatch="*",
            )
        etag(answer, "CompleteMultipartUpload", key)

    def abort_upload(self, key: str, upload_id: str) -> None:
        """End an upload; done also when it is gone already."""
        try:
            with self._bucket.asking("AbortMultipartUpload", key) as clients:
                clients.calls.abort_multipart_upload(
                    Bucket=self._bucket.name, Key=key, UploadId=upload_id
                )
        except StoreError as error:
            if error.code != "NoSuchUpload":
                raise

    # -- what is there

    def list_objects(self, prefix: str) -> Iterator[Listed]:
        """Yield every object below a prefix, in no order. Raises: BadListing when a cursor is
        missing or repeats, or when there are too many pages."""
        cursor = {"ContinuationToken": "NextContinuationToken"}
        listing = Listing("ListObjectsV2", prefix, cursor)
        begun: set[str] = set()
        with self._bucket.asking("ListObjectsV2", prefix) as clients:
            for page in listing.pages(
                lambda **at: clients.calls.list_objects_v2(
                    Bucket=self._bucket.name, Prefix=prefix, **at
                )
            ):
                entries: list[Listed] = page.get(LISTED, [])
                if any(not entry.key.startswith(prefix) for entry in entries):
                    listing.refuse("ForeignEntry", "it holds a key that was not asked for")
                if entries and entries[0].key in begun:
                    listing.refuse("RepeatedPage", f"{entries[0].key!r} began a page before")
                begun.update(entry.key for entry in entries[:1])
                yield from entries

    def list_folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of what looks like folders directly below a prefix that ends in `/`."""
        listing = Listing("ListObjectsV2", prefix, {"ContinuationToken": "NextContinuationToken"})
        with self._bucket.asking("ListObjectsV2", prefix) as clients:
            for page in listing.pages(
                lambda **at: clients.calls.list_objects_v2(
                    Bucket=self._bucket.name, Prefix=prefix, Delimiter="/", **at
                )
            ):
                for one in page.get("CommonPrefixes", []):
                    yield one["Prefix"].removeprefix(prefix).removesuffix("/")

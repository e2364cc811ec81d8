"""An object store in memory, and a wrapper that breaks any port at a chosen call.

`MemoryStore` is held to `tests/contract/test_object_store.py`, as the real one is.
"""

import base64
import hashlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, NoReturn

from labferry.errors import StoreError
from labferry.records import Part
from labferry.s3.checksum import crc64nvme
from labferry.store_port import Buffer, ObjectStore, P
from labferry.stored import Listed, ServerPart, StoredObject

MIN_PART_BYTES = 5 * 1024 * 1024
BLOCK_BYTES = 1024 * 1024


@dataclass(slots=True)
class StoredBody:
    """One object; tests may plant and corrupt it."""

    body: bytes
    etag: str
    attempt_token: str


@dataclass(slots=True)
class OpenUpload:
    """One multipart upload; every attempt at a part is kept, as SeaweedFS does."""

    key: str
    attempt_token: str
    parts: list[tuple[int, str, bytes]] = field(default_factory=list)


class MemoryStore(ObjectStore):
    """ObjectStore in memory. `attests` off is an endpoint whose HEAD shows no checksum."""

    endpoint = "memory"
    bucket = "lab-bucket"

    def __init__(self, *, attests: bool = True, min_part_bytes: int = MIN_PART_BYTES) -> None:
        self.objects: dict[str, StoredBody] = {}
        self.uploads: dict[str, OpenUpload] = {}
        self._attests = attests
        self._min_part_bytes = min_part_bytes
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    def find_object(self, key: str) -> StoredObject | None:
        stored = self.objects.get(key)
        if stored is None:
            return None
        return StoredObject(
            key=key,
            size=len(stored.body),
            etag=stored.etag,
            version_id="",
            crc64=crc64nvme(stored.body) if self._attests else None,
            attempt_token=stored.attempt_token,
        )

    def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
        return self.put_absent(key, body, crc64nvme(body), attempt_token).etag

    def puts_many(self) -> bool:
        return True

    def put_many(
        self, puts: Iterable[P], room: Callable[[], int]
    ) -> Iterator[tuple[P, str | Exception]]:
        return put_many(self, puts, room)

    def put_absent(
        self, key: str, body: bytes | BinaryIO, crc64: int, attempt_token: str
    ) -> StoredObject:
        data = body if isinstance(body, bytes) else body.read()
        if crc64nvme(data) != crc64:
            _refuse("PutObject", key, "BadDigest", 400)
        self._create("PutObject", key, StoredBody(data, _md5(data), attempt_token))
        stored = self.find_object(key)
        assert stored is not None
        return stored

    def put_with_md5(self, key: str, body: bytes, md5: str) -> str:
        if base64.b64encode(hashlib.md5(body).digest()).decode() != md5:
            _refuse("PutObject", key, "BadDigest", 400)
        self.objects[key] = StoredBody(body, _md5(body), "")
        return _md5(body)

    def renew_credentials(self) -> None:
        """It asks for none."""

    def put_document(self, key: str, body: bytes) -> None:
        with self._lock:
            self.objects[key] = StoredBody(body, _md5(body), "")

    def create_upload(self, key: str, attempt_token: str) -> str:
        upload_id = f"upload-{next(self._numbers)}"
        self.uploads[upload_id] = OpenUpload(key, attempt_token)
        return upload_id

    def find_uploads(self, key: str) -> list[str]:
        return [name for name, upload in list(self.uploads.items()) if upload.key == key]

    def list_uploads(self, prefix: str) -> Iterator[tuple[str, str]]:
        for name, upload in list(self.uploads.items()):
            if upload.key.startswith(prefix):
                yield upload.key, name

    def list_parts(self, key: str, upload_id: str) -> set[ServerPart]:
        upload = self._upload("ListParts", key, upload_id)
        return {ServerPart(number, etag, len(body)) for number, etag, body in upload.parts}

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        upload, data = self._upload("UploadPart", key, upload_id), bytes(body)
        if crc64nvme(data) != crc64:
            _refuse("UploadPart", key, "BadDigest", 400)
        upload.parts.append((number, _md5(data), data))
        return _md5(data)

    def complete_upload(self, key: str, upload_id: str, parts: dict[int, Part], crc64: int) -> None:
        operation = "CompleteMultipartUpload"
        with self._lock:
            if key in self.objects:
                _refuse(operation, key, "PreconditionFailed", 412)
            upload = self._upload(operation, key, upload_id)
            bodies = self._chosen(upload, parts)
            whole = b"".join(bodies)
            if crc64nvme(whole) != crc64:
                _refuse(operation, key, "BadDigest", 400)
            digests = b"".join(hashlib.md5(body).digest() for body in bodies)
            etag = f"{_md5(digests)}-{len(bodies)}"
            self._create(operation, key, StoredBody(whole, etag, upload.attempt_token))
            del self.uploads[upload_id]

    def abort_upload(self, key: str, upload_id: str) -> None:
        with self._lock:
            if self.uploads.get(upload_id, OpenUpload("", "")).key == key:
                del self.uploads[upload_id]

    def list_objects(self, prefix: str) -> Iterator[Listed]:
        for key, stored in sorted(self.objects.items()):
            if key.startswith(prefix):
                yield Listed(key, len(stored.body), stored.etag)

    def list_folders(self, prefix: str) -> Iterator[str]:
        below = [key.removeprefix(prefix) for key in self.objects if key.startswith(prefix)]
        yield from sorted({rest.partition("/")[0] for rest in below if "/" in rest})

    def read(self, key: str, version_id: str = "") -> Iterable[bytes]:
        stored = self.objects.get(key)
        if stored is None:
            _refuse("GetObject", key, "NoSuchKey", 404)
        if version_id:
            _refuse("GetObject", key, "NoSuchVersion", 404)
        for start in range(0, len(stored.body), BLOCK_BYTES):
            yield stored.body[start : start + BLOCK_BYTES]

    def delete(self, key: str, version_id: str = "") -> None:
        self.objects.pop(key, None)

    def _create(self, operation: str, key: str, body: StoredBody) -> None:
        with self._lock:
            if self.objects.setdefault(key, body) is not body:
                _refuse(operation, key, "PreconditionFailed", 412)

    def _upload(self, operation: str, key: str, upload_id: str) -> OpenUpload:
        upload = self.uploads.get(upload_id)
        if upload is None or upload.key != key:
            _refuse(operation, key, "NoSuchUpload", 404)
        return upload

    def _chosen(self, upload: OpenUpload, parts: dict[int, Part]) -> list[bytes]:
        operation, key = "CompleteMultipartUpload", upload.key
        if not parts:
            _refuse(operation, key, "MalformedXML", 400)
        received = {(number, etag): body for number, etag, body in upload.parts}
        chosen = [received.get((number, parts[number].etag)) for number in sorted(parts)]
        bodies = [body for body in chosen if body is not None]
        if len(bodies) < len(chosen):
            _refuse(operation, key, "InvalidPart", 400)
        if any(len(body) < self._min_part_bytes for body in bodies[:-1]):
            _refuse(operation, key, "EntityTooSmall", 400)
        return bodies


class Died(BaseException):
    """Stands for the death of the process: no `except Exception` may swallow it."""


class Breaking:
    """Any port, but its nth call fails before its effect, or after it with the answer lost.

    `nth` counts from 1, over all methods or over `method` alone; 0 breaks nothing, and `calls`
    then tells how many calls there are to break. Once `Died` was raised, every later call of any
    thread dies too. Other errors are raised once.
    """

    def __init__(
        self,
        port: object,
        nth: int = 0,
        when: Literal["before", "after"] = "before",
        *,
        method: str | None = None,
        error: BaseException | None = None,
    ) -> None:
        self._port = port
        self._nth = nth
        self._when = when
        self._method = method
        self._error = error or Died()
        self._counted = 0
        self._dead = False
        self._lock = threading.Lock()
        self.calls: list[str] = []

    def puts_many(self) -> Any:
        """Ask nothing of a server, so that there is nothing to break."""
        return self._port.puts_many()  # type: ignore[attr-defined]

    def put_many(self, *args: Any) -> Any:
        """Go through `put_fast`, as whatever breaks for one breaks for many."""
        return put_many(self, *args)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        return self._guarded(name, attribute) if callable(attribute) else attribute

    def _guarded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            breaks = self._is_chosen(name)
            if breaks and self._when == "before":
                self._break()
            result = call(*args, **kwargs)
            if breaks:
                self._break()
            return result

        return guarded

    def _is_chosen(self, name: str) -> bool:
        with self._lock:
            if self._dead:
                raise Died
            self.calls.append(name)
            if self._method not in (None, name):
                return False
            self._counted += 1
            return self._counted == self._nth

    def _break(self) -> NoReturn:
        self._dead = isinstance(self._error, Died)
        raise self._error


def put_many(
    store: Any, puts: Iterable[P], room: Callable[[], int]
) -> Iterator[tuple[P, str | Exception]]:
    """Put many objects by `put_fast`, up to `room` of them at a time."""
    source, is_more, flying = iter(puts), True, dict[Future[str], P]()
    with ThreadPoolExecutor(256) as pool:
        while is_more or flying:
            while is_more and len(flying) < room():
                put = next(source, None)
                if put is None:
                    is_more = False
                else:
                    flying[pool.submit(store.put_fast, put.key, put.body, put.attempt_token)] = put
            for done in wait(flying, return_when=FIRST_COMPLETED).done:
                error = done.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield flying.pop(done), error or done.result()


def _md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def _refuse(operation: str, key: str, code: str, status: int) -> NoReturn:
    raise StoreError(operation=operation, key=key, code=code, status=status)

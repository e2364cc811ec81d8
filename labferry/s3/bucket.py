"""How is one request made of a bucket, and what of its failure?"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from labferry.errors import LabferryError, StoreError
from labferry.s3.clients import Clients, ClientsOfProcess
from labferry.s3.translate import to_store_error
from labferry.settings import StoreSettings

#: The credentials in memory are no good: they are read again before the next call.
STALE_CREDENTIALS = frozenset({
    "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired",
    "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch",
})  # fmt: skip
#: A request that was sent for so long before its date was refused was dated rightly.
STALLED_S = 300.0
_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND = 400, 403, 404


class Bucket:
    """A bucket's name and the clients that reach it."""

    def __init__(self, settings: StoreSettings) -> None:
        self.name = settings.bucket
        self._clients = ClientsOfProcess(settings)
        self._seen = False

    @contextmanager
    def asking(self, operation: str, key: str) -> Iterator[Clients]:
        """Lend the clients for one request. Raises: StoreError for whatever goes wrong in it."""
        clients, begun_s = None, time.monotonic()
        try:
            clients = self._clients.get()
            yield clients
        except StoreError as refused:
            raise self.judged(refused, clients, begun_s)  # noqa: B904  it is the same, or tells it
        except LabferryError:
            raise
        except Exception as error:  # a redirect loop, or bad TLS, is none of botocore's own
            failure = to_store_error(error, operation, key)
            raise self.judged(failure, clients, begun_s) from error

    def clients(self) -> Clients:
        """Return the clients of this process, for many requests. Raises: BotoCoreError."""
        return self._clients.get()

    def judged(self, failure: StoreError, clients: Clients | None, begun_s: float) -> StoreError:
        """Return a failure as it counts; stale credentials are read again before the next call."""
        if time.monotonic() - begun_s > STALLED_S:
            failure = _stalled(failure)
        if clients is not None and failure.code in STALE_CREDENTIALS:
            self._clients.forget(clients)
        return failure

    def renew_credentials(self) -> None:
        """Read credentials again before the next request."""
        self._clients.forget()

    def conclude_absence(self, refused: StoreError) -> None:
        """Return if a HEAD's failure means that the object is not there, else raise what it means.

        A HEAD answers alike for a missing object and a missing bucket, and its refusal has no body.
        Raises: StoreError.
        """
        if refused.status in {_BAD_REQUEST, _FORBIDDEN}:
            raise self._told_by_get(refused) from refused
        if refused.status != _NOT_FOUND:
            raise refused
        self._require(refused.key)

    def _told_by_get(self, refused: StoreError) -> StoreError:
        """Return the refusal of a request whose answer has a body, where that says more."""
        try:
            with self.asking("GetObject", refused.key) as clients:
                answer = clients.calls.get_object(
                    Bucket=self.name, Key=refused.key, Range="bytes=0-0"
                )
                answer["Body"].close()
        except StoreError as error:
            says_nothing = {"AccessDenied", str(error.status)}
            if error.status in {_BAD_REQUEST, _FORBIDDEN} and error.code not in says_nothing:
                return error
        return refused

    def _require(self, key: str) -> None:
        """Ask for the bucket until it was there once. Raises: StoreError NoSuchBucket."""
        if self._seen:
            return
        try:
            with self.asking("HeadBucket", key) as clients:
                clients.calls.head_bucket(Bucket=self.name)
        except StoreError as error:
            if error.status == _NOT_FOUND:
                raise self._missing(key) from error
            if error.status != _FORBIDDEN:  # if it is not ours to ask, the object's 404 stands
                raise
        self._seen = True

    def _missing(self, key: str) -> StoreError:
        return StoreError(
            operation="HeadBucket",
            key=key,
            code="NoSuchBucket",
            status=_NOT_FOUND,
            detail=f"There is no bucket {self.name!r} and labferry makes none. "
            "Check [store] bucket.",
        )


def _stalled(failure: StoreError) -> StoreError:
    """Return what a refused date means after minutes of sending: the clock is right."""
    if failure.code != "RequestTimeTooSkewed":
        return failure
    return StoreError(
        operation=failure.operation,
        key=failure.key,
        code="RequestStalled",
        status=failure.status,
        detail="It was sent for so long that its date was refused. "
        "Set [store] part_size_bytes or the number of threads lower.",
    )

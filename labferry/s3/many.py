"""How are many small objects put at once, in one thread?"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic

from labferry.errors import StoreError
from labferry.s3.bucket import Bucket
from labferry.s3.clients import Clients
from labferry.s3.fast import etag_of
from labferry.s3.flights import fly
from labferry.s3.http_answer import HttpAnswer
from labferry.s3.translate import to_store_error
from labferry.s3.wire import Request
from labferry.store_port import P

_OPERATION = "PutObject"


class _Flying(Generic[P]):
    """A Put under way, and the clients it was begun with."""

    __slots__ = ("begun_s", "clients", "put")

    def __init__(self, put: P) -> None:
        self.put = put
        self.begun_s = time.monotonic()
        self.clients: Clients | None = None


def can_put_many(bucket: Bucket) -> bool:
    """Whether there are credentials, and no proxy in between."""
    try:
        with bucket.asking(_OPERATION, "") as clients:
            return clients.fast is not None
    except StoreError:
        return False


def put_many(
    bucket: Bucket, puts: Iterable[P], room: Callable[[], int]
) -> Iterator[tuple[P, str | StoreError]]:
    """Yield what came of each Put, in the order of the answers."""
    flying = (_Flying(put) for put in puts)
    for one, outcome in fly(flying, partial(_begin, bucket), room):
        yield one.put, _landed(bucket, one, outcome)


def _begin(bucket: Bucket, flying: _Flying[P]) -> Request:
    flying.clients, put = bucket.clients(), flying.put
    assert flying.clients.fast is not None  # noqa: S101  can_put_many has seen it
    return flying.clients.fast.begin_put(put.key, put.body, put.crc64, put.attempt_token)


def _landed(
    bucket: Bucket, flying: _Flying[P], outcome: HttpAnswer | Exception
) -> str | StoreError:
    key = flying.put.key
    try:
        if isinstance(outcome, HttpAnswer):
            return etag_of(outcome, _OPERATION, key)
        failure = to_store_error(outcome, _OPERATION, key)
    except StoreError as refused:
        failure = refused
    return bucket.judged(failure, flying.clients, flying.begun_s)

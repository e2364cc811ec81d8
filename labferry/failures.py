"""What kind of failure is an error, and whose fault is it?

The tables of labferry/failure_table.py decide; what no row knows is its own kind and is reported
as such.
"""

import errno
from collections.abc import Iterable
from dataclasses import dataclass

from labferry.errors import LabferryError, SourceError, StoreError
from labferry.failure_table import (
    ANSWERS,
    DIGESTS,
    ERRNOS,
    OWN,
    Cause,
    Kind,
    Row,
    Scope,
)

__all__ = [
    "DIGESTS",
    "Cause",
    "Failure",
    "Kind",
    "Scope",
    "classify",
    "classify_undone",
    "unforeseen",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One classified failure; `message` is the sentence an operator reads.

    `cause` names the breaker that counts it, None where it is a file's or a run's own affair.
    """

    kind: Kind
    code: str
    message: str = ""
    scope: Scope = Scope.FILE
    cause: Cause | None = None
    retry_after_s: float | None = None


def classify(error: LabferryError) -> Failure:
    """Return what kind of failure an error is; `unknown` when no table knows it."""
    if isinstance(error, StoreError):
        return _of_answer(error, ANSWERS)
    for cls, row in OWN:
        if isinstance(error, cls):
            (code,) = row.codes
            return _failure(row, code, error)
    if isinstance(error, SourceError):
        code = error.errno_name or "source_error"
        return _failure(_first(ERRNOS, "", None, code), code, error)
    return unforeseen(error)


def classify_undone(error: StoreError) -> Failure:
    """Return the kind of an ambiguous failure once the server was seen not to have done it."""
    return _of_answer(error, (row for row in ANSWERS if row.kind is not Kind.AMBIGUOUS))


def unforeseen(error: Exception) -> Failure:
    """Return the failure for an error of nobody's: this host's lack of something, or unknown."""
    code = type(error).__name__
    if isinstance(error, OSError):
        code = errno.errorcode.get(error.errno or 0, code)
    row = _first(ERRNOS, "", None, code)
    return _failure(row if row and row.cause is Cause.LOCAL else None, code, error)


def _of_answer(error: StoreError, rows: Iterable[Row]) -> Failure:
    row = _first(rows, error.operation, error.status, error.code)
    return _failure(row, error.code, error, error.retry_after_s)


def _first(rows: Iterable[Row], operation: str, status: int | None, code: str) -> Row | None:
    return next((row for row in rows if row.matches(operation, status, code)), None)


def _failure(
    row: Row | None, code: str, error: Exception, retry_after_s: float | None = None
) -> Failure:
    return Failure(
        kind=row.kind if row else Kind.UNKNOWN,
        code=code,
        message=str(error),
        scope=row.scope if row else Scope.FILE,
        cause=row.cause if row else None,
        retry_after_s=retry_after_s if retry_after_s is not None or not row else row.wait_s,
    )

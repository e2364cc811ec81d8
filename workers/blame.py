"""Is a failure the file's, or would any file have met it? A scratch object tells."""

import contextlib
import secrets
import threading
from dataclasses import replace

from labferry.errors import StoreError
from labferry.failures import Cause, Failure, Kind, Scope, classify_undone
from labferry.identity import Layout
from labferry.ports import Clock, ObjectStore
from labferry.s3.checksum import crc64nvme

#: What a scratch object told is believed for so long.
_BELIEVED_S = 2.0
_SCRATCH = b"labferry asks whether anything can be stored"
#: What a refused scratch object can be the sign of.
_CAUSES = frozenset(
    {Cause.CREDENTIALS, Cause.CLOCK, Cause.ENDPOINT, Cause.BUCKET, Cause.QUOTA, Cause.LOCAL}
)


class Blame:
    """Asks one endpoint. Safe in threads: one asks, the others believe it."""

    def __init__(self, store: ObjectStore, layout: Layout, clock: Clock) -> None:
        self._store = store
        self._layout = layout
        self._clock = clock
        self._asking = threading.Lock()
        self._told_s = float("-inf")
        self._told: Failure | None = None

    def renew_credentials(self) -> None:
        """Ask from now on with credentials that are read again."""
        self._store.renew_credentials()

    def find_systemic(self, failure: Failure) -> Failure | None:
        """Return what stands in the way of every file, or None where it is this one's failure."""
        with self._asking:
            if self._clock.mono_s() - self._told_s > _BELIEVED_S:
                self._told = self._put_scratch()
                self._told_s = self._clock.mono_s()
            told = self._told
        if told is None or told.kind is Kind.THROTTLED:
            return None
        is_denied = told.scope is Scope.RUN
        if is_denied and failure.scope is not Scope.RUN:
            return None  # scratch objects are not allowed here; but the endpoint answers
        cause = Cause.CREDENTIALS if is_denied else told.cause
        if cause is None or cause not in _CAUSES:
            cause = Cause.ENDPOINT
        return replace(told, kind=Kind.ENVIRONMENT, scope=cause.scope, cause=cause)

    def _put_scratch(self) -> Failure | None:
        key = f"{self._layout.probe(secrets.token_hex(8))}/blame"
        try:
            stored = self._store.put_absent(key, _SCRATCH, crc64nvme(_SCRATCH), "blame")
        except StoreError as error:
            return classify_undone(error)
        with contextlib.suppress(StoreError):
            self._store.delete(key, stored.version_id)
        return None

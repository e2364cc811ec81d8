"""What is on record of one multipart upload, and what of it does the server hold?

Every change is recorded before the server is asked for what follows from it, under the token of the
claim. An upload that is not on record belongs to a dead or fenced-out attempt: it is aborted.
"""

import logging
import secrets
from dataclasses import dataclass, replace

from labferry.errors import LedgerUnavailable, Refused, StoreError
from labferry.failures import Kind, classify
from labferry.ports import Ledger, ObjectStore
from labferry.records import Part, Upload
from labferry.settings import MIB, StoreSettings
from labferry.telemetry import emit
from workers.attempt import Attempt, Undone

#: Create is asked for this often within one attempt at a file.
_CREATES = 2
#: No S3 takes a larger part.
MOST_PART_BYTES = 5 * 1024 * MIB


def part_size_of(size: int, settings: StoreSettings) -> int:
    """Return the size of a file's parts, whole MiB, all equal but for the last."""
    wanted = max(settings.part_size_bytes, -(-size // settings.max_parts))
    return -(-wanted // MIB) * MIB


@dataclass(slots=True)
class Plan:
    """The upload of one file; `upload` is None while there is none."""

    ledger: Ledger
    store: ObjectStore
    attempt: Attempt
    upload: Upload | None = None

    def load(self) -> Upload | None:
        """Read the plan on record, with its parts."""
        self._set(self.ledger.find_upload(self.attempt.file))
        return self.upload

    def is_current(self) -> bool:
        """Whether the plan on record is of the file as it is settled now."""
        settled = self.attempt.claim.record.fingerprint
        return self.upload is not None and self.upload.fingerprint == settled

    def ready(self, settings: StoreSettings) -> Upload:
        """Return the upload to go on with: the one on record, or a new one."""
        if self.upload is not None and not (self.is_current() and self.upload.upload_id):
            self.discard()
        self._abort_all_but(self.upload.upload_id if self.upload else "")
        return self.upload or self._begin(settings)

    def acknowledged(self) -> dict[int, Part]:
        """Return the parts that are on record with a receipt and that the server lists as well.

        Raises: StoreError NoSuchUpload.
        """
        upload = self._get()
        if not upload.parts:
            return {}
        listed = self.store.list_parts(self.attempt.key, upload.upload_id)
        held = {(part.number, part.etag, part.size) for part in listed}
        return {n: part for n, part in upload.parts.items() if (n, part.etag, part.size) in held}

    def is_open(self) -> bool:
        """Whether the server still knows the upload."""
        try:
            self.store.list_parts(self.attempt.key, self._get().upload_id)
        except StoreError as error:
            if error.code == "NoSuchUpload":
                return False
            raise
        return True

    def mark_complete(self, sent_ms: int) -> Upload:
        """Record when Complete was sent, or 0 when it was refused."""
        return self._save(replace(self._get(), complete_sent_ms=sent_ms))

    def discard(self) -> None:
        """Abort the upload and forget it; its parts are of no use any more."""
        if self.upload is not None and self.upload.upload_id:
            self._abort(self.upload.upload_id)
        self.forget()

    def forget(self) -> None:
        """Forget the plan: the server does not know the upload any more."""
        if self.upload is not None:
            self.ledger.drop_upload(self.attempt.file, self.attempt.claim.token)
            self.upload = None

    def abort_all(self) -> None:
        """End whatever is open under the key: its object is there already."""
        self.discard()
        self._abort_all_but("")

    def end_strays(self) -> None:
        """End what a repeated Create left open beside our upload, which became the object."""
        try:
            self._abort_all_but(self._get().upload_id)
        except StoreError as error:
            self._tell(error)

    def leave(self) -> None:
        """End our upload unless it is the one on record: nobody else knows of it then.

        For who lost the claim. Whoever has it now may have failed to end this one, or have ended it
        while a part was under way, which a server may keep.
        """
        mine = self.upload.upload_id if self.upload else ""
        if not mine:
            return
        try:
            found = self.ledger.find_upload(self.attempt.file)
            if found is None or found.upload_id != mine:
                self.store.abort_upload(self.attempt.key, mine)
        except LedgerUnavailable:
            pass  # `labferry reconcile` finds it
        except StoreError as error:
            self._tell(error)

    def _begin(self, settings: StoreSettings) -> Upload:
        settled = self.attempt.claim.record.fingerprint
        part_size = part_size_of(settled.size, settings)
        if part_size > MOST_PART_BYTES:
            raise _too_large(settled.size, settings.max_parts)
        token = secrets.token_hex(16)
        upload = self._save(Upload(attempt_token=token, part_size=part_size, fingerprint=settled))
        self._set(replace(upload, upload_id=self._create(token)))
        return self._save(self._get())

    def _create(self, attempt_token: str) -> str:
        for tried in range(1, _CREATES + 1):
            self.attempt.lease.check()
            try:
                return self.store.create_upload(self.attempt.key, attempt_token)
            except StoreError as error:
                if classify(error).kind is not Kind.AMBIGUOUS:
                    raise
                # A listing shows no metadata: what the lost answer may have made is not told
                # apart from other orphans, so none is used.
                self._abort_all_but("")
                if tried == _CREATES:
                    raise Undone(error) from error
        raise AssertionError("the last try returns or raises")

    def _abort_all_but(self, kept: str) -> None:
        for upload_id in self.store.find_uploads(self.attempt.key):
            if upload_id != kept:
                self._abort(upload_id)

    def _abort(self, upload_id: str) -> None:
        self.attempt.lease.check()
        try:
            self.store.abort_upload(self.attempt.key, upload_id)
        except StoreError as error:
            self._tell(error)

    def _tell(self, error: StoreError) -> None:
        # The file itself can go on; a lifecycle rule of the bucket removes what stays.
        file = str(self.attempt.file)
        emit("upload.not_aborted", level=logging.WARNING, file=file, error=str(error))

    def _get(self) -> Upload:
        if self.upload is None:
            raise AssertionError("there is a plan by now")
        return self.upload

    def _save(self, upload: Upload) -> Upload:
        self.ledger.save_upload(self.attempt.file, self.attempt.claim.token, upload)
        self._set(upload)
        return upload

    def _set(self, upload: Upload | None) -> None:
        self.upload = upload
        self.attempt.upload_id = upload.upload_id if upload else ""


def _too_large(size: int, max_parts: int) -> Refused:
    return Refused(
        what=f"a file of {size} bytes",
        why=f"it does not fit {max_parts} parts of {MOST_PART_BYTES} bytes, the largest S3 takes",
        step="Set [store] max_parts higher if the endpoint takes more parts.",
    )

"""How does the bucket come to tell of each dead letter?

The ledger numbers each change of a letter; its document is written anew after it, and crossed off
under that number. So whatever made the letter, a worker, the sweep or an agent, and whoever replays
or discards it, the bucket tells of it, and goes on to when the ledger is lost. The document is the
one thing that labferry overwrites.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from labferry.alerts import dead_letters_key, dead_letters_text
from labferry.dead_letter import DeadLetter, find_letter, reason_document
from labferry.editions import object_key
from labferry.errors import BadName, StoreError
from labferry.events import dead_letter_event
from labferry.failures import Scope, classify
from labferry.identity import Layout, RunKey
from labferry.ports import Leadership, Ledger, ObjectStore
from labferry.states import State
from labferry.telemetry import emit

#: Documents of one round, and how many are written at a time.
_PAGE, _THREADS = 64, 8
#: A writer that finds another at work leaves; a dead one's lock ends after this.
_LOCK_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Writes the documents of dead letters; where `tells`, others are told of each by an event."""

    ledger: Ledger
    store: ObjectStore
    layout: Layout
    tells: bool = True

    def write(self, run: RunKey) -> int:
        """Write what the bucket does not tell of yet; return how many. May run twice.

        A document that is refused does not keep the others back, but where none can be written no
        more are tried. Raises: LedgerUnavailable; StoreError, the first, after all that.
        """
        lock = self.ledger.leadership(f"reasons:{run}", keep_s=_LOCK_S)
        if not lock.keep():
            return 0
        try:
            with ThreadPoolExecutor(_THREADS) as pool:
                return self._write_all(run, pool, lock)
        finally:
            lock.release()

    def _write_all(self, run: RunKey, pool: ThreadPoolExecutor, lock: Leadership) -> int:
        after, count, errors = 0, 0, list[StoreError]()
        while changes := self.ledger.reasons_due(run, after, _PAGE):
            after = changes[-1][1]
            told = list(pool.map(lambda change: self._write(run, change[0]), changes))
            found = [error for _, error in told]
            written = [change for change, error in zip(changes, found, strict=True) if not error]
            self._alert(told)
            self._tell(run, told)
            self.ledger.reasons_written(run, written)
            count += len(written)
            errors += [error for error in found if error]
            if not lock.keep() or not written or _in_the_way(errors):
                break
        if errors:
            raise errors[0]
        return count

    def _alert(self, told: Sequence[tuple[DeadLetter | None, StoreError | None]]) -> None:
        """Let a person know of each cause, once a run; of those after it the number alone."""
        letters: dict[str, DeadLetter] = {}
        counts = Counter[str]()
        for letter, error in told:
            if letter and letter.record.state is State.QUARANTINED:
                key = dead_letters_key(letter)
                letters.setdefault(key, letter)
                counts[key] += not error  # those that are not written come here again
        for key, letter in letters.items():
            self.ledger.alert(key, dead_letters_text(letter), counts[key])

    def _tell(
        self, run: RunKey, told: Sequence[tuple[DeadLetter | None, StoreError | None]]
    ) -> None:
        """Add the events of those whose document is written, before that is noted."""
        letters = (letter for letter, error in told if letter and not error and self.tells)
        events = [
            dead_letter_event(letter, self.layout.reason(letter.file), self.store.bucket)
            for letter in letters
            if letter.record.state is State.QUARANTINED
        ]
        self.ledger.tell(run, events)

    def _write(self, run: RunKey, path: str) -> tuple[DeadLetter | None, StoreError | None]:
        """Write one document; return what it is about, and why it could not be written."""
        file = run.file(path)
        record = self.ledger.find_record(file)
        letter = find_letter(file, record, self.ledger.history(file)) if record else None
        if letter is None:
            return None, None
        try:
            if letter.record.state is State.DISCARDED:
                self._end_uploads(letter)
            self.store.put_document(self.layout.reason(file), reason_document(letter))
        except StoreError as error:
            emit("reason.unwritten", level=logging.WARNING, file=str(file), error=str(error))
            return letter, error
        return letter, None

    def _end_uploads(self, letter: DeadLetter) -> None:
        """End what was begun of a file that was given up: nobody else would.

        Whoever sends it in again meanwhile begins anew, as after a lifecycle rule of the bucket.
        """
        try:
            key = object_key(self.ledger, self.layout, letter.file, letter.record)
        except BadName:
            return
        for upload_id in self.store.find_uploads(key):
            self.store.abort_upload(key, upload_id)
            emit("upload.ended", file=str(letter.file), upload_id=upload_id)


def _in_the_way(errors: Sequence[StoreError]) -> bool:
    """Whether the endpoint or this host is what fails."""
    return any(classify(error).scope in {Scope.ENDPOINT, Scope.HOST} for error in errors)

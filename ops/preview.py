"""What would become of files that are sent in again? The world is looked at anew for each.

The source is looked at from here, the destination is asked, and one cheap call tells whether the
endpoint answers at all. Nothing is changed, and what cannot be told from here is said to be so.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from labferry.breakers import Breaker, holds, in_force, names_of
from labferry.dead_letter import OBJECT_MISSING, UNUSABLE_NAME, DeadLetter
from labferry.editions import object_key
from labferry.errors import BadName, StoreError
from labferry.failures import Kind, classify
from labferry.identity import FileKey, Layout, RunKey, decode_path
from labferry.ports import Ledger, ObjectStore
from labferry.records import FileRecord, Fingerprint
from labferry.s3.checksum import crc64nvme
from labferry.settings import Settings
from labferry.source.share import run_path
from labferry.states import MOVE_OF, Event, State
from labferry.stored import StoredObject

#: A source is read to compare it with an object of its size up to so many bytes.
READ_BYTES = 64 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_THREADS = 16
#: Asking for one object costs about as much as listing so many.
_LISTED_FOR_ONE = 100
_REPLAYABLE = MOVE_OF[Event.REPLAY].sources


class Prediction(StrEnum):
    """What would become of a file."""

    NO_OP = "no-op"  # nothing would be sent
    UPLOAD = "would upload"
    FAIL = "would fail again"
    UNKNOWN = "cannot tell"  # a worker knows more


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A file to be sent in again; `fingerprint` and `code` are of the error it stopped with.

    One whose object is gone is verified on record; `lost` is the dead letter that it is to be, and
    all else is the letter's.
    """

    file: FileKey
    record: FileRecord
    fingerprint: str = ""
    code: str = ""
    lost: DeadLetter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What would become of it; `revised` is its source as it is now, where that is another."""

    chosen: Chosen
    prediction: Prediction
    why: str
    revised: Fingerprint | None = None

    def to_json(self) -> dict[str, object]:
        """Return an item of `--json`."""
        return {
            "file": str(self.chosen.file),
            "state": self.chosen.record.state,
            "fingerprint": self.chosen.fingerprint,
            "code": self.chosen.code,
            "prediction": self.prediction,
            "why": self.why,
            "source_changed": self.revised is not None,
        }


class _Foreseen(Exception):
    """What a look at the source settles alone."""

    def __init__(self, prediction: Prediction, why: str) -> None:
        self.prediction = prediction
        self.why = why
        super().__init__(why)


class Preview:
    """Looks at sources and destinations; safe in threads."""

    def __init__(self, settings: Settings, ledger: Ledger, store: ObjectStore) -> None:
        self._settings = settings
        self._ledger = ledger
        self._store = store
        self._layout = Layout(settings.store.prefix)
        self._shares: dict[str, str] = {}

    def obstacles(self, runs: Iterable[RunKey]) -> list[str]:
        """Return what stands in the way of files now: they would wait until it is gone."""
        found = [f"{one.name}: {one.message}" for one in self._open_breakers()]
        for run in sorted(set(runs)):
            if hold := self._ledger.find_hold(run):
                step = f"`labferry release` lets {run} go on."
                found.append(f"{run} is held by {hold.actor}: {hold.reason}. {step}")
        if why := self._endpoint_trouble():
            found.append(why)
        return found

    def forecasts(self, chosen: Sequence[Chosen]) -> list[Forecast]:
        """Return what would become of files, in their order."""
        by_run: dict[RunKey, list[Chosen]] = defaultdict(list)
        for one in chosen:
            by_run[one.file.run].append(one)
        is_blind = self._endpoint_trouble() != ""
        absent = {
            key for run, files in by_run.items() if not is_blind for key in self._absent(run, files)
        }
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(lambda one: self._forecast(one, absent, is_blind), chosen))

    def _open_breakers(self) -> Iterable[Breaker]:
        settings = self._settings
        rules = settings.breakers.rules(settings.ledger.lease_ttl_s)
        names = names_of(settings.store.endpoint)
        return [one for one in in_force(self._ledger.conditions(), names, rules) if holds(one)]

    def _endpoint_trouble(self) -> str:
        try:
            self._store.find_object(self._layout.probe("preview"))
        except StoreError as error:
            return str(error)
        return ""

    def _absent(self, run: RunKey, chosen: Sequence[Chosen]) -> set[str]:
        """Return the keys of a run's files that a listing shows to be absent, where that is cheaper
        than to ask for each."""
        facts = self._ledger.find_facts(run)
        listed = facts.counts[State.VERIFIED] if facts else 0
        if listed > len(chosen) * _LISTED_FOR_ONE:
            return set()
        prefix = self._layout.raw_prefix(run)
        keys = {key for one in chosen if (key := self._key(one)) and key.startswith(prefix)}
        try:
            for found in self._store.list_objects(prefix):
                keys.discard(found.key)
        except StoreError:
            return set()
        return keys

    def _forecast(self, chosen: Chosen, absent: set[str], is_blind: bool) -> Forecast:
        revised = None
        try:
            key = self._destination(chosen)
            path, found = self._look(chosen)
            revised = None if found == chosen.record.fingerprint else found
            stored = None if key in absent else self._ask(key, is_blind=is_blind)
            prediction, why = _compare(stored, path, found, is_revised=revised is not None)
            if stored is None and chosen.code == OBJECT_MISSING:
                why = f"its object is gone; {why}"
        except _Foreseen as foreseen:
            prediction, why = foreseen.prediction, foreseen.why
        return Forecast(chosen=chosen, prediction=prediction, why=why, revised=revised)

    def _destination(self, chosen: Chosen) -> str:
        """Return the object key of a file that can be sent in again. Raises: _Foreseen."""
        state, key = chosen.record.state, self._key(chosen)
        if state is State.VERIFIED:
            raise _Foreseen(Prediction.NO_OP, "it is verified")
        if state not in _REPLAYABLE:
            raise _Foreseen(Prediction.NO_OP, f"it is on its way: {state}")
        if key is None or chosen.code == UNUSABLE_NAME:
            raise _Foreseen(Prediction.FAIL, "no object key can hold its name")
        return key

    def _ask(self, key: str, *, is_blind: bool) -> StoredObject | None:
        """Return what is at the destination. Raises: _Foreseen."""
        if is_blind:
            raise _Foreseen(Prediction.UNKNOWN, "the endpoint cannot be asked now")
        try:
            return self._store.find_object(key)
        except StoreError as error:
            is_permanent = classify(error).kind is Kind.PERMANENT
            prediction = Prediction.FAIL if is_permanent else Prediction.UNKNOWN
            raise _Foreseen(prediction, str(error)) from error

    def _key(self, chosen: Chosen) -> str | None:
        """Return under which key the file would go, or None where none can hold its name."""
        file, record = chosen.file, chosen.record
        try:
            if record.evidence is None and not record.series:
                return self._layout.raw(file)
            # What stands under the key of a verified edition is left behind by a replay.
            after = replace(record, series=record.series + 1)
            return object_key(self._ledger, self._layout, file, after)
        except BadName:
            return None

    def _look(self, chosen: Chosen) -> tuple[bytes, Fingerprint]:
        """Return a source file's path and what it is now. Raises: _Foreseen."""
        file = chosen.file
        instrument = self._settings.instruments.get(file.run.instrument)
        if instrument is None:
            raise _Foreseen(Prediction.UNKNOWN, "its instrument has no settings on this host")
        if why := self._share_trouble(file.run.instrument, instrument.root):
            raise _Foreseen(Prediction.UNKNOWN, why)
        path = run_path(instrument.root, file.run) + b"/" + decode_path(file.path)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            raise _Foreseen(Prediction.FAIL, "its source is not there any more") from None
        except OSError as error:
            raise _Foreseen(Prediction.UNKNOWN, f"its source: {error.strerror}") from error
        if not stat.S_ISREG(found.st_mode):
            raise _Foreseen(Prediction.FAIL, "its source is no regular file")
        # A profile may not go by inodes; then none is on record.
        inode = found.st_ino if chosen.record.fingerprint.inode else 0
        return path, Fingerprint(found.st_size, found.st_mtime_ns, inode, found.st_ctime_ns)

    def _share_trouble(self, instrument: str, root: Path) -> str:
        """Return why nothing can be said of a share from here, or '' ; looked at once."""
        if instrument not in self._shares:
            try:
                with os.scandir(root) as entries:
                    is_there = next(entries, None) is not None
                self._shares[instrument] = "" if is_there else f"{root} is empty here"
            except OSError as error:
                self._shares[instrument] = f"{root} cannot be seen from here: {error.strerror}"
        return self._shares[instrument]


def _compare(
    stored: StoredObject | None, path: bytes, found: Fingerprint, *, is_revised: bool
) -> tuple[Prediction, str]:
    """Return what follows from what is at the destination."""
    if stored is None:
        why = "its source changed: it settles first" if is_revised else "nothing is there yet"
        return Prediction.UPLOAD, why
    if stored.size != found.size:
        why = f"an object of {stored.size:,} bytes is there, the source has {found.size:,}"
        return Prediction.FAIL, why
    if stored.crc64 is None or found.size > READ_BYTES:
        return Prediction.UNKNOWN, "an object of its size is there: a worker compares them"
    try:
        crc64 = _checksum(path)
    except OSError as error:
        return Prediction.UNKNOWN, f"its source cannot be read here: {error.strerror}"
    if crc64 != stored.crc64:
        return Prediction.FAIL, "another object of its size is there"
    return Prediction.NO_OP, "the same object is there: it is proven, not sent"


def _checksum(path: bytes) -> int:
    crc64 = 0
    with Path(os.fsdecode(path)).open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            crc64 = crc64nvme(block, crc64)
    return crc64

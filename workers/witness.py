"""Is it proven, by the bucket and the source as they are now, that an object holds a file's bytes?

For a ledger that was lost: nothing is sent. Level A is given only where the server attests the
checksum that the manifest or the source has; what a manifest claims beyond that is read back.
"""

import os

from labferry.dead_letter import OBJECT_MISSING, OBJECT_REPLACED
from labferry.errors import (
    ChecksumMismatch,
    ShareUnavailable,
    SidecarMismatch,
    SourceError,
    WeakEvidence,
)
from labferry.identity import FileKey, RunKey
from labferry.manifest import Entry
from labferry.ports import ObjectStore
from labferry.records import Evidence, Fingerprint, Level, Proof
from labferry.settings import Settings
from labferry.source.scan import fingerprint_by
from workers.evidence import Content, Prover
from workers.source import RunFolder, check_share


class _Alone:
    """Nobody else works on a file that no ledger knows."""

    def check(self) -> None:
        pass

    def mark_stored(self) -> None:
        pass


class Witness:
    """Proves the objects of one run; safe in threads. Close it."""

    def __init__(self, store: ObjectStore, proof: Proof, settings: Settings, run: RunKey) -> None:
        self._store = store
        self._prover = Prover(store, proof, Level(settings.store.evidence_minimum))
        self._folder = _open(settings, run)
        if self._folder is not None:
            self._observe = fingerprint_by(settings.instruments[run.instrument].resolved())

    @property
    def sees_source(self) -> bool:
        """Whether the share is on this host."""
        return self._folder is not None

    def close(self) -> None:
        """Close all folders."""
        if self._folder is not None:
            self._folder.close()

    def look(self, path: str) -> Fingerprint | None:
        """Return what the source shows of a file; None where it is not there, or not here."""
        if self._folder is None:
            return None
        try:
            return self._observe(os.lstat(self._folder.full_path(path)))
        except OSError:
            return None

    def named(self, entry: Entry) -> Evidence | str:
        """Return the proof of a manifest's file, or why there is none. Raises: StoreError."""
        stored, content = self._store.find_object(entry.key), Content(entry.size, entry.checksum)
        if stored is None:
            return OBJECT_MISSING
        if stored.etag != entry.etag:
            return OBJECT_REPLACED
        told = Level(entry.evidence)
        try:
            if told is Level.A or self._prover.attests(stored) or stored.size != entry.size:
                return self._prover.prove(stored, content, _Alone(), is_ours=True)
            # By this ETag it is the object that was proven so well then.
            self._prover.accept(entry.key, told)
        except ChecksumMismatch:
            return OBJECT_REPLACED
        except WeakEvidence as error:
            return str(error)
        return Evidence(
            level=told, crc64=content.crc64, etag=stored.etag, version_id=stored.version_id
        )

    def matched(self, file: FileKey, key: str) -> tuple[Fingerprint, Evidence] | str:
        """Return what the source shows of a file and the proof that an object is the same, or why
        there is none. Raises: StoreError."""
        settled, stored = self.look(file.path), self._store.find_object(key)
        if self._folder is None or settled is None:
            return "its source is not there"
        if stored is None:
            return "it is gone"
        if stored.size != settled.size:
            return f"it has {stored.size} bytes, the source {settled.size}"
        try:
            with self._folder.open(file.path, settled) as source:
                content = Content(settled.size, source.checksum(_Alone().check))
            evidence = self._prover.prove(stored, content, _Alone(), is_ours=True)
        except (SourceError, SidecarMismatch, ChecksumMismatch, WeakEvidence) as error:
            return str(error)
        return settled, evidence


def _open(settings: Settings, run: RunKey) -> RunFolder | None:
    instrument = settings.instruments.get(run.instrument)
    if instrument is None:
        return None
    try:
        check_share(instrument.root)
        return RunFolder(instrument.root, run, instrument.resolved().sidecars)
    except ShareUnavailable:
        return None

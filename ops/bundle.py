"""What belongs into a quality file about one run? Everything that is known of it, in one archive.

Manifests and markers as they are in the bucket, each file with its whole history, who did what with
its proof, events and their deliveries, and the settings without what is secret.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import urlsplit

from labferry import __version__
from labferry.archive_lines import file_line
from labferry.compaction import Records
from labferry.completion import run_state
from labferry.dead_letter import iso
from labferry.errors import StoreError
from labferry.identity import Layout, RunKey
from labferry.ledger.server import without_password
from labferry.ports import Ledger, ObjectStore
from labferry.records import RunFacts
from labferry.settings import Settings
from ops.audit import verdict_json, verified
from ops.overview import find_run
from ops.written import placed

#: Settings whose value may hold a token or a password anywhere.
_ADDRESSES = frozenset({"webhook_url", "sqs_queue_url"})
_URLS = frozenset({"url", "celery_broker_url"})
_COMMAND = "command"


class Bundle:
    """One archive in the making; every member is noted with its SHA-256."""

    def __init__(self, tar: tarfile.TarFile, name: str, at_ms: int) -> None:
        self._tar = tar
        self._name = name
        self._at_s = at_ms // 1000
        self.members: dict[str, str] = {}

    def add(self, name: str, blocks: Iterable[bytes]) -> None:
        """Add a member; its content passes through a temporary file."""
        digest = hashlib.sha256()
        with TemporaryFile() as body:
            for block in blocks:
                digest.update(block)
                body.write(block)
            self._place(name, body)
        self.members[name] = digest.hexdigest()

    def add_json(self, name: str, value: object) -> None:
        """Add a member that is one JSON document."""
        text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True, default=str)
        self.add(name, [text.encode(), b"\n"])

    def close(self) -> None:
        """Add the list of members."""
        listed = "".join(f"{digest}  {name}\n" for name, digest in sorted(self.members.items()))
        self._place("SHA256SUMS", io.BytesIO(listed.encode()))

    def _place(self, name: str, body: IO[bytes]) -> None:
        info = tarfile.TarInfo(f"{self._name}/{name}")
        info.size = body.seek(0, io.SEEK_END)
        info.mtime = self._at_s
        info.mode = 0o644
        body.seek(0)
        self._tar.addfile(info, body)


def write_bundle(
    settings: Settings, ledger: Ledger, store: ObjectStore, run: RunKey, output: Path
) -> int:
    """Write the archive of a run, whole or not at all; return how many members it has.

    Raises: NotFound, StoreError, LedgerUnavailable, SettingsError.
    """
    facts, layout = find_run(ledger, run), Layout(settings.store.prefix)
    name = str(run).replace("/", "_")
    with placed(output) as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
        bundle = Bundle(tar, name, facts.now_ms)
        bundle.add_json("run.json", _run_json(facts))
        _add_documents(bundle, ledger, store, layout, run)
        bundle.add("files.jsonl", _files(ledger, store, layout, facts))
        _add_audit(bundle, ledger, run)
        bundle.add("events.jsonl", (f"{line}\n".encode() for line in ledger.told(run)))
        bundle.add_json("deliveries.json", _deliveries(ledger, run))
        bundle.add_json("settings.json", shown_settings(settings.model_dump(mode="json")))
        bundle.close()
    return len(bundle.members)


def _run_json(facts: RunFacts) -> dict[str, Any]:
    known = asdict(facts) | {"run": str(facts.run), "state": run_state(facts)}
    return known | {"written_at": iso(facts.now_ms), "labferry": __version__}


def _add_documents(
    bundle: Bundle, ledger: Ledger, store: ObjectStore, layout: Layout, run: RunKey
) -> None:
    for number in sorted(ledger.markers(run)):
        for key in (
            layout.manifest(run, number),
            layout.marker(run, number),
            layout.incomplete_marker(run, number),
        ):
            try:
                content = store.read(key)
                bundle.add(f"bucket/{number}/{key.rpartition('/')[2]}", content)
            except StoreError as error:
                if not error.is_absence:
                    raise


def _files(ledger: Ledger, store: ObjectStore, layout: Layout, facts: RunFacts) -> Iterator[bytes]:
    """Yield a line for each file, with every attempt and act."""
    if facts.archive is not None:
        records = Records(ledger=ledger, store=store, layout=layout)
        yield from map(file_line, records.archived(facts.run, facts.archive))
        return
    seen = set()
    for one in ledger.archived_files(facts.run):
        if one.path not in seen:
            seen.add(one.path)
            yield file_line(one)


def _add_audit(bundle: Bundle, ledger: Ledger, run: RunKey) -> None:
    head, fault = verified(ledger, run)
    # Lines are only ever added: the first ones are those that were looked at.
    lines = islice(ledger.audit(run), head.lines) if fault is None else ledger.audit(run)
    bundle.add("audit.log", (f"{line}\n".encode() for line in lines))
    bundle.add_json("audit.json", verdict_json(head, fault))


def _deliveries(ledger: Ledger, run: RunKey) -> list[dict[str, Any]]:
    waiting = [one for sink in ledger.event_sinks() for one in ledger.waiting_events(sink, [run])]
    return [{"sink": one.sink, "events": one.count, **asdict(one.delivery)} for one in waiting]


def shown_settings(value: Any, name: str = "") -> Any:
    """Return settings without passwords, tokens and what a command is given."""
    if isinstance(value, dict):
        return {key: shown_settings(inner, key) for key, inner in value.items()}
    if name == _COMMAND and value:
        return [value[0], "..."]
    if not isinstance(value, str):
        return value
    if name in _ADDRESSES:
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname}/..."
    return without_password(value) if name in _URLS else value

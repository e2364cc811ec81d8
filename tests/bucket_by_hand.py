"""A bucket that holds a complete run, made without a ledger."""

import hashlib
import json
from collections.abc import Mapping

from labferry.identity import Layout, RunKey
from labferry.manifest import Gap, Marker, header, marker_bytes
from labferry.s3.checksum import crc64nvme
from tests.memory_store import MemoryStore

RUN = RunKey("seq", "run ü 1")
LAYOUT = Layout("lab")
BODIES = {"a.txt": b"alpha", "d/b c.txt": b"beta", "empty": b""}


def complete_bucket(
    bodies: Mapping[str, bytes] = BODIES,
    *,
    run: RunKey = RUN,
    generation: int = 1,
    store: MemoryStore | None = None,
    gap: Gap | None = None,
    keys: Mapping[str, str] | None = None,
) -> MemoryStore:
    """Return a store with these files, their manifest and its marker; `keys` are those of new
    editions, by path."""
    store = store or MemoryStore()
    lines = [header(run, generation)]
    for path, body in sorted(bodies.items()):
        raw = LAYOUT.raw(run.file(path))
        key = (keys or {}).get(path, raw)
        put = store.put_absent(key, body, crc64nvme(body), "t")
        fields = {
            "path": path,
            "key": key,
            "size": len(body),
            "mtime_ns": 5,
            "crc64nvme": f"{crc64nvme(body):016x}",
            "etag": put.etag,
            "version_id": "",
            "evidence": "A",
            **({} if key == raw else {"supersedes": raw}),
        }
        lines.append(json.dumps(fields, ensure_ascii=False).encode() + b"\n")
    manifest = b"".join(lines)
    key = LAYOUT.manifest(run, generation)
    store.put_absent(key, manifest, crc64nvme(manifest), "t")
    marker = Marker(
        run=run,
        generation=generation,
        manifest=key,
        sha256=hashlib.sha256(manifest).hexdigest(),
        files=len(bodies),
        size=sum(map(len, bodies.values())),
        total_files=len(bodies),
        evidence={"A": len(bodies)},
        gap=gap,
    )
    content = marker_bytes(marker)
    name = LAYOUT.incomplete_marker if gap else LAYOUT.marker
    store.put_absent(name(run, generation), content, crc64nvme(content), "t")
    return store

"""Is every file of a run there, once, and how did the leases of dead hosts move?"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from labferry.identity import Layout, RunKey
from labferry.ledger import RedisLedger
from labferry.states import LEASED, Event, State


class Held(NamedTuple):
    """A lease that a host held when it died: the file's path, and the token."""

    path: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """Leases that ran out: of hosts that were killed, and of others; seconds since the kill."""

    of_dead: int
    of_living: int
    over_median_s: float
    over_most_s: float
    verified_most_s: float


def wrong(
    ledger: RedisLedger,
    client: Any,
    place: tuple[str, Layout],
    run: RunKey,
    files: int,
    accepted: Mapping[str, int],
) -> dict[str, int]:
    """Return what is not as it must be, with how often; nothing if all is well.

    `place` is the bucket, and where in it; `accepted` are Puts by key.
    """
    bucket, layout = place
    records = dict(ledger.records(run))
    verified = [path for path, one in records.items() if one.state is State.VERIFIED]
    versions = Counter(_versions(client, bucket, layout.raw_prefix(run)))
    keys = {layout.raw(run.file(path)) for path in records}
    marker = layout.marker(run, 1)
    found = {
        "files not verified": files - len(verified),
        "failed attempts counted": sum(one.attempt for one in records.values()),
        "files without an object": len(keys - set(versions)),
        "objects of no file": len(set(versions) - keys),
        "objects with another version": sum(1 for count in versions.values() if count > 1),
        "Puts accepted beyond the first": sum(max(accepted.get(key, 0) - 1, 0) for key in keys),
        "Puts accepted of no file": sum(1 for key in keys if not accepted.get(key)),
        "markers, other than one": abs(1 - len([*_versions(client, bucket, marker)])),
        "marker records, other than one": abs(1 - len(ledger.markers(run))),
    }
    return {what: count for what, count in found.items() if count}


def held_by(ledger: RedisLedger, run: RunKey, host: str) -> list[Held]:
    """Return the leases that a host holds, by its name."""
    return [
        Held(path, record.token)
        for path, record in ledger.records(run)
        if record.state in LEASED and ledger.worker_name(record.holder).startswith(f"{host}:")
    ]


def leases(ledger: RedisLedger, run: RunKey, killed_ms: Mapping[Held, float]) -> Leases:
    """Return what became of leases that ran out; `killed_ms` is when their holder died."""
    over, verified, of_living = list[float](), list[float](), 0
    for path, record in dict(ledger.records(run)).items():  # a path may come twice
        if not record.lost:
            continue
        for note in ledger.history(run.file(path)):
            if note.event is not Event.EXPIRE:
                continue
            at_ms = killed_ms.get(Held(path, note.token))
            if at_ms:
                over.append((note.at_ms - at_ms) / 1000)
                verified.append((record.verified_ms - at_ms) / 1000)
            else:
                of_living += 1
    return Leases(
        of_dead=len(over),
        of_living=of_living,
        over_median_s=median(over or [0]),
        over_most_s=max(over, default=0),
        verified_most_s=max(verified, default=0),
    )


def _versions(client: Any, bucket: str, prefix: str) -> Iterator[str]:
    pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        yield from (one["Key"] for one in page.get("Versions", []))
        yield from (one["Key"] for one in page.get("DeleteMarkers", []))

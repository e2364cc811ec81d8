"""How do files come on record, and to a state, without an upload?

By the same calls of the ledger as agent and workers make, in batches of the sizes that these use.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import redis

from labferry.identity import RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.records import Claim, Evidence, Fingerprint, Lane, Level, Step
from labferry.settings import LedgerSettings
from labferry.source.scan import BATCH_ENTRIES
from labferry.states import Event
from ops.embedded import Valkey
from workers.small_lane import BATCH_FILES

Item = TypeVar("Item")

RUN = RunKey("bench", "run")
BUNDLE_FILES = 500
BUNDLE_BYTES = 64 * 1024 * 1024
PROOF = Evidence(level=Level.A, crc64=2**63 + 1, etag="d41d8cd98f00b204e9800998ecf8427e")


class Ledgered:
    """A run on a ledger of its own; each verb moves every file of it that it can move."""

    def __init__(self, valkey: Valkey, ledger: RedisLedger) -> None:
        self.valkey, self.ledger = valkey, ledger
        self.client: Any = redis.Redis.from_url(valkey.url(1))
        self.numbers: list[int] = []
        self.claims: list[Claim] = []

    def discover(self, seen: Sequence[tuple[str, Fingerprint]]) -> None:
        """Put files on record."""
        for some in in_batches(seen, BATCH_ENTRIES):
            self.ledger.discover(RUN, some)

    def settle(self, seen: Sequence[tuple[str, Fingerprint]]) -> None:
        """Make files eligible."""
        for some in in_batches(seen, BATCH_ENTRIES):
            steps = [Step(path=path, fingerprint=one, lane=Lane.SMALL) for path, one in some]
            self.ledger.move(RUN, Event.SETTLE, steps)

    def take(self) -> None:
        """Make bundles of all that are eligible."""
        for lane in Lane:
            while found := self.ledger.take(
                RUN, lane, bundles=100, max_files=BUNDLE_FILES, max_bytes=BUNDLE_BYTES
            ):
                self.numbers += [one.number for one in found]

    def claim(self, numbers: Sequence[int]) -> None:
        """Take the leases on what rides in these bundles."""
        for number in numbers:
            self.claims += self.ledger.claim(RUN, number, [], 1)

    def end(self, event: Event, **facts: Any) -> None:
        """Bring all that was claimed to where an event of its holder leads."""
        for some in in_batches(self.claims, BATCH_FILES):
            steps = [Step(path=one.path, token=one.token, **facts) for one in some]
            self.ledger.move(RUN, event, steps)
        self.claims.clear()

    def used_bytes(self) -> int:
        """Return what Valkey says it uses, less what its clients' buffers take."""
        told = self.client.info("memory")
        return int(told["used_memory_dataset"])

    def commands(self) -> int:
        """Return how many commands were answered so far."""
        return int(self.client.info("stats")["total_commands_processed"])


@contextmanager
def ledgered(folder: Path) -> Iterator[Ledgered]:
    """Run an empty ledger with its append-only file."""
    with Valkey(folder) as valkey:
        yield Ledgered(valkey, open_ledger(LedgerSettings(url=valkey.url(1))))


def fingerprints(paths: Sequence[str]) -> list[tuple[str, Fingerprint]]:
    """Return what a scan would have seen of files that are not there."""
    return [
        (path, Fingerprint(4096, 1_700_000_000_123_456_789 + n, 5_000_000 + n, 1_700_000_001 + n))
        for n, path in enumerate(paths)
    ]


def in_batches(items: Sequence[Item], count: int) -> Iterator[Sequence[Item]]:
    """Yield so many at a time."""
    for first in range(0, len(items), count):
        yield items[first : first + count]

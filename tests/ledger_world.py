"""A ledger to be held to its port, with time that a test moves, and files brought to any state."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import redis

from labferry.audit import Act
from labferry.identity import RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.layout import PLACE_OF
from labferry.ports import Ledger
from labferry.records import (
    Bundle,
    Claim,
    Completion,
    Evidence,
    FileRecord,
    Fingerprint,
    Lane,
    Level,
    Note,
    Outcome,
    RunFacts,
    Seen,
    Step,
)
from labferry.settings import LedgerSettings
from labferry.states import MOVE_OF, Actor, Event, State
from tests.memory_ledger import EPOCH_MS, TOKEN_MS, MemoryLedger
from tests.waiting import eventually

RUN = RunKey("NovaSeq1", "240601_A0001")
OTHER = RunKey("NovaSeq1", "240602_A0001")
PRINT = Fingerprint(size=4096, mtime_ns=1_700_000_000_123_456_789, inode=77, ctime_ns=-5)
EVIDENCE = Evidence(level=Level.A, crc64=2**64 - 1, etag="d41d8cd98f00b204e9800998ecf8427e")
ACT = Act(actor="ada@lab", reason="LIMS-7: the disk was swapped", what="test")
TTL_MS, RESEND_MS = 60_000, 60_000
#: What of a run's hash are instants.
DATED = frozenset({b"opened", b"changed", b"sealed", b"finished"})
SETTINGS = LedgerSettings(lease_ttl_s=TTL_MS / 1000, resend_s=RESEND_MS / 1000)

EASY_EVENTS = {
    State.SKIPPED: Event.SKIP,
    State.QUARANTINED: Event.REFUSE,
    State.UPLOADED: Event.STORE,
    State.VERIFIED: Event.VERIFY,
    State.FAILED: Event.FAIL,
    State.HELD: Event.HOLD,
}


class Clockwork(Protocol):
    """What the worlds differ in."""

    def keep(self) -> Callable[[], None]:
        """Return what makes the ledger forget all from now on, as a crash may."""

    def pass_ms(self, ms: int) -> None:
        """Let time pass for leases, due times, resends, locks and proofs."""

    def second(self) -> Ledger:
        """Return another client of the same ledger."""


class World:
    """A ledger, and short words for what a scan, a feed and a worker do."""

    def __init__(self, ledger: Ledger, clockwork: Clockwork) -> None:
        self.ledger = ledger
        self.clockwork = clockwork
        self.pass_ms = clockwork.pass_ms
        self.second = clockwork.second
        self.keep = clockwork.keep
        self.outbox = ledger.told

    def discover(self, *paths: str, run: RunKey = RUN, fingerprint: Fingerprint = PRINT) -> int:
        return self.ledger.discover(run, [(path, fingerprint) for path in paths])

    def move(self, event: Event, *paths: str, run: RunKey = RUN, **fields: Any) -> list[Outcome]:
        return self.apply(event, [Step(path=path, **fields) for path in paths], run)

    def apply(self, event: Event, steps: Sequence[Step], run: RunKey = RUN) -> list[Outcome]:
        """Move files, by an act on record where it is a person's."""
        if MOVE_OF[event].actor is Actor.OPERATOR:
            return self.ledger.act(run, event, steps, ACT)
        return self.ledger.move(run, event, steps)

    def as_holder(
        self, event: Event, *paths: str, run: RunKey = RUN, **fields: Any
    ) -> list[Outcome]:
        """Move files, each under its newest token."""
        found = self.ledger.find_records(run, paths)
        tokens = [record.token if record else 0 for record in found]
        steps = [
            Step(path=path, token=token, **fields)
            for path, token in zip(paths, tokens, strict=True)
        ]
        return self.ledger.move(run, event, steps)

    def settle(self, *paths: str, run: RunKey = RUN, lane: Lane = Lane.SMALL) -> None:
        """Discover and settle files under their fingerprints on record."""
        self.discover(*paths, run=run)
        _, seen = self.ledger.look(run, paths)
        steps = [
            Step(path=path, fingerprint=one.fingerprint, lane=lane)
            for path, one in zip(paths, seen, strict=True)
            if one is not None
        ]
        assert set(self.ledger.move(run, Event.SETTLE, steps)) <= {Outcome.DONE}

    def claim(self, *paths: str, run: RunKey = RUN, bundle: int = 0, holder: int = 1) -> list[int]:
        """Return the tokens."""
        return [claim.token for claim in self.claims(*paths, run=run, bundle=bundle, holder=holder)]

    def claims(
        self, *paths: str, run: RunKey = RUN, bundle: int = 0, holder: int = 1
    ) -> list[Claim]:
        return self.ledger.claim(run, bundle, paths, holder)

    def upload(self, *paths: str, run: RunKey = RUN, lane: Lane = Lane.SMALL) -> int:
        """Bring files that are not on record under a lease; return their token."""
        self.settle(*paths, run=run, lane=lane)
        (bundle,) = self.take(lane, run, max_files=len(paths))
        assert bundle.paths == paths
        (token,) = set(self.claim(run=run, bundle=bundle.number))
        return token

    def verify(self, *paths: str, run: RunKey = RUN) -> None:
        """Bring files that are not on record to be verified."""
        token = self.upload(*paths, run=run)
        assert self.move(Event.VERIFY, *paths, run=run, token=token, evidence=EVIDENCE) == [
            Outcome.DONE
        ] * len(paths)

    def bring(self, state: State, *paths: str) -> int:
        """Bring files that are not on record to a state; return their token."""
        if state in {State.DISCOVERED, State.SKIPPED, State.QUARANTINED, State.DISCARDED}:
            self.discover(*paths)
            token = 0
        elif state is State.ELIGIBLE:
            self.settle(*paths)
            token = 0
        else:
            token = self.upload(*paths)
        if state is State.DISCARDED:
            self.move(Event.REFUSE, *paths)
            self.move(Event.DISCARD, *paths)
        elif event := EASY_EVENTS.get(state):
            evidence = EVIDENCE if event is Event.VERIFY else None
            self.move(event, *paths, token=token, evidence=evidence, delay_ms=0)
        assert all(self.record(path).state is state for path in paths)
        return token

    def take(self, lane: Lane = Lane.SMALL, run: RunKey = RUN, **limits: int) -> list[Bundle]:
        most = {"bundles": 1000, "max_files": 1000, "max_bytes": 2**40, **limits}
        return self.ledger.take(run, lane, **most)

    def complete(self, generation: int = 1, file_count: int = 0, run: RunKey = RUN) -> bool:
        completion = Completion(
            generation=generation,
            file_count=file_count,
            manifest_key=f"runs/{run}/{generation}/manifest.jsonl",
            manifest_digest="digest",
            marker_key=f"runs/{run}/{generation}/complete.json",
            event=f"event {generation}",
        )
        return self.ledger.complete(run, completion)

    def complete_run(self, *paths: str) -> None:
        """Bring a run of these files to completion."""
        self.verify(*paths)
        assert self.ledger.seal(RUN, [], len(paths))
        assert self.complete(file_count=len(paths))

    def record(self, path: str, run: RunKey = RUN) -> FileRecord:
        record = self.ledger.find_record(run.file(path))
        assert record is not None
        return record

    def token(self, path: str, run: RunKey = RUN) -> int:
        """Return the newest token, 0 of a file that was never claimed."""
        record = self.ledger.find_record(run.file(path))
        return record.token if record else 0

    def outlast(self, token: int) -> None:
        """Let the ledger's clock go on until every claim is later than this token."""
        later_ms = later_than(token)
        self.pass_ms(max(later_ms - self.ledger.now_ms(), 0))  # a server's clock moves by itself
        eventually(lambda: self.ledger.now_ms() >= later_ms)

    def seen(self, path: str) -> Seen | None:
        return self.ledger.look(RUN, [path])[1][0]

    def history(self, path: str) -> list[Note]:
        return self.ledger.history(RUN.file(path))

    def facts(self, run: RunKey = RUN) -> RunFacts:
        """Return the run's facts, once they agree with a recount of its records."""
        facts = self.ledger.find_facts(run)
        assert facts is not None
        records = dict(self.ledger.records(run)).values()
        for state in State:
            sizes = [one.fingerprint.size for one in records if one.state is state]
            assert (facts.counts[state], facts.sizes[state]) == (len(sizes), sum(sizes)), state
        return facts


class InMemory:
    """Time is the ledger's own attribute."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger
        self.pass_ms = ledger.pass_ms

    def keep(self) -> Callable[[], None]:
        held = vars(self.ledger)
        kept = copy.deepcopy({name: held[name] for name in held.keys() - {"lock", "clock_ms"}})
        return lambda: held.update(kept)

    def second(self) -> Ledger:
        return self.ledger


class OnServer:
    """A server's clock cannot be moved: instead all instants on record are moved to the past."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.client = redis.Redis.from_url(url)

    def keep(self) -> Callable[[], None]:
        kept: Any = {key: self.client.dump(key) for key in self.client.scan_iter("labferry:*")}

        def forget() -> None:
            self.client.flushdb()
            for key, value in kept.items():
                self.client.restore(key, 0, value)

        return forget

    def pass_ms(self, ms: int) -> None:
        for key in list(self.client.scan_iter("labferry:*")):
            if key.endswith(b":reasons"):
                continue  # numbers, not instants
            if self.client.type(key) == b"zset":
                times: Any = self.client.zrange(key, 0, -1, withscores=True)
                self.client.zadd(key, {name: at_ms - ms for name, at_ms in times})
            elif key.endswith((b":files", b":meta")):
                self._age(key, ms, _aged_record if key.endswith(b":files") else _aged_field)
            elif (left_ms := self.client.pttl(key)) > 0:
                self.client.pexpire(key, max(left_ms - ms, 0))

    def _age(self, key: bytes, ms: int, aged: Callable[[bytes, bytes, int], bytes]) -> None:
        fields: Any = self.client.hgetall(key)
        changed = {name: aged(name, value, ms) for name, value in fields.items()}
        self.client.hset(key, mapping=changed)

    def second(self) -> RedisLedger:
        return open_ledger(SETTINGS.model_copy(update={"url": self._url}))


def _aged_record(_: bytes, record: bytes, ms: int) -> bytes:
    for date in ("discovered_ms", "changed_ms", "settled_ms", "claimed_ms", "verified_ms"):
        start = PLACE_OF[date] - 1
        at_ms = int.from_bytes(record[start : start + 5], "little")
        if at_ms:
            record = record[:start] + (at_ms - ms).to_bytes(5, "little") + record[start + 5 :]
    return record


def _aged_field(name: bytes, value: bytes, ms: int) -> bytes:
    return str(int(value) - ms).encode() if name in DATED else value


def later_than(token: int) -> int:
    """Return the first instant whose claims are later than a token, whether it is known or not."""
    return EPOCH_MS + (token + 1) * TOKEN_MS


def was_claimed_once(record: FileRecord) -> bool:
    """Whether its token is that of the only claim of its series, while nobody moved the time."""
    return record.token == (record.claimed_ms - EPOCH_MS) // TOKEN_MS


def memory_world() -> World:
    ledger = MemoryLedger(SETTINGS)
    return World(ledger, InMemory(ledger))


def server_world(url: str) -> World:
    server = OnServer(url)
    return World(server.second(), server)

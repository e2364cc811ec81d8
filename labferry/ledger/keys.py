"""Under which Redis keys does the ledger keep what?

All keys of a run share a hash tag; on a cluster, all keys get one before that (cluster.py).
"""

import re
from collections.abc import Iterable

from labferry.identity import RunKey

RUNS = "labferry:runs"
ACTIVE = "labferry:active"
FINISHED = "labferry:finished"  # zset of retired runs with records -> since when
WORKER_NUMBERS = "labferry:workers"
WORKER_NAMES = "labferry:worker-names"
PASSES = "labferry:passes"  # hash instrument@host -> JSON of its last pass
WAITING = "labferry:waiting"  # hash instrument@host -> JSON of why its runs are not done
TURNS = "labferry:turns"  # JSON of what each instrument has to send, for half a minute
LIMITS = "labferry:limits"  # hash instrument, or * for all -> JSON
RESERVED = "labferry:reserved"  # hash limit -> until when it is taken, ms
HOLDS = "labferry:holds"  # hash instrument, or instrument/run -> JSON
RELEASED = "labferry:released"  # hash instrument/run -> JSON: its objects may go
DEAD_MESSAGES = "labferry:dead-messages"
#: What is counted of instruments: one hash tag.
TALLIES = "labferry:{tallies}:counts"  # hash instrument/what/state/code -> number
MOVED = "labferry:{tallies}:moved"  # hash instrument -> when something of it moved
#: Events: runs of which somebody may be told something yet, and sinks ever heard of.
OUTBOXES = "labferry:outboxes"  # zset run -> when it was told of last
EVENT_SINKS = "labferry:event-sinks"  # hash sink -> since when
AUDIT = "labferry:audit"
AUDIT_HEAD = "labferry:audit-head"
#: Batches of replays: one hash tag.
BATCH_IDS = "labferry:{batches}:ids"  # counter
BATCHES = "labferry:{batches}:batches"  # hash id -> `<revision> <JSON>`
OPEN_BATCHES = "labferry:{batches}:open"  # set of ids
#: Breakers and alerts: one hash tag, as they change together.
BREAKERS = "labferry:{conditions}:breakers"  # hash name -> `<revision> <JSON>`
PACES = "labferry:{conditions}:paces"  # hash endpoint -> `<revision> <JSON>`
ALERTS = "labferry:{conditions}:alerts"  # hash key -> `<at_ms> <text>`
ALERT_COUNTS = "labferry:{conditions}:alert-counts"  # hash key -> how many files it is about
ALERT_LOG = "labferry:{conditions}:alert-log"  # list of keys, oldest first
ALERT_SINKS = "labferry:{conditions}:alert-sinks"  # hash sink -> how much of the log it was given
ALERT_FAULTS = "labferry:{conditions}:alert-faults"  # hash sink -> why it could not be given more


class RunKeys:
    """The keys of one run."""

    __slots__ = (
        "audit", "audit_head", "brought", "bundles", "dead", "deliveries", "due", "files",
        "forgotten", "history", "last", "leases", "markers", "meta", "outbox", "ready", "reasons",
        "sent", "upload",
    )  # fmt: skip

    def __init__(self, run: RunKey) -> None:
        # `{`, `}` and `%` of a name would end or change the tag.
        tag = re.sub("[{}%]", lambda match: f"%{ord(match[0]):02X}", str(run))
        start = f"labferry:{{{tag}}}:"
        self.files = f"{start}files"  # hash path -> packed record
        self.meta = f"{start}meta"  # hash: dates, generation, counts n:LETTER and bytes b:LETTER
        self.leases = f"{start}leases"  # zset path -> when the lease ends
        self.due = f"{start}due"  # zset path -> when a failed or held file is due
        self.ready = f"{start}ready:"  # + lane letter: list of eligible paths without a message
        self.sent = f"{start}sent"  # zset bundle number -> when it is sent again
        self.bundles = f"{start}bundles"  # hash bundle number -> its files
        self.last = f"{start}last"  # set of paths that go up after all others
        self.history = f"{start}history:"  # + path: list of notes
        self.upload = f"{start}upload:"  # + path: hash, the multipart plan
        self.markers = f"{start}markers"  # set of generations whose marker was emitted
        self.outbox = f"{start}outbox"  # list of events
        self.deliveries = f"{start}deliveries"  # hash sink -> `<revision> <JSON>`: its place there
        self.dead = f"{start}dead"  # zset path -> since when it is a dead letter
        self.reasons = f"{start}reasons"  # zset path -> number of the change that is to be written
        self.forgotten = f"{start}forgotten"  # as files: put away, to be forgotten piece by piece
        self.brought = f"{start}brought"  # as files: being taken back
        self.audit = f"{start}audit"  # list: what operators did, a chain of hashes
        self.audit_head = f"{start}audit-head"  # hash: count and hash of its last line

    @property
    def needless(self) -> tuple[str, ...]:
        """What a run at rest has no need of."""
        queues = (f"{self.ready}{letter}" for letter in "sl")
        return (self.last, self.leases, self.due, self.sent, self.bundles, *queues)


class BatchKeys:
    """The keys of one batch of replays."""

    __slots__ = ("counts", "ended", "items", "stages")

    def __init__(self, batch: str) -> None:
        start = f"labferry:{{batches}}:{batch}:"
        self.items = f"{start}items"  # hash file -> `<stage> <JSON>`
        self.counts = f"{start}counts"  # hash stage -> how many files are there
        self.ended = f"{start}ended"  # list of files, in the order in which they came to their end
        self.stages = f"{start}stage:"  # + open stage: zset file -> order


def leased(instrument: str) -> str:
    """Return the key of a set: the leases zsets of an instrument with a cap."""
    return f"labferry:leased:{instrument}"


def endpoint_proof(endpoint: str) -> str:
    """Return the key of an endpoint's proof."""
    return f"labferry:proof:{endpoint}"


def alerts_due(sink: str) -> str:
    """Return the key of a sink's zset: alert -> when it is to be delivered."""
    return f"labferry:{{conditions}}:alerts-due:{sink}"


def leader(name: str) -> str:
    """Return the key of a leader's lock."""
    return f"labferry:leader:{name}"


def run_keys_of(members: Iterable[bytes]) -> list[RunKey]:
    """Return the runs that an index names."""
    # Not parsed: a name that is refused today must not hide all other runs.
    pairs = (member.decode().partition("/") for member in members)
    return [RunKey(instrument, run) for instrument, _, run in pairs]

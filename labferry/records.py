"""What does labferry know of a file, a run, an upload?

Frozen records, standard library only. Instants are epoch milliseconds on the ledger's clock.
"""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from labferry.archive import Archive
from labferry.identity import RunKey
from labferry.states import Event, State
from labferry.word import Word


class Fingerprint(NamedTuple):
    """What was observed of a source file, by one stat."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int

    def same_file(self, other: "Fingerprint") -> bool:
        """Whether size, mtime and inode agree; ctime alone also moves with a link or chmod.

        An inode of 0 is one that the profile does not go by.
        """
        return self[:2] == other[:2] and (
            self.inode == other.inode or not self.inode or not other.inode
        )


class Lane(StrEnum):
    """Which queue a file rides in, so that long uploads do not take every slot."""

    SMALL = "small"  # one Put from memory; bundled when the backlog is long
    LARGE = "large"  # a resumable multipart upload; one message a file


class Level(StrEnum):
    """How a file was proven, strongest first."""

    A = "A"  # the server computed the same full-object checksum and refuses wrong ones
    B = "B"  # every part checksum was enforced and the composite agrees
    C = "C"  # Content-MD5 was enforced and the ETag agrees
    D = "D"  # read back, hashed, compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The proof that an object holds the source's bytes.

    `crc64` is the CRC64NVME of the whole file as an integer; `etag` is without quotes;
    `version_id` is '' on an unversioned bucket.
    """

    level: Level
    crc64: int
    etag: str
    version_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One file as the ledger holds it; a `_ms` of 0 means not yet.

    `attempt` counts failed attempts of this series, `lost` workers that died under the file,
    `rounds` changes of the source under an upload, `series` replays. `claimed_ms` is the first
    claim of the series, from which the elapsed budget counts.
    """

    state: State
    attempt: int
    lost: int
    rounds: int
    series: int
    token: int
    holder: int
    fingerprint: Fingerprint
    lane: Lane | None
    discovered_ms: int
    changed_ms: int
    settled_ms: int
    claimed_ms: int
    verified_ms: int
    evidence: Evidence | None = None


class Seen(NamedTuple):
    """The part of a record that a scan compares with what it sees."""

    state: State
    fingerprint: Fingerprint
    changed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One line of a file's history: what was out of the ordinary. `at_ms` is set by the ledger.

    `decision` is what followed, in words; `version` is labferry's in that worker; `bundle` is of
    the message the file came with. Of an operator's act, `worker` is the operator.
    """

    event: Event
    kind: str
    code: str
    message: str
    worker: str = ""
    token: int = 0
    attempt: int = 0
    series: int = 0
    bytes_sent: int = 0
    upload_id: str = ""
    duration_ms: int = 0
    decision: str = ""
    version: str = ""
    bundle: int = 0
    at_ms: int = 0


#: A note of which nothing is known; what is as in it is not kept.
NEW_NOTE = asdict(Note(event=Event.FAIL, kind="", code="", message=""))


def fields_of(note: Note) -> dict[str, Any]:
    """Return what a note says: its event, and each field that is not as in a new one."""
    kept = {name: value for name, value in asdict(note).items() if value != NEW_NOTE[name]}
    return {**kept, "event": note.event}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One file's part in a batch of moves.

    `token` for a holder's event, and for EXPIRE or EXHAUST of a lease; `fingerprint` is what SETTLE
    expects and what CHANGE and REAPPEAR record; `lane` is where SETTLE queues the file from now on;
    `delay_ms` until FAIL, HOLD and EXPIRE are due.
    """

    path: str
    token: int = 0
    fingerprint: Fingerprint | None = None
    lane: Lane | None = None
    evidence: Evidence | None = None
    delay_ms: int | None = None
    note: Note | None = None


class Outcome(StrEnum):
    """The ledger's answer to one step."""

    DONE = "done"
    ILLEGAL = "illegal"  # the event is not possible in the file's state
    FENCED = "fenced"  # the token is not the newest, or the lease has not lapsed
    MISSING = "missing"  # no such file
    DIFFERENT = "different"  # the fingerprint is not the expected one


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The files of one message. `number` names it in its run; `tries` counts publications.

    A bundle of one file carries that file's `attempt` and `series`; a larger one has 0 and 0.
    """

    run: RunKey
    number: int
    lane: Lane
    paths: tuple[str, ...]
    tries: int = 0
    attempt: int = 0
    series: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to work on one file until the lease ends; `token` fences every write. `bundle` is
    of the message it came with."""

    path: str
    token: int
    record: FileRecord
    bundle: int = 0


class Part(NamedTuple):
    """One part of a multipart upload; `etag` is '' until the server acknowledged it."""

    crc64: int
    size: int
    etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """The frozen plan of a multipart upload and what is done of it.

    `attempt_token` is random and stands in the object's metadata; `upload_id` is '' before the
    server gave one; `complete_sent_ms` is 0 before Complete was sent.
    """

    attempt_token: str
    part_size: int
    fingerprint: Fingerprint
    upload_id: str = ""
    complete_sent_ms: int = 0
    parts: dict[int, Part] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One run as the ledger holds it; `counts` and `sizes` have every state.

    `changed_ms` is the last discovery or change of any file; `sealed_ms` is 0 while open;
    `completed` is the newest generation whose marker is on record, `marker` its key; `ready` counts
    eligible files without a message, by lane; `sent` counts messages not yet claimed;
    `reasons_due` counts dead letters, or ends of such, that the bucket does not tell of yet.
    `stale_s` is how long an open run may rest, by its profile; 0 where nobody said.
    `hold` is set while a person holds it, `closed` once one ended it, `unfinished` if it was open.
    `finished_ms` is when its newest marker was recorded, or its records were taken back since;
    `moves` grows with every move of a file, `sight` is what `note_sight` was told last, `archive`
    is where its records are while they are not on the ledger.
    """

    run: RunKey
    generation: int
    opened_ms: int
    changed_ms: int
    sealed_ms: int
    completed: int
    marker: str
    counts: dict[State, int]
    sizes: dict[State, int]
    ready: dict[Lane, int]
    sent: int
    now_ms: int
    reasons_due: int = 0
    stale_s: float = 0
    hold: Word | None = None
    closed: Word | None = None
    unfinished: bool = False
    finished_ms: int = 0
    moves: int = 0
    sight: str = ""
    archive: Archive | None = None

    @property
    def is_over(self) -> bool:
        """Whether its newest generation has a marker."""
        return self.completed == self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What `complete` records of a generation; `event` is the outbox entry, JSON text.

    `file_count` is how many files the run's manifests name, all generations together.
    """

    generation: int
    file_count: int
    manifest_key: str
    manifest_digest: str
    marker_key: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What an endpoint was seen to do when it was given wrong input on purpose.

    `refuses_wrong_checksum` for Put and for parts, `full_object` that HEAD attests the CRC64NVME of
    a multipart object, `conditional_put` and `conditional_complete` that If-None-Match is obeyed,
    `content_md5` that a wrong Content-MD5 is refused and the ETag is the MD5.
    """

    refuses_wrong_checksum: bool
    attests_checksum: bool
    full_object: bool
    conditional_put: bool
    conditional_complete: bool
    content_md5: bool
    proven_ms: int = 0

    @property
    def put_proves(self) -> bool:
        """Whether a Put that ended well is proof enough: a wrong body or a second writer would
        have been refused."""
        return self.refuses_wrong_checksum and self.conditional_put

    def reach(self, *, in_parts: bool) -> Level:
        """Return the strongest evidence that such an endpoint can give of an object."""
        attests = self.full_object if in_parts else self.attests_checksum
        if self.put_proves and not in_parts:
            return Level.A
        if self.refuses_wrong_checksum and attests:
            return Level.A
        return Level.C if self.content_md5 and not in_parts else Level.D

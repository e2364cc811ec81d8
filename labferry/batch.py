"""What is a batch of replays, and what follows from what became of its files?

Pure: facts in, decision out. Files with one error fingerprint are one cause. Of each cause one file
goes first, the canary; the others follow once one of the cause was verified, no faster than the
pace. A cause whose fingerprint comes back is stopped, and only that one: what waits of it is left
as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from labferry.audit import Act
from labferry.identity import FileKey
from labferry.records import FileRecord, Fingerprint
from labferry.states import MOVE_OF, Event, State

#: Files of one batch that are on their way at a time, at most.
MOST_UNDER_WAY = 1000
#: Files sent in a second, unless a batch says otherwise.
PER_SECOND = 500
#: A pause is not made up for beyond this.
_BURST_MS = 5000
#: The ledger counts no further: a file so often replayed could not be told from one that waits.
_MOST_SERIES = 255
_REPLAYABLE = MOVE_OF[Event.REPLAY].sources


class Stage(StrEnum):
    """Where one file of a batch is."""

    WAITING = "waiting"  # its turn has not come
    SENT = "sent"  # its replay is on record, or just about to be
    VERIFIED = "verified"  # proven at the destination
    NO_OP = "no-op"  # nothing was to be done
    FAILED = "failed"  # it failed again
    LEFT = "left"  # it was left as it was


OPEN = frozenset({Stage.WAITING, Stage.SENT})
#: These end well.
GOOD = frozenset({Stage.VERIFIED, Stage.NO_OP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file of a batch: what it was when it was chosen, and where it is now.

    `cause` is the place of its cause in the batch, `order` of the file in it; `revised` is what
    its source is now, where that is another file than is on record.
    """

    file: FileKey
    cause: int
    order: int
    series: int
    state: State
    revised: Fingerprint | None = None
    stage: Stage = Stage.WAITING
    why: str = ""

    @property
    def event(self) -> Event:
        """What sends it in again."""
        return Event.REPLAY if self.revised is None else Event.REVISE

    def end(self, stage: Stage, why: str = "") -> "Item":
        """Return it at another stage."""
        return replace(self, stage=stage, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The files of one error fingerprint; `proven` once one was verified, `stopped` says why.

    `met` are other fingerprints that came after that, each with the file that had it first.
    """

    fingerprint: str
    code: str
    count: int
    proven: bool = False
    stopped: str = ""
    met: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as the ledger holds it; `counts` are of its files by stage.

    `sent_ms` is when files were sent last, `ended_ms` when no file was open any more; `cancelled`
    says by whom and why. `revision` grows with every change.
    """

    id: str
    act: Act
    created_ms: int
    causes: tuple[Cause, ...]
    per_second: int = PER_SECOND
    sent_ms: int = 0
    ended_ms: int = 0
    cancelled: str = ""
    revision: int = 0
    counts: dict[Stage, int] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether a file of it waits or is on its way."""
        return not self.ended_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """One failure in a file's new series; `is_final` when it is a dead letter by that."""

    fingerprint: str
    code: str
    is_final: bool


def before_sending(item: Item, record: FileRecord | None) -> Item:
    """Return a waiting file's item as it is to be sent, or at its end when it is not to be."""
    if record is None:
        return item.end(Stage.LEFT, "it is not on record any more")
    if why := _why_nothing_is_to_be_done(item, record):
        return item.end(Stage.NO_OP, why)
    if record.state is not item.state:
        return item.end(Stage.LEFT, f"it is {record.state} now")
    if record.series >= _MOST_SERIES:
        return item.end(Stage.LEFT, f"it was sent in again {_MOST_SERIES} times")
    return item.end(Stage.SENT)


def _why_nothing_is_to_be_done(item: Item, record: FileRecord) -> str:
    if record.state is State.VERIFIED:
        return "it is verified"
    if record.series != item.series:
        return "it was sent in again meanwhile"
    return "" if record.state in _REPLAYABLE else f"it is on its way: {record.state}"


def is_unsent(item: Item, record: FileRecord | None) -> bool:
    """Whether whoever sent a file died before it did."""
    return record is not None and record.series == item.series and record.state in _REPLAYABLE


def after_sending(
    item: Item, record: FileRecord | None, setbacks: Sequence[Setback], cause: Cause
) -> tuple[Item, Cause]:
    """Return where a file that was sent is, and what that says about its cause."""
    if record is None:
        return item.end(Stage.LEFT, "it is not on record any more"), cause
    if record.state is State.VERIFIED:
        return item.end(Stage.VERIFIED), replace(cause, proven=True)
    if record.state in {State.DISCARDED, State.SKIPPED}:
        return item.end(Stage.LEFT, f"it was {record.state} meanwhile"), cause
    if record.state is State.QUARANTINED and setbacks:
        last = setbacks[-1]
        return item.end(Stage.FAILED, last.code), _failed_again(cause, item, last)
    if not cause.proven and any(one.fingerprint == cause.fingerprint for one in setbacks):
        why = f"{cause.code} came back; its retries go on by themselves"
        return item.end(Stage.FAILED, why), _stopped(cause, f"{cause.code} came back")
    return item, cause


def _failed_again(cause: Cause, item: Item, last: Setback) -> Cause:
    if last.fingerprint == cause.fingerprint:
        return _stopped(cause, f"{last.code} came back")
    if not cause.proven:
        return _stopped(cause, f"the first file failed with {last.code}")
    file = str(item.file)
    if cause.met.get(last.fingerprint, file) != file:
        return _stopped(cause, f"{last.code} came twice")
    return replace(cause, met={**cause.met, last.fingerprint: file})


def _stopped(cause: Cause, why: str) -> Cause:
    return replace(cause, stopped=cause.stopped or why)


def room(batch: Batch, cause: Cause, *, under_way: int, of_cause: int, now_ms: int) -> int:
    """Return how many files of a cause may be sent now.

    `under_way` counts what was sent and has not ended, `of_cause` what of that is of this cause.
    """
    if cause.stopped or batch.cancelled:
        return 0
    if not cause.proven:
        return 0 if of_cause else 1
    since_ms = min(now_ms - batch.sent_ms, _BURST_MS)
    return max(0, min(MOST_UNDER_WAY - under_way, batch.per_second * since_ms // 1000))


def left_because(batch: Batch, cause: Cause) -> str:
    """Return why what waits of a cause is left as it was; '' where it goes on waiting."""
    return cause.stopped or (f"cancelled by {batch.cancelled}" if batch.cancelled else "")

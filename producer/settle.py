"""What follows from one look at one file?

Facts in, verdict out. A file is at rest when two of our own looks, at least the settle window
apart on the ledger's clock, saw the same size, mtime and inode. Its mtime is never compared with a
clock: clocks of shares lie.
"""

from enum import StrEnum

from labferry.records import Fingerprint, Seen
from labferry.states import State


class Verdict(StrEnum):
    """What a look at a file leads to; those up to `skip` are moves, see labferry/states.py."""

    DISCOVER = "discover"  # not on record
    CHANGE = "change"  # other than on record: the settle window begins anew
    SETTLE = "settle"  # at rest
    CONFLICT = "conflict"  # changed after it was verified
    SUPERSEDE = "supersede"  # changed after it was verified, and may
    REAPPEAR = "reappear"  # on record as skipped, and there after all
    REFUSE = "refuse"  # data under a name that no key can hold
    SKIP = "skip"  # not to be moved
    WAIT = "wait"  # at rest not long enough, or to go up after all others
    NOTHING = "nothing"  # on record as it is


#: In any other state there is nothing to do for a file that is as it was on record.
MOVED_AS_THEY_ARE = (State.DISCOVERED, State.SKIPPED)


def judge(
    found: Fingerprint, seen: Seen | None, *, looked_ms: int, window_ms: int, last: bool = False
) -> Verdict:
    """Return what follows for a file that is a candidate for upload.

    `looked_ms` is an instant on the ledger's clock that is not after the look. `last` says that
    the file goes up after all others of the run: it is not settled by a scan.
    """
    if seen is None:
        return Verdict.DISCOVER
    if seen.state is State.DISCOVERED:
        # The ctime too: a worker that reads the file will not take another one for the same.
        if found != seen.fingerprint:
            return Verdict.CHANGE
        return Verdict.SETTLE if not last and rested(seen, looked_ms, window_ms) else Verdict.WAIT
    if seen.state is State.SKIPPED:
        return Verdict.REAPPEAR
    if found.same_file(seen.fingerprint):
        return Verdict.NOTHING
    return _CHANGED.get(seen.state, Verdict.NOTHING)


#: A worker that holds a file, or will take it again, compares by itself; a dead letter is left.
_CHANGED = {State.ELIGIBLE: Verdict.CHANGE, State.VERIFIED: Verdict.CONFLICT}


def judge_left_out(found: Fingerprint, seen: Seen | None, *, refused: bool) -> tuple[Verdict, ...]:
    """Return what follows, in order, for an entry that is not moved.

    It stays on record with its reason: as skipped, or as a dead letter where it is `refused`.
    """
    end = Verdict.REFUSE if refused else Verdict.SKIP
    if seen is None:
        return (Verdict.DISCOVER, end)
    if seen.state is State.DISCOVERED:
        return (end,)
    if seen.state is State.SKIPPED and refused:
        return (Verdict.REAPPEAR, end)
    if seen.state is State.VERIFIED and not found.same_file(seen.fingerprint):
        return (Verdict.CONFLICT,)
    return ()


def rested(seen: Seen, looked_ms: int, window_ms: int) -> bool:
    """Whether the window passed between the look that recorded the last change and this one."""
    return looked_ms - seen.changed_ms >= window_ms

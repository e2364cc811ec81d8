"""A ledger in memory with dead letters of several causes."""

from labferry.identity import RunKey
from labferry.records import Fingerprint, Note, Step
from labferry.states import Event
from tests.memory_ledger import MemoryLedger

DENIED, HUGE = "AccessDenied", "EntityTooLarge"
RUN, OTHER = RunKey("seq", "r1"), RunKey("scope", "m 1")


def bury(
    ledger: MemoryLedger, run: RunKey, *paths: str, code: str = DENIED, size: int = 1000
) -> None:
    """Let files become dead letters with this code now."""
    ledger.discover(run, [(path, Fingerprint(size, 1, 2, 3)) for path in paths])
    steps = [Step(path=path, note=_note(run, path, code)) for path in paths]
    ledger.move(run, Event.REFUSE, steps)


def _note(run: RunKey, path: str, code: str) -> Note:
    return Note(
        event=Event.REFUSE,
        kind="permanent",
        code=code,
        message=f"PutObject lab/raw/{run}/{path}: the object store answered 403 {code}.",
        worker="host:1",
        decision="repeating cannot help",
    )


def ledger_of_letters() -> MemoryLedger:
    """312 denied in two runs, 2 too large, and one message nobody could decode."""
    ledger = MemoryLedger()
    bury(ledger, RUN, *(f"d/{number:03}.txt" for number in range(300)))
    ledger.pass_ms(3_600_000)
    bury(ledger, OTHER, *(f"d/{number:03}.txt" for number in range(12)))
    bury(ledger, OTHER, "big 1.raw", "big 2.raw", code=HUGE, size=10**12)
    ledger.bury('{"why": "the payload is not an object"}')
    ledger.pass_ms(3_600_000)
    return ledger

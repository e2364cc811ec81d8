"""What did a pass find, told to people and programs?"""

from dataclasses import asdict, dataclass
from enum import StrEnum

from labferry.source.done import Part


class Condition(StrEnum):
    """How a pass over one instrument went."""

    SCANNED = "scanned"
    NOTHING_YET = "nothing yet"  # the root is there and has never had a run
    SHARE_UNAVAILABLE = "share unavailable"  # nothing was concluded
    LEDGER_UNAVAILABLE = "ledger unavailable"  # what was seen is not on record: try again
    STOPPED = "stopped"  # the program was to end
    FAILED = "failed"  # an error nobody foresaw: the log has its traceback


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run in one pass; `unreadable`, `temporary`, `changing`, `failed` and `alike` (names
    told apart by case or accents alone) are examples, `stuck` says what has kept it from rest.

    What a pass did: new, changed, settled, conflicts, superseded, reappeared, refused, skipped,
    vanished. What it saw: files, waiting (not at rest long enough, or to go up last), held_back
    (temporary names), left_out (all that is skipped), errors (paths that could not be read).
    `wants_records` where a run whose records were put away is not as it was: they are to be taken
    back before anything of it can be recorded.
    """

    run: str
    state: str = "unknown"
    files: int = 0
    new: int = 0
    changed: int = 0
    settled: int = 0
    waiting: int = 0
    held_back: int = 0
    temporary: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    left_out: int = 0
    skipped: int = 0
    vanished: int = 0
    reappeared: int = 0
    refused: int = 0
    conflicts: int = 0
    superseded: int = 0
    errors: int = 0
    unreadable: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    wants_records: bool = False
    alike: tuple[str, ...] = ()
    failure: str = ""
    done: tuple[Part, ...] = ()

    @property
    def lacks(self) -> tuple[str, ...]:
        """What its done rule waits for: a sentence a part."""
        return tuple(f"{part.name}: {part.looked_at}" for part in self.done if not part.passes)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentReport:
    """One instrument in one pass; `published` counts messages."""

    instrument: str
    condition: Condition = Condition.STOPPED
    why: str = ""
    runs: tuple[RunReport, ...] = ()
    temporary: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    outside_runs: int = 0
    published: int = 0
    broker: str = ""
    duration_s: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether something went wrong that nobody foresaw."""
        return self.condition is Condition.FAILED or any(run.failure for run in self.runs)

    @property
    def partial(self) -> bool:
        """Whether something could not be looked at."""
        return (
            self.condition is Condition.SHARE_UNAVAILABLE
            or bool(self.unusable or self.unreadable)
            or any(run.errors for run in self.runs)
        )

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry scan --json`."""
        return {
            "instrument": self.instrument,
            "condition": self.condition,
            "why": self.why,
            "runs": [asdict(run) for run in self.runs],
            "held_back": self.temporary,
            "unusable": self.unusable,
            "unreadable": self.unreadable,
            "outside_runs": self.outside_runs,
            "published": self.published,
            "broker": self.broker,
            "duration_s": self.duration_s,
        }

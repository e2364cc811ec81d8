"""What does labferry ask of the ledger for a person: what is known, dead letters, the audit?

The part of the Ledger port that `labferry.ports` refers to for this.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from labferry.audit import Act, Head
from labferry.dead_letter import DeadFile, DeadLetter
from labferry.identity import FileKey, RunKey
from labferry.records import FileRecord, Note, Outcome, Step
from labferry.states import Event
from labferry.word import Word


class OperatorLedger(Protocol):
    """The calls that a person is behind, and what keeps the bucket told of dead letters."""

    # -- what is known

    def find_record(self, file: FileKey) -> FileRecord | None:
        """Return what is known of one file."""
        ...

    def find_due(self, file: FileKey) -> int | None:
        """Return when a leased file's lease ends, or when a failed or held one is due, in ms."""
        ...

    def bytes_under_way(self, run: RunKey) -> int:
        """Return the bytes that uploads in parts have acknowledged of files under a lease."""
        ...

    def history(self, file: FileKey) -> list[Note]:
        """Return what was out of the ordinary, oldest first."""
        ...

    def markers(self, run: RunKey) -> set[int]:
        """Return the generations whose completion marker is on record."""
        ...

    # -- dead letters; never trimmed

    def dead_files(self, run: RunKey, *, notes: int = 0) -> Iterator[DeadFile]:
        """Yield the quarantined files of a run, each with the newest `notes` lines of its history,
        or with all for 0; in no order, a path may come twice."""
        ...

    def reasons_due(self, run: RunKey, after: int, limit: int) -> list[tuple[str, int]]:
        """Return files that became dead letters, or are such no more, and of which the bucket does
        not tell yet: path and a number that grows with each change, those above `after`, in
        order."""
        ...

    def reasons_written(self, run: RunKey, written: Sequence[tuple[str, int]]) -> None:
        """Note that the bucket tells of these changes. What changed again since then, or was noted
        before, is to be written once more: the older document may have come last."""
        ...

    def recall(self, run: RunKey, letters: Sequence[DeadLetter], *, is_told: bool) -> list[Outcome]:
        """Put files that are on record back among the dead letters, with their counters and
        histories, which take the place of those on record. `is_told` says that the bucket tells of
        them as they are. The run becomes active again."""
        ...

    def bury(self, message: str) -> None:
        """Keep a message that cannot be handled, with the reason in it; it is never trimmed."""
        ...

    def dead_messages(self) -> list[str]:
        """Return what was buried, oldest first."""
        ...

    # -- acts

    def act(self, run: RunKey, event: Event, steps: Sequence[Step], act: Act) -> list[Outcome]:
        """Apply an operator's event to files, each path once, and append the act to the run's
        audit with what each file was and became: both in one step. A file that cannot be moved is
        left out of both; where none can, nothing is appended. The run becomes active again.

        Raises: LedgerUnavailable when it is not known whether that was done.
        """
        ...

    def record_act(self, run: RunKey | None, act: Act) -> None:
        """Append an act that moves no file to a run's audit, or to that of acts without a run."""
        ...

    def hold(self, name: RunKey | str, act: Act) -> None:
        """Hold a run, or an instrument by its name, and append the act, in one step: nothing of it
        is published or completed until it is released. What is under way comes to its end."""
        ...

    def release(self, name: RunKey | str, act: Act) -> None:
        """Let a run or an instrument go on, and append the act, in one step."""
        ...

    def holds(self) -> dict[str, Word]:
        """Return what is held: instruments and runs, by name."""
        ...

    def find_hold(self, run: RunKey) -> Word | None:
        """Return the hold on a run, or on its instrument."""
        ...

    def end_custody(self, run: RunKey, act: Act) -> None:
        """Note that a run's objects may go, and append the act, in one step: nobody looks for them
        any more."""
        ...

    def resume_custody(self, run: RunKey, act: Act) -> None:
        """Note that a run's objects are to stay after all, and append the act, in one step."""
        ...

    def out_of_custody(self) -> dict[str, Word]:
        """Return the runs whose objects may go, by name."""
        ...

    def close(self, run: RunKey, act: Act) -> bool:
        """Freeze a run, to be completed without the files that are discarded, and append the act,
        in one step. Return False, and do nothing, while a file of it is under way or waits for a
        retry or a person."""
        ...

    def audit(self, run: RunKey | None) -> Iterator[str]:
        """Yield the lines of an audit, oldest first; labferry.audit reads them."""
        ...

    def audit_head(self, run: RunKey | None) -> Head:
        """Return where an audit ends."""
        ...

"""How does a ledger that was lost learn of files that are proven in the bucket?

Through its own doors, as if a worker had sent them: discovered, settled, claimed, verified. What a
scan saw meanwhile is taken up; what somebody works on is known, and left.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from labferry.dead_letter import DeadLetter
from labferry.editions import edition, edition_after
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import Evidence, FileRecord, Fingerprint, Lane, Note, Outcome, Step
from labferry.states import Event, State

#: A scan alone saw the file.
_SEEN = frozenset({State.DISCOVERED, State.ELIGIBLE})
_OPEN = _SEEN | {State.VERIFIED}


class Standing(StrEnum):
    """What a ledger has to do with an edition of a file that it is to learn of."""

    OPEN = "open"  # it does not know of it
    KNOWN = "known"  # it does, or of what came after it
    MISPLACED = "misplaced"  # it does not, nor of an edition before it


class Proven(NamedTuple):
    """An edition of a file, as the source was, and the proof of its object."""

    path: str
    edition: int
    fingerprint: Fingerprint
    evidence: Evidence


class Lost(NamedTuple):
    """A file that a manifest names, and why its object is not what the manifest says."""

    path: str
    fingerprint: Fingerprint
    code: str
    key: str


class Adoption:
    """Tells the ledger of one run's files; `holder` is the number of this process's name."""

    def __init__(
        self, ledger: Ledger, run: RunKey, lane: Callable[[int], Lane], holder: int
    ) -> None:
        self._ledger = ledger
        self._run = run
        self._lane = lane
        self._holder = holder

    def standings(self, wanted: Sequence[tuple[str, int]]) -> list[Standing]:
        """Return how each edition of a file stands. Raises: LedgerUnavailable."""
        records = self._ledger.find_records(self._run, [path for path, _ in wanted])
        return [
            self._standing(path, number, record)
            for (path, number), record in zip(wanted, records, strict=True)
        ]

    def _standing(self, path: str, number: int, record: FileRecord | None) -> Standing:
        if record is not None and record.state not in _OPEN:
            return Standing.KNOWN  # also where somebody works on it
        at = edition(self._ledger, self._run.file(path), record) if record else 1
        is_verified = record is not None and record.state is State.VERIFIED
        if is_verified and at >= number:
            return Standing.KNOWN
        return Standing.OPEN if at + is_verified == number else Standing.MISPLACED

    def verify(self, items: Sequence[Proven]) -> list[str]:
        """Put open files on record as verified; return those that somebody else took meanwhile.

        Raises: LedgerUnavailable.
        """
        by_path = {one.path: one for one in items}
        self._settle(self._stand(by_path))
        claims = self._ledger.claim(self._run, 0, list(by_path), self._holder)
        steps: dict[Event, list[Step]] = {Event.VERIFY: [], Event.YIELD: []}
        for claim in claims:
            one = by_path[claim.path]
            same = one.fingerprint.same_file(claim.record.fingerprint)
            step = Step(path=one.path, token=claim.token, evidence=one.evidence if same else None)
            steps[Event.VERIFY if same else Event.YIELD].append(step)
        for event, some in steps.items():
            outcomes = self._ledger.move(self._run, event, some)
            if event is Event.VERIFY:
                for step, outcome in zip(some, outcomes, strict=True):
                    if outcome is Outcome.DONE:
                        del by_path[step.path]
        return list(by_path)

    def _stand(self, items: dict[str, Proven]) -> dict[str, Fingerprint]:
        """Let each file be on record as it was settled; return those that are only discovered."""
        records = dict(zip(items, self._ledger.find_records(self._run, list(items)), strict=True))
        found = {path: one.fingerprint for path, one in items.items()}
        fresh = [(path, found[path]) for path, record in records.items() if record is None]
        self._ledger.discover(self._run, fresh)
        later, other = list[Step](), list[Step]()
        for path, record in records.items():
            if record is None:
                continue
            step = Step(path=path, fingerprint=found[path])
            if record.state is State.VERIFIED:
                later.append(Step(path=path, fingerprint=found[path], note=_superseded()))
            elif found[path].same_file(record.fingerprint):
                found[path] = record.fingerprint
            else:
                other.append(step)
        self._ledger.move(self._run, Event.SUPERSEDE, later)
        self._ledger.move(self._run, Event.CHANGE, other)
        queued = {
            path
            for path, record in records.items()
            if record and record.state is State.ELIGIBLE and found[path] == record.fingerprint
        }
        return {path: seen for path, seen in found.items() if path not in queued}

    def _settle(self, found: dict[str, Fingerprint]) -> None:
        steps = [
            Step(path=path, fingerprint=seen, lane=self._lane(seen.size))
            for path, seen in found.items()
        ]
        self._ledger.move(self._run, Event.SETTLE, steps)

    def lose(self, items: Sequence[Lost]) -> None:
        """Put open files on record as dead letters, because their objects are not what they were.

        Raises: LedgerUnavailable.
        """
        self._ledger.discover(self._run, [(one.path, one.fingerprint) for one in items])
        now_ms = self._ledger.now_ms()
        records = self._ledger.find_records(self._run, [one.path for one in items])
        letters = [
            DeadLetter(
                file=self._run.file(one.path),
                at_ms=now_ms,
                record=record,
                notes=(_lost(one, now_ms),),
            )
            for one, record in zip(items, records, strict=True)
            if record is not None
        ]
        self._ledger.recall(self._run, letters, is_told=False)

    def recall(self, letter: DeadLetter) -> bool:
        """Put a file back among the dead letters, unless what is on record came after it; return
        whether it is one now, and was not. Raises: LedgerUnavailable."""
        record = self._ledger.find_record(letter.file)
        if record is None:
            self._ledger.discover(self._run, [(letter.file.path, letter.record.fingerprint)])
        elif not self._comes_after(letter, record):
            return False
        return self._ledger.recall(self._run, [letter], is_told=True) == [Outcome.DONE]

    def _comes_after(self, letter: DeadLetter, record: FileRecord) -> bool:
        if record.state is not State.VERIFIED:
            return record.state in _SEEN
        # Verified in an edition that is not the letter's: it changed, and became a letter then.
        return edition_after(letter.notes) > edition(self._ledger, letter.file, record)


def _superseded() -> Note:
    return Note(
        event=Event.SUPERSEDE,
        kind="source",
        code="superseded",
        message="a later generation's manifest names a new edition",
    )


def _lost(one: Lost, now_ms: int) -> Note:
    return Note(
        event=Event.LOSE,
        kind="permanent",
        code=one.code,
        message=f"a manifest names {one.key}, and it is not in the bucket as it was. "
        "Find out who changed it, then replay the file.",
        at_ms=now_ms,
    )

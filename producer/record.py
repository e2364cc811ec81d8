"""How does the ledger learn what a scan saw?

A batch is one question and, for each verdict that occurs in it, one call. Every move is guarded by
the ledger, so that a second agent on the same root does no harm: it finds the move done.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from labferry.failures import Kind
from labferry.identity import Layout, RunKey
from labferry.ports import Ledger
from labferry.profiles import Profile
from labferry.records import Fingerprint, Lane, Note, Outcome, Seen, Step
from labferry.source.scan import Batch, LeftOut
from labferry.source.tally import Names
from labferry.states import MOVE_OF, Event, State
from labferry.telemetry import emit, is_told
from producer.next_run import NextFiles
from producer.settle import MOVED_AS_THEY_ARE, Verdict, judge, judge_left_out, rested

_EVENTS = {
    Verdict.CHANGE: Event.CHANGE,
    Verdict.SETTLE: Event.SETTLE,
    Verdict.CONFLICT: Event.CONFLICT,
    Verdict.SUPERSEDE: Event.SUPERSEDE,
    Verdict.REAPPEAR: Event.REAPPEAR,
    Verdict.REFUSE: Event.REFUSE,
    Verdict.SKIP: Event.SKIP,
}


#: The settle window begins with these.
_BEGINS_ANEW = (Verdict.CHANGE, Verdict.REAPPEAR, Verdict.SUPERSEDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides about an instrument's files."""

    profile: Profile
    layout: Layout
    lane: Callable[[int], Lane]  # of a file of this size in bytes


@dataclass(slots=True)
class Recorded:
    """What one pass over a run told the ledger, so far.

    `moves` counts what this pass did itself, and files that wait; `discovered` counts files that
    it left discovered; `appeared` names the new ones, for a profile that goes by it. Of what goes
    up last, `last_waiting` are among those, and `last_restless` of them are not at rest.
    """

    moves: Counter[Verdict] = field(default_factory=Counter)
    changing: Names = field(default_factory=Names)
    discovered: int = 0
    appeared: list[str] = field(default_factory=list)
    last_waiting: int = 0
    last_restless: int = 0


class Recorder:
    """Tells the ledger of one run's batches.

    `hold_last` holds what goes up after all others back until the seal; `frozen` keeps new entries
    that are not moved from the ledger, where they would reopen a sealed run.
    """

    def __init__(
        self,
        ledger: Ledger,
        run: RunKey,
        rules: Rules,
        absent_ms: Mapping[str, int],
        *,
        hold_last: bool,
        frozen: bool,
    ) -> None:
        """`absent_ms` as NextFiles has it."""
        self._ledger, self._run, self._rules = ledger, run, rules
        self._hold_last, self._frozen = hold_last, frozen
        self._next_files = NextFiles(ledger, rules.profile, run, absent_ms)
        self.recorded = Recorded()

    def record(self, batch: Batch, looked_ms: int) -> int:
        """Tell the ledger of a batch; return an instant before the next batch is looked at.

        `looked_ms` is such an instant for this one.
        """
        paths = [path for path, _ in batch.files]
        paths += [entry.path for entry in batch.left_out]
        if not paths:
            return looked_ms
        now_ms, seen = self._ledger.look(self._run, paths)
        self._files(batch, seen, looked_ms)
        self._left_out(batch.left_out, seen[len(batch.files) :])
        return now_ms

    def _files(self, batch: Batch, seen: Sequence[Seen | None], looked_ms: int) -> None:
        last = frozenset(batch.last if self._hold_last else ())
        new, waiting, steps = self._judge(batch, seen, looked_ms, last)
        self._discover(new)
        self.recorded.moves[Verdict.WAIT] += waiting
        self.recorded.discovered += len(new) + waiting
        self.recorded.changing.add(one.path for one in steps.get(Verdict.CHANGE, ()))
        for verdict, moved in steps.items():
            done = self._move(verdict, moved)
            if verdict in _BEGINS_ANEW:
                self.recorded.discovered += done
            elif verdict is Verdict.SETTLE:
                self.recorded.discovered += len(moved) - done
        fresh = [*new, *_recorded_now(steps)]
        self._settle_at_once([file for file in fresh if file[0] not in last])

    def _settle_at_once(self, fresh: Sequence[tuple[str, Fingerprint]]) -> None:
        """Settle files that, by the profile, are whole when they appear: it asks for no window."""
        whole = [
            Step(path=path, fingerprint=found, lane=self._rules.lane(found.size))
            for path, found in fresh
            if not self._window_ms(found.size) and self._is_whole(path, found.size)
        ]
        self.recorded.discovered -= self._move(Verdict.SETTLE, whole)

    def _may_change(self, path: str) -> bool:
        return self._rules.profile.is_changing(path.rpartition("/")[2])

    def _window_ms(self, size: int) -> int:
        return int(self._rules.profile.settle_s(size) * 1000)

    def _rest_ms(self, path: str, size: int) -> int:
        """Return for how long a file must not change, now that others may have come after it."""
        window_ms, rule = self._window_ms(size), self._rules.profile.next_file
        if rule and self._next_files.is_over(path):
            return min(window_ms, int(rule.settle_window_s * 1000))
        return window_ms

    def _is_whole(self, path: str, size: int) -> bool:
        return self._rules.profile.is_whole(path.rpartition("/")[2], size)

    def _judge(
        self,
        batch: Batch,
        seen: Sequence[Seen | None],
        looked_ms: int,
        last: frozenset[str],
    ) -> tuple[list[tuple[str, Fingerprint]], int, dict[Verdict, list[Step]]]:
        """Return what is new, how many files wait, and the steps of each other verdict."""
        new: list[tuple[str, Fingerprint]] = []
        steps: dict[Verdict, list[Step]] = defaultdict(list)
        waiting = 0
        for file, known in _to_be_judged(batch.files, seen):
            path, found = file
            late = path in last
            moving = known is not None and known.state is State.DISCOVERED
            window_ms = self._rest_ms(path, found.size) if moving else 0
            verdict = judge(found, known, looked_ms=looked_ms, window_ms=window_ms, last=late)
            if verdict is Verdict.NOTHING:
                continue
            if verdict is Verdict.CONFLICT and self._may_change(path):
                verdict = Verdict.SUPERSEDE
            if verdict is Verdict.SETTLE and not self._is_whole(path, found.size):
                verdict = Verdict.WAIT
            if late:
                self._count_last(verdict, found, known, looked_ms)
            if known is None:
                new.append(file)
            elif verdict is Verdict.WAIT:
                waiting += 1
            else:
                steps[verdict].append(self._step(verdict, path, found, known))
        return new, waiting, steps

    def _count_last(
        self, verdict: Verdict, found: Fingerprint, known: Seen | None, looked_ms: int
    ) -> None:
        if verdict in {Verdict.CONFLICT, Verdict.SUPERSEDE}:
            return
        window_ms = self._window_ms(found.size)
        at_rest = not window_ms or (
            known is not None and verdict is Verdict.WAIT and rested(known, looked_ms, window_ms)
        )
        self.recorded.last_waiting += 1
        self.recorded.last_restless += not at_rest

    def _left_out(self, entries: Sequence[LeftOut], seen: Sequence[Seen | None]) -> None:
        new: list[tuple[str, Fingerprint]] = []
        steps: dict[Verdict, list[Step]] = defaultdict(list)
        for entry, known in zip(entries, seen, strict=True):
            if known is None and self._frozen and not entry.refused:
                continue
            for verdict in judge_left_out(entry.fingerprint, known, refused=entry.refused):
                if verdict is Verdict.DISCOVER:
                    new.append((entry.path, entry.fingerprint))
                else:
                    steps[verdict].append(_left_out_step(verdict, entry, known))
        self._discover(new)
        for verdict in (Verdict.REAPPEAR, Verdict.CONFLICT, Verdict.REFUSE, Verdict.SKIP):
            self._move(verdict, steps[verdict])

    def _discover(self, new: list[tuple[str, Fingerprint]]) -> None:
        if new:
            self._ledger.discover(self._run, new)
            self.recorded.moves[Verdict.DISCOVER] += len(new)
            if self._rules.profile.next_file:
                self.recorded.appeared += [path for path, _ in new]
            _tell(self._run, Verdict.DISCOVER, (path for path, _ in new))

    def _move(self, verdict: Verdict, steps: list[Step]) -> int:
        """Apply one verdict; return how many moves were ours and not another agent's."""
        outcomes = self._ledger.move(self._run, _EVENTS[verdict], steps) if steps else []
        done = outcomes.count(Outcome.DONE)
        self.recorded.moves[verdict] += done
        told = zip(steps, outcomes, strict=True)
        _tell(self._run, verdict, (one.path for one, outcome in told if outcome is Outcome.DONE))
        return done

    def _step(self, verdict: Verdict, path: str, found: Fingerprint, known: Seen) -> Step:
        if verdict is Verdict.SETTLE:
            # What is on record is expected: the ctime may differ without a change.
            return Step(path=path, fingerprint=known.fingerprint, lane=self._rules.lane(found.size))
        note = _source_note(verdict, found, known) if verdict is not Verdict.CHANGE else None
        return Step(path=path, fingerprint=found, note=note)


def _to_be_judged(
    files: Sequence[tuple[str, Fingerprint]], seen: Sequence[Seen | None]
) -> list[tuple[tuple[str, Fingerprint], Seen | None]]:
    """Leave out what is on record as it is: nearly all of a run that was looked at before."""
    return [
        (file, known)
        for file, known in zip(files, seen, strict=False)
        if known is None or known.fingerprint != file[1] or known.state in MOVED_AS_THEY_ARE
    ]


def _tell(run: RunKey, verdict: Verdict, paths: Iterable[str]) -> None:
    """Log each file, for who asked for that much."""
    if is_told(logging.DEBUG):
        state = MOVE_OF[_EVENTS.get(verdict, Event.DISCOVER)].target
        for path in paths:
            emit(f"file.{state}", level=logging.DEBUG, run=str(run), file=path)


def _recorded_now(steps: Mapping[Verdict, Sequence[Step]]) -> Iterator[tuple[str, Fingerprint]]:
    """Yield what was recorded as it is now; a move that another agent made settles nothing."""
    for verdict in _BEGINS_ANEW:
        for step in steps.get(verdict, ()):
            if step.fingerprint is not None:
                yield step.path, step.fingerprint


def _left_out_step(verdict: Verdict, entry: LeftOut, known: Seen | None) -> Step:
    if known and verdict in {Verdict.REAPPEAR, Verdict.CONFLICT}:
        note = _source_note(verdict, entry.fingerprint, known)
        return Step(path=entry.path, fingerprint=entry.fingerprint, note=note)
    return Step(path=entry.path, note=_note(verdict, entry.code, entry.message))


def _source_note(verdict: Verdict, found: Fingerprint, known: Seen) -> Note:
    if verdict is Verdict.REAPPEAR:
        return _note(verdict, "reappeared", "it is there after all")
    return _note(
        verdict,
        "superseded" if verdict is Verdict.SUPERSEDE else "changed_after_verified",
        f"the source changed after it was verified: {_facts(known.fingerprint)} then, "
        f"{_facts(found)} now",
    )


def _facts(fingerprint: Fingerprint) -> str:
    size, mtime_ns, inode, _ = fingerprint
    return f"{size} bytes, mtime {mtime_ns} ns, inode {inode}"


def _note(verdict: Verdict, code: str, message: str) -> Note:
    kind = Kind.PERMANENT if verdict is Verdict.REFUSE else Kind.SOURCE
    return Note(event=_EVENTS[verdict], kind=kind, code=code, message=message)

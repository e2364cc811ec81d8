"""The ledger in memory, with a clock that is moved by hand.

`MemoryLedger` is held to `tests/contract/test_ledger*.py`, as the real one is. Counts are recounted
whenever they are asked for, so that they cannot be wrong.
"""

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from labferry.archive import Archive
from labferry.audit import Act, Entry, Head, extend, file_change
from labferry.begun import Begun
from labferry.breakers import Conditions
from labferry.dead_letter import DeadFile, DeadLetter
from labferry.errors import Fenced, Refused
from labferry.identity import FileKey, RunKey
from labferry.ledger.effects import EFFECT_OF, PARKED, changes_letter
from labferry.ports import Leadership, Ledger
from labferry.records import (
    Bundle,
    Claim,
    Completion,
    FileRecord,
    Fingerprint,
    Lane,
    Note,
    Outcome,
    Part,
    Proof,
    RunFacts,
    Seen,
    Step,
    Upload,
)
from labferry.settings import LedgerSettings
from labferry.states import LEASED, MOVE_OF, Actor, Event, State
from labferry.word import Word
from tests.memory_archives import MemoryArchives
from tests.memory_batches import MemoryBatches
from tests.memory_conditions import MemoryConditions
from tests.memory_limits import MemoryLimits
from tests.memory_outbox import MemoryOutbox
from tests.memory_passes import MemoryPasses
from tests.memory_tallies import MemoryTallies
from tests.memory_turns import MemoryTurns

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_RESEND_MS = 3_600_000
LONGEST_CALL_MS = 60_000
MOST = 255
#: Where the clock of tokens begins, 2024-01-01, and how far it goes before they differ.
EPOCH_MS = 1_704_067_200_000
TOKEN_MS = 256
#: In the order of a life; a date makes the ledger forget those after it.
DATES = ("discovered_ms", "changed_ms", "settled_ms", "claimed_ms", "verified_ms")
COUNTERS = ("attempt", "lost", "rounds", "series")
NEW_SERIES = {"attempt": 0, "lost": 0, "rounds": 0}
UNLISTED = (State.SKIPPED, State.DISCOVERED, State.DISCARDED)
NOT_CLOSED_OVER = (
    State.UPLOADING, State.UPLOADED, State.FAILED, State.HELD, State.QUARANTINED,
)  # fmt: skip


def atomic(
    call: Callable[Concatenate["MemoryLedger", P], R],
) -> Callable[Concatenate["MemoryLedger", P], R]:
    @functools.wraps(call)
    def locked(self: "MemoryLedger", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return call(self, *args, **kwargs)

    return locked


@dataclass(slots=True)
class Run:
    """All that is on record of one run; tests may look inside."""

    opened_ms: int
    changed_ms: int
    generation: int = 1
    sealed_ms: int = 0
    completed: int = 0
    closed: Word | None = None
    unfinished: bool = False
    marker: str = ""
    bundle_count: int = 0
    files: dict[str, FileRecord] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    due: dict[str, int] = field(default_factory=dict)
    history: defaultdict[str, list[Note]] = field(default_factory=lambda: defaultdict(list))
    uploads: dict[str, Upload] = field(default_factory=dict)
    ready: dict[Lane, list[str]] = field(default_factory=lambda: {lane: [] for lane in Lane})
    bundles: dict[int, Bundle] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    last: set[str] = field(default_factory=set)
    markers: set[int] = field(default_factory=set)
    dead: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    letter_changes: int = 0
    finished_ms: int = 0
    moves: int = 0
    sight: str = ""
    archive: Archive | None = None
    #: What was counted when the records were put away.
    counted: tuple[dict[State, int], dict[State, int]] = field(default_factory=lambda: ({}, {}))

    @property
    def is_complete(self) -> bool:
        return self.completed == self.generation

    def counts(self) -> tuple[dict[State, int], dict[State, int]]:
        """How many files are in each state, and their bytes."""
        if self.archive is not None and not self.files:
            return self.counted
        sizes = dict.fromkeys(State, 0)
        for record in self.files.values():
            sizes[record.state] += record.fingerprint.size
        return {state: self.number(state) for state in State}, sizes

    def number(self, *states: State) -> int:
        return sum(record.state in states for record in self.files.values())

    def holds(self, path: str, token: int) -> bool:
        record = self.files.get(path)
        return record is not None and record.state in LEASED and record.token == token

    def change_letter(self, path: str) -> None:
        self.letter_changes += 1
        self.reasons[path] = self.letter_changes

    def send(self, lane: Lane, run: RunKey, paths: Sequence[str], due_ms: int) -> Bundle:
        self.bundle_count += 1
        only = self.files[paths[0]] if len(paths) == 1 else None
        bundle = Bundle(
            run=run,
            number=self.bundle_count,
            lane=lane,
            paths=tuple(paths),
            attempt=only.attempt if only else 0,
            series=only.series if only else 0,
        )
        self.bundles[bundle.number] = bundle
        self.sent[bundle.number] = due_ms
        return bundle


class MemoryLedger(
    MemoryLimits, MemoryArchives, MemoryPasses, MemoryBatches, MemoryOutbox, MemoryConditions,
    MemoryTallies, MemoryTurns, Ledger,
):  # fmt: skip
    """The Ledger port in memory. `clock_ms` moves only when `pass_ms` or a test moves it."""

    def __init__(self, settings: LedgerSettings | None = None) -> None:
        super().__init__()
        settings = settings or LedgerSettings()
        self.clock_ms = 1_800_000_000_000
        self.data: dict[RunKey, Run] = {}
        self.lock = threading.RLock()
        self._ttl_ms = int(settings.lease_ttl_s * 1000)
        self._resend_ms = int(settings.resend_s * 1000)
        self._active: dict[RunKey, int] = {}
        self._workers: list[str] = []
        self._proofs: dict[str, tuple[int, Proof]] = {}
        self._dead: list[str] = []
        self.audits: defaultdict[RunKey | None, list[str]] = defaultdict(list)
        self._heads: dict[RunKey | None, Head] = {}
        self._holds: dict[str, Word] = {}
        self._released: dict[str, Word] = {}
        self.leaders: dict[str, tuple[object, int]] = {}

    def pass_ms(self, ms: int) -> None:
        self.clock_ms += ms

    def now_ms(self) -> int:
        return self.clock_ms

    @atomic
    def look(self, run: RunKey, paths: Sequence[str]) -> tuple[int, list[Seen | None]]:
        files = self.data[run].files if run in self.data else {}
        found = [files.get(path) for path in paths]
        return self.clock_ms, [
            Seen(one.state, one.fingerprint, one.changed_ms) if one else None for one in found
        ]

    @atomic
    def discover(self, run: RunKey, seen: Sequence[tuple[str, Fingerprint]]) -> int:
        if not seen:
            return 0
        now, self._active[run] = self.clock_ms, self.clock_ms
        data = self.data.setdefault(run, Run(now, now))
        if data.archive is not None:
            return 0
        new = {path: fingerprint for path, fingerprint in reversed(seen) if path not in data.files}
        for path, fingerprint in new.items():
            data.files[path] = new_record(fingerprint, now)
        if new:
            data.moves += 1
            self._reopen(data, touched=True, queued=False)
        return len(new)

    @atomic
    def move(self, run: RunKey, event: Event, steps: Sequence[Step]) -> list[Outcome]:
        if MOVE_OF[event].actor is Actor.OPERATOR:
            raise Refused(what=event, why="it has no line in the audit", step="Use `act`.")
        return self._move(run, event, steps)

    def _move(self, run: RunKey, event: Event, steps: Sequence[Step]) -> list[Outcome]:
        effect = EFFECT_OF[event]
        for step in steps:
            if effect.proves and step.evidence is None:
                raise Refused(what=step.path, why="it has no evidence", step="Prove it.")
        if steps and (effect.queues or changes_letter(event)):
            self._active[run] = self.clock_ms
        if run not in self.data:
            return [Outcome.MISSING for _ in steps]
        data, moved, outcomes = self.data[run], False, []
        for step in steps:
            known = step.path in data.files
            outcome = self._refusal(data, event, step) if known else Outcome.MISSING
            if outcome is None:
                moved = True
                self._apply(data, event, step)
            outcomes.append(outcome or Outcome.DONE)
        if moved:
            data.moves += 1
            self._reopen(data, touched=effect.touches, queued=effect.queues)
        return outcomes

    def _refusal(self, data: Run, event: Event, step: Step) -> Outcome | None:
        record, move = data.files[step.path], MOVE_OF[event]
        newest = step.token == record.token
        if move.needs_token and newest and record.state is move.target:
            return Outcome.DONE
        if (move.needs_token or step.token) and not newest:
            return Outcome.FENCED
        if record.state not in move.sources:
            return Outcome.ILLEGAL
        ends = data.leases.get(step.path)
        if not move.needs_token and ends is not None and (not step.token or ends > self.clock_ms):
            return Outcome.FENCED
        if EFFECT_OF[event].expects and step.fingerprint != record.fingerprint:
            return Outcome.DIFFERENT
        return None

    def _apply(self, data: Run, event: Event, step: Step) -> None:
        effect, path = EFFECT_OF[event], step.path
        record = replace(data.files[path], state=MOVE_OF[event].target)
        if effect.counts:
            grown = min(getattr(record, effect.counts) + 1, MOST)
            others = NEW_SERIES if effect.counts == "series" else {}
            record = _changed(record, **others, **{effect.counts: grown})
        if step.lane:
            record = replace(record, lane=step.lane)
        if effect.records and step.fingerprint:
            record = replace(record, fingerprint=step.fingerprint)
        if effect.dates:
            record = _dated(record, effect.dates, self.clock_ms)
        if effect.forgets:
            record = _forgetful(record, effect.forgets)
        if effect.proves:
            record = replace(record, evidence=step.evidence)
        data.files[path] = record
        self._follow_up(data, event, step)

    def _follow_up(self, data: Run, event: Event, step: Step) -> None:
        effect, record, path = EFFECT_OF[event], data.files[step.path], step.path
        if record.state not in LEASED:
            data.leases.pop(path, None)
        if record.state in PARKED:
            data.due[path] = self.clock_ms + (step.delay_ms or 0)
        else:
            data.due.pop(path, None)
        if effect.queues and record.lane:
            data.ready[record.lane].append(path)
        if effect.drops_upload:
            data.uploads.pop(path, None)
        if step.note:
            data.history[path].append(replace(step.note, at_ms=self.clock_ms))
        data.dead.pop(path, None)
        if record.state is State.QUARANTINED:
            data.dead[path] = self.clock_ms
        if changes_letter(event):
            data.change_letter(path)

    def _reopen(self, data: Run, *, touched: bool, queued: bool) -> None:
        if touched:
            data.changed_ms, data.sealed_ms = self.clock_ms, 0
        if queued and data.is_complete:
            data.generation += 1

    @atomic
    def seal(self, run: RunKey, last: Sequence[str], file_count: int) -> bool:
        data = self.data.get(run)
        if data is None or data.sealed_ms or data.is_complete:
            return False
        if len(data.files) - data.number(State.SKIPPED) < file_count:
            return False
        waiting = {path for path, one in data.files.items() if one.state is State.DISCOVERED}
        if not waiting <= set(last):
            return False
        data.sealed_ms, data.last = self.clock_ms, set(last)
        data.unfinished = False
        return True

    @atomic
    def runs(self) -> list[RunKey]:
        return sorted(self.data)

    @atomic
    def active_runs(self) -> list[RunKey]:
        return sorted(self._active)

    @atomic
    def retire(self, run: RunKey) -> None:
        since_ms = self._active.get(run)
        if since_ms is not None and self.clock_ms - since_ms < LONGEST_CALL_MS:
            return
        self._active.pop(run, None)
        self._finished[run] = self.clock_ms

    def facts_of(self, runs: Sequence[RunKey]) -> list[RunFacts]:
        return [facts for run in runs if (facts := self.find_facts(run))]

    @atomic
    def find_facts(self, run: RunKey) -> RunFacts | None:
        data = self.data.get(run)
        if data is None:
            return None
        counts, sizes = data.counts()
        return RunFacts(
            run=run,
            generation=data.generation,
            opened_ms=data.opened_ms,
            changed_ms=data.changed_ms,
            sealed_ms=data.sealed_ms,
            completed=data.completed,
            marker=data.marker,
            counts=counts,
            sizes=sizes,
            ready={lane: len(paths) for lane, paths in data.ready.items()},
            sent=len(data.sent),
            reasons_due=len(data.reasons),
            hold=self.find_hold(run),
            closed=data.closed,
            unfinished=data.unfinished,
            finished_ms=data.finished_ms,
            moves=data.moves,
            sight=data.sight,
            archive=data.archive,
            now_ms=self.clock_ms,
        )

    @atomic
    def take(
        self, run: RunKey, lane: Lane, *, bundles: int, max_files: int, max_bytes: int
    ) -> list[Bundle]:
        made: list[Bundle] = []
        data, taken = self.data.get(run), set[str]()
        while data is not None and len(made) < bundles:
            paths = self._next_paths(data, lane, max_files, max_bytes, taken)
            if not paths:
                break
            made.append(data.send(lane, run, paths, self.clock_ms + self._resend_ms))
        return made

    def _next_paths(
        self, data: Run, lane: Lane, max_files: int, max_bytes: int, taken: set[str]
    ) -> list[str]:
        paths: list[str] = []
        size, queue = 0, data.ready[lane]
        while queue and len(paths) < max_files:
            record = data.files[queue[0]]
            fits = record.state is State.ELIGIBLE and record.lane is lane
            if fits and queue[0] not in taken:
                size += record.fingerprint.size
                if paths and size > max_bytes:
                    break
                paths.append(queue[0])
                taken.add(queue[0])
            del queue[0]
        return paths

    @atomic
    def take_due(self, run: RunKey, limit: int) -> list[Bundle]:
        data = self.data.get(run)
        made: list[Bundle] = []
        for path in _past(data.due, self.clock_ms, len(data.due)) if data else []:
            assert data is not None
            if len(made) == limit:
                break
            del data.due[path]
            record = data.files[path]
            if record.state in MOVE_OF[Event.RETRY].sources:
                data.moves += 1
                data.files[path] = replace(record, state=State.ELIGIBLE)
                lane = record.lane or Lane.SMALL
                if record.state is State.HELD:
                    data.ready[lane].append(path)
                else:
                    made.append(data.send(lane, run, [path], self.clock_ms + self._resend_ms))
        return made

    @atomic
    def take_unclaimed(self, run: RunKey, limit: int) -> list[Bundle]:
        data = self.data.get(run)
        again: list[Bundle] = []
        for number in _past(data.sent, self.clock_ms, limit) if data else []:
            assert data is not None
            bundle = replace(data.bundles[number], tries=data.bundles[number].tries + 1)
            wait_ms = min(self._resend_ms * 2**bundle.tries, LONGEST_RESEND_MS)
            data.bundles[number] = bundle
            data.sent[number] = self.clock_ms + wait_ms
            again.append(bundle)
        return again

    @atomic
    def register(self, worker: str) -> int:
        self._workers.append(worker)
        return len(self._workers)

    @atomic
    def worker_name(self, number: int) -> str:
        return self._workers[number - 1] if 0 < number <= len(self._workers) else ""

    @atomic
    def claim(
        self,
        run: RunKey,
        bundle: int,
        paths: Sequence[str],
        holder: int,
        cap: int | None = None,
    ) -> list[Claim]:
        data = self.data.get(run)
        if data is None:
            return []
        data.sent.pop(bundle, None)
        recorded = data.bundles.pop(bundle, None)
        claims: list[Claim] = []
        above: list[str] = []
        leased = sum(
            len(one.leases) for key, one in self.data.items() if key.instrument == run.instrument
        )
        for path in recorded.paths if recorded else paths:
            record = data.files.get(path)
            if record is None or record.state not in MOVE_OF[Event.CLAIM].sources:
                continue
            if cap is not None and leased + len(claims) >= cap:
                above.append(path)
                continue
            record = replace(
                record,
                state=State.UPLOADING,
                token=max(record.token + 1, (self.clock_ms - EPOCH_MS) // TOKEN_MS),
                holder=holder,
                claimed_ms=record.claimed_ms or self.clock_ms,
            )
            data.files[path] = record
            data.leases[path] = self.clock_ms + self._ttl_ms
            claims.append(Claim(path=path, token=record.token, record=record, bundle=bundle))
        for path in reversed(above if recorded else []):
            data.ready[data.files[path].lane or Lane.SMALL].insert(0, path)
        data.moves += bool(claims)
        return claims

    @atomic
    def begin(
        self,
        run: RunKey,
        bundle: int,
        paths: Sequence[str],
        holder: int,
        cap: int | None = None,
    ) -> Begun:
        hold = self.find_hold(run)
        claims = [] if hold else self.claim(run, bundle, paths, holder, cap)
        data = self.data.get(run)
        return Begun(
            claims=claims,
            conditions=self.conditions,
            hold=hold,
            sent=len(data.sent) if data else 0,
        )

    @atomic
    def renew(self, run: RunKey, held: Sequence[tuple[str, int]]) -> list[bool]:
        data = self.data.get(run)
        renewed = [data is not None and data.holds(path, token) for path, token in held]
        for (path, _), holds in zip(held, renewed, strict=True):
            if data is not None and holds:
                data.leases[path] = self.clock_ms + self._ttl_ms
        return renewed

    @atomic
    def find_upload(self, file: FileKey) -> Upload | None:
        upload = self.data[file.run].uploads.get(file.path) if file.run in self.data else None
        return replace(upload, parts=dict(upload.parts)) if upload else None

    @atomic
    def save_upload(self, file: FileKey, token: int, upload: Upload) -> None:
        uploads = self._uploads(file, token)
        before = uploads.get(file.path)
        uploads[file.path] = replace(upload, parts=dict(before.parts) if before else {})

    @atomic
    def save_parts(self, file: FileKey, token: int, parts: dict[int, Part]) -> None:
        upload = self._uploads(file, token).get(file.path)
        if upload is None:
            raise Fenced(file=str(file), token=token)
        upload.parts.update(parts)

    @atomic
    def drop_upload(self, file: FileKey, token: int) -> None:
        self._uploads(file, token).pop(file.path, None)

    def _uploads(self, file: FileKey, token: int) -> dict[str, Upload]:
        data = self.data.get(file.run)
        if data is None or not data.holds(file.path, token):
            raise Fenced(file=str(file), token=token)
        return data.uploads

    @atomic
    def find_proof(self, endpoint: str) -> Proof | None:
        until_ms, proof = self._proofs.get(endpoint, (0, None))
        return proof if until_ms > self.clock_ms else None

    @atomic
    def save_proof(self, endpoint: str, proof: Proof, *, keep_s: int) -> None:
        self._proofs[endpoint] = (self.clock_ms + keep_s * 1000, proof)

    @atomic
    def lapsed(self, run: RunKey, limit: int) -> list[tuple[str, FileRecord]]:
        data = self.data.get(run)
        if data is None:
            return []
        return [(path, data.files[path]) for path in _past(data.leases, self.clock_ms, limit)]

    @atomic
    def pending_last(self, run: RunKey) -> list[str]:
        data = self.data.get(run)
        if data is None:
            return []
        known = sorted(path for path in data.last if path in data.files)
        return [path for path in known if data.files[path].state is State.DISCOVERED]

    @atomic
    def records(self, run: RunKey) -> Iterator[tuple[str, FileRecord]]:
        return iter(list(self.data[run].files.items()) if run in self.data else [])

    @atomic
    def complete(self, run: RunKey, completion: Completion) -> bool:
        data = self.data[run]
        if completion.generation in data.markers:
            return False
        data.markers.add(completion.generation)
        self.tell(run, [completion.event])
        data.completed, data.marker = completion.generation, completion.marker_key
        data.finished_ms = self.clock_ms
        listed = len(data.files) - data.number(*UNLISTED)
        self._reopen(data, touched=False, queued=listed > completion.file_count)
        return True

    def leadership(self, name: str, *, keep_s: float) -> "MemoryLeadership":
        return MemoryLeadership(self, name, int(keep_s * 1000))

    @atomic
    def is_led(self, name: str) -> bool:
        return name in self.leaders and self.leaders[name][1] > self.clock_ms

    @atomic
    def waiting_since(self, runs: Sequence[RunKey]) -> int:
        settled = []
        for data in (self.data[run] for run in runs if run in self.data):
            paths = [waiting[0] for waiting in data.ready.values() if waiting]
            sent = (bundle for number, bundle in data.bundles.items() if number in data.sent)
            paths += [bundle.paths[0] for bundle in sent]
            found = [data.files[path] for path in paths if path in data.files]
            settled += [one.settled_ms for one in found if one.state is State.ELIGIBLE]
        return min(settled, default=0)

    @atomic
    def dead_since(self, runs: Sequence[RunKey]) -> int:
        known = (self.data[run] for run in runs if run in self.data)
        return min((since_ms for data in known for since_ms in data.dead.values()), default=0)

    @atomic
    def find_record(self, file: FileKey) -> FileRecord | None:
        return self.data[file.run].files.get(file.path) if file.run in self.data else None

    @atomic
    def find_records(self, run: RunKey, paths: Sequence[str]) -> list[FileRecord | None]:
        files = self.data[run].files if run in self.data else {}
        return [files.get(path) for path in paths]

    @atomic
    def find_due(self, file: FileKey) -> int | None:
        data = self.data.get(file.run)
        return data.leases.get(file.path, data.due.get(file.path)) if data else None

    @atomic
    def bytes_under_way(self, run: RunKey) -> int:
        data = self.data.get(run)
        uploads = [one for path, one in data.uploads.items() if path in data.leases] if data else []
        return sum(part.size for one in uploads for part in one.parts.values() if part.etag)

    @atomic
    def history(self, file: FileKey) -> list[Note]:
        return list(self.data[file.run].history.get(file.path, [])) if file.run in self.data else []

    @atomic
    def bury(self, message: str) -> None:
        self._dead.append(message)

    @atomic
    def dead_messages(self) -> list[str]:
        return list(self._dead)

    @atomic
    def dead_files(self, run: RunKey, *, notes: int = 0) -> Iterator[DeadFile]:
        data = self.data.get(run)
        if data is None:
            return iter(())
        found = [
            DeadFile(
                path=path,
                since_ms=since_ms,
                record=data.files[path],
                notes=tuple(data.history[path][-notes:]),
            )
            for path, since_ms in data.dead.items()
        ]
        return iter(found)

    @atomic
    def reasons_due(self, run: RunKey, after: int, limit: int) -> list[tuple[str, int]]:
        reasons = self.data[run].reasons.items() if run in self.data else []
        return sorted((one for one in reasons if one[1] > after), key=lambda one: one[1])[:limit]

    @atomic
    def reasons_written(self, run: RunKey, written: Sequence[tuple[str, int]]) -> None:
        for path, number in written:
            if self.data[run].reasons.get(path) == number:
                del self.data[run].reasons[path]
            else:
                self.data[run].change_letter(path)

    @atomic
    def recall(self, run: RunKey, letters: Sequence[DeadLetter], *, is_told: bool) -> list[Outcome]:
        outcomes = []
        for letter in letters:
            path, data = letter.file.path, self.data.get(run)
            reasons = dict(data.reasons) if data else {}
            (outcome,) = self._move(run, Event.RECALL, [Step(path=path)])
            if data and outcome is Outcome.DONE:
                counts = {name: getattr(letter.record, name) for name in COUNTERS}
                data.files[path] = replace(data.files[path], **counts)
                data.history[path] = list(letter.notes)
                data.dead[path] = letter.at_ms
                if is_told:
                    data.reasons = reasons
            elif data and path in data.files and data.files[path].state is State.QUARANTINED:
                outcome = Outcome.DONE
            outcomes.append(outcome)
        return outcomes

    @atomic
    def act(self, run: RunKey, event: Event, steps: Sequence[Step], act: Act) -> list[Outcome]:
        if MOVE_OF[event].actor is not Actor.OPERATOR:
            raise Refused(what=event, why="it is no act of an operator", step="Use `move`.")
        before = dict(self.data[run].files) if run in self.data else {}
        once = {step.path: step for step in steps}
        outcomes = dict(zip(once, self._move(run, event, list(once.values())), strict=True))
        new_series = EFFECT_OF[event].counts == "series"
        target = MOVE_OF[event].target
        changes = [
            file_change(path, before[path], target, new_series=new_series)
            for path, outcome in outcomes.items()
            if outcome is Outcome.DONE
        ]
        if changes:
            self._append(run, act, changes)
        return [outcomes[step.path] for step in steps]

    @atomic
    def record_act(self, run: RunKey | None, act: Act) -> None:
        self._append(run, act, [])

    @atomic
    def hold(self, name: RunKey | str, act: Act) -> None:
        self._holds[str(name)] = self._word(act)
        self.record_act(name if isinstance(name, RunKey) else None, act)

    @atomic
    def release(self, name: RunKey | str, act: Act) -> None:
        self._holds.pop(str(name), None)
        self.record_act(name if isinstance(name, RunKey) else None, act)

    @atomic
    def end_custody(self, run: RunKey, act: Act) -> None:
        self._released[str(run)] = self._word(act)
        self.record_act(run, act)

    @atomic
    def resume_custody(self, run: RunKey, act: Act) -> None:
        self._released.pop(str(run), None)
        self.record_act(run, act)

    @atomic
    def out_of_custody(self) -> dict[str, Word]:
        return dict(sorted(self._released.items()))

    @atomic
    def holds(self) -> dict[str, Word]:
        return dict(sorted(self._holds.items()))

    @atomic
    def conditions(self) -> Conditions:
        return super().conditions()

    @atomic
    def find_hold(self, run: RunKey) -> Word | None:
        return self._holds.get(str(run)) or self._holds.get(run.instrument)

    @atomic
    def close(self, run: RunKey, act: Act) -> bool:
        data = self.data[run]
        if data.number(*NOT_CLOSED_OVER):
            return False
        self._active[run] = self.clock_ms
        data.unfinished = data.unfinished or not data.sealed_ms
        data.closed, data.sealed_ms = self._word(act), self.clock_ms
        self.record_act(run, act)
        return True

    def _word(self, act: Act) -> Word:
        return Word(actor=act.actor, reason=act.reason, at_ms=self.clock_ms)

    def _append(self, run: RunKey | None, act: Act, files: Sequence[dict[str, Any]]) -> None:
        entry = Entry(
            number=len(self.audits[run]) + 1,
            at_ms=self.clock_ms,
            run=str(run or ""),
            act=act,
            files=tuple(files),
        )
        self._heads[run], line = extend(self.audit_head(run), entry)
        self.audits[run].append(line)

    @atomic
    def audit(self, run: RunKey | None) -> Iterator[str]:
        return iter(list(self.audits[run]))

    @atomic
    def audit_head(self, run: RunKey | None) -> Head:
        return self._heads.get(run, Head())

    @atomic
    def markers(self, run: RunKey) -> set[int]:
        return set(self.data[run].markers) if run in self.data else set()


class MemoryLeadership(Leadership):
    """The Leadership port in memory."""

    def __init__(self, ledger: MemoryLedger, name: str, keep_ms: int) -> None:
        self._ledger, self._name, self._keep_ms = ledger, name, keep_ms

    def keep(self) -> bool:
        with self._ledger.lock:
            leader, until_ms = self._ledger.leaders.get(self._name, (self, 0))
            if leader is not self and until_ms > self._ledger.clock_ms:
                return False
            self._ledger.leaders[self._name] = (self, self._ledger.clock_ms + self._keep_ms)
            return True

    def extend(self) -> bool:
        with self._ledger.lock:
            leader, until_ms = self._ledger.leaders.get(self._name, (None, 0))
            return leader is self and until_ms > self._ledger.clock_ms and self.keep()

    def release(self) -> None:
        with self._ledger.lock:
            if self._ledger.leaders.get(self._name, (None, 0))[0] is self:
                del self._ledger.leaders[self._name]


def new_record(fingerprint: Fingerprint, now_ms: int) -> FileRecord:
    return FileRecord(
        state=State.DISCOVERED,
        attempt=0,
        lost=0,
        rounds=0,
        series=0,
        token=0,
        holder=0,
        fingerprint=fingerprint,
        lane=Lane.SMALL,
        discovered_ms=now_ms,
        changed_ms=now_ms,
        settled_ms=0,
        claimed_ms=0,
        verified_ms=0,
    )


def _changed(record: FileRecord, **changes: Any) -> FileRecord:
    return replace(record, **changes)


def _dated(record: FileRecord, name: str, now_ms: int) -> FileRecord:
    return _changed(_forgetful(record, name), **{name: now_ms})


def _forgetful(record: FileRecord, name: str) -> FileRecord:
    later = DATES[DATES.index(name) :]
    return _changed(record, evidence=None, **dict.fromkeys(later, 0))


Name = TypeVar("Name", str, int)


def _past(times: dict[Name, int], now_ms: int, limit: int) -> list[Name]:
    """Return what is due, the longest due first, by name where two are."""
    due = sorted((at_ms, name) for name, at_ms in times.items() if at_ms <= now_ms)
    return [name for _, name in due[:limit]]

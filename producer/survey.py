"""What is new in one run, and is the run done?

One pass over one run: the scan's batches are recorded in the ledger as they come. When the whole
run was seen and its done rule holds, the run is sealed.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from labferry.completion import OVER, RunState, run_state
from labferry.ports import Ledger
from labferry.profiles import Profile
from labferry.records import RunFacts
from labferry.source.claims import claim_parts
from labferry.source.done import Listing, Part, done_parts, is_done
from labferry.source.scan import Batch, scan
from labferry.source.share import RunFolder, Share
from labferry.source.tally import Tally
from labferry.source.verdicts import ended_badly
from labferry.states import State
from producer.checksums import checksum_part
from producer.lingering import tell_verdicts
from producer.next_run import Looks
from producer.record import Recorded, Recorder, Rules
from producer.report import RunReport
from producer.settle import Verdict
from producer.sight import Sight
from producer.vanished import skip_vanished


class Stopped(Exception):
    """The program is to end: nothing is concluded of the run."""


def survey(  # noqa: PLR0913  ports, and what they are about
    ledger: Ledger,
    rules: Rules,
    share: Share,
    folder: RunFolder,
    stopping: Callable[[], bool],
    looks: Looks,
    *,
    next_began: bool = False,
) -> RunReport:
    """Scan a run, tell the ledger, seal the run if it is done. Two at once are harmless.

    `looks` is what this agent saw before; `next_began` says that the share's next run has begun.
    Raises: LedgerUnavailable, ShareUnavailable, Stopped.
    """
    before = ledger.find_facts(folder.run)
    if before is not None and before.archive is not None:
        return _look_over(rules, folder, before, stopping)
    recorder = _recorder(ledger, rules, folder, before, looks)
    started_ms = ledger.now_ms()
    sight = Sight() if before is not None and before.is_over else None
    tally = _scan(rules, folder, recorder, started_ms, stopping, sight)
    if rules.profile.next_file:
        looks.note(folder.run, started_ms, recorder.recorded.appeared)
    facts, vanished = ledger.find_facts(folder.run), 0
    missing = facts and facts.counts[State.DISCOVERED] != recorder.recorded.discovered
    if missing and not tally.unreadable.count:
        vanished = skip_vanished(ledger, share, folder, rules.profile)
        facts = ledger.find_facts(folder.run)
    state, parts = RunState.OPEN, list[Part]()
    if facts:
        facts = replace(facts, stale_s=rules.profile.stale_s)
        listing = tally.listing(
            started_ms,
            last_waiting=recorder.recorded.last_waiting,
            last_restless=recorder.recorded.last_restless,
        )
        state, parts = _conclude(ledger, rules.profile, folder, listing, facts, next_began)
        if sight is not None:
            _note_sight(ledger, facts, sight, recorder.recorded)
    return _report(folder, state, parts, tally, recorder.recorded, vanished)


def _look_over(
    rules: Rules, folder: RunFolder, facts: RunFacts, stopping: Callable[[], bool]
) -> RunReport:
    """Look at a run whose records were put away: is it as it was when there was nothing to do?"""
    tally, sight = Tally(rules.profile), Sight()
    for _ in _batches(rules, folder, tally, sight, stopping):
        pass
    other = sight.number not in ("", facts.sight)
    report = _report(folder, run_state(facts), [], tally, Recorded(), 0)
    return replace(report, wants_records=other)


def _note_sight(ledger: Ledger, facts: RunFacts, sight: Sight, recorded: Recorded) -> None:
    """Record what was seen of a run that is over, if there was nothing to do."""
    is_quiet = not recorded.moves.total() and not facts.counts[State.DISCOVERED]
    if is_quiet and sight.number not in ("", facts.sight):
        ledger.note_sight(facts.run, sight.number)


def _recorder(
    ledger: Ledger, rules: Rules, folder: RunFolder, facts: RunFacts | None, looks: Looks
) -> Recorder:
    state = run_state(facts) if facts else RunState.OPEN
    return Recorder(
        ledger,
        folder.run,
        rules,
        looks.absent_ms(folder.run),
        # A marker goes up last; one that comes after completion is a late file like any other.
        hold_last=state not in OVER,
        frozen=state in {RunState.SEALED, RunState.INCOMPLETE},
    )


def _scan(
    rules: Rules,
    folder: RunFolder,
    recorder: Recorder,
    started_ms: int,
    stopping: Callable[[], bool],
    sight: Sight | None,
) -> Tally:
    tally, looked_ms = Tally(rules.profile), started_ms
    for batch in _batches(rules, folder, tally, sight, stopping):
        looked_ms = recorder.record(batch, looked_ms)
    return tally


def _batches(
    rules: Rules,
    folder: RunFolder,
    tally: Tally,
    sight: Sight | None,
    stopping: Callable[[], bool],
) -> Iterator[Batch]:
    """Yield what is in a run, once it is counted in. Raises: Stopped."""
    for batch in scan(folder.path, folder.run, rules.profile, rules.layout):
        if stopping():
            raise Stopped
        tally.add(batch)
        if sight is not None:
            sight.add(batch)
        yield batch


def _conclude(
    ledger: Ledger,
    profile: Profile,
    folder: RunFolder,
    listing: Listing,
    facts: RunFacts,
    next_began: bool,
) -> tuple[RunState, list[Part]]:
    """Seal an open run of which every part of the done rule holds."""
    state = run_state(facts)
    if state not in {RunState.OPEN, RunState.STALE}:
        return state, []
    parts = done_parts(profile, listing, facts, next_began=next_began)
    if is_done(parts):
        # Costs a look at each file that a list names: only when it alone decides.
        parts += claim_parts(folder.path, profile, listing)
    if is_done(parts) and profile.sidecars:
        parts.append(checksum_part(ledger, profile, folder))
    if is_done(parts):
        # Told before the seal: after it nobody looks again.
        tell_verdicts(ledger, facts.run, ended_badly(folder.path, profile, listing))
    if is_done(parts) and ledger.seal(facts.run, listing.last, listing.files):
        state = RunState.SEALED
    return state, parts


def _report(
    folder: RunFolder,
    state: RunState,
    parts: list[Part],
    tally: Tally,
    recorded: Recorded,
    vanished: int,
) -> RunReport:
    moves = recorded.moves
    return RunReport(
        run=str(folder.run),
        state=state,
        files=tally.files,
        new=moves[Verdict.DISCOVER],
        changed=moves[Verdict.CHANGE],
        settled=moves[Verdict.SETTLE],
        waiting=moves[Verdict.WAIT],
        held_back=tally.temporary.count,
        temporary=tuple(tally.temporary.first),
        left_out=tally.left_out.count,
        skipped=moves[Verdict.SKIP],
        vanished=vanished,
        reappeared=moves[Verdict.REAPPEAR],
        refused=moves[Verdict.REFUSE],
        conflicts=moves[Verdict.CONFLICT],
        superseded=moves[Verdict.SUPERSEDE],
        errors=tally.unreadable.count,
        unreadable=tuple(tally.unreadable.first),
        changing=tuple(recorded.changing.first),
        failed=tuple(tally.failed.first),
        alike=tuple(tally.alike.first),
        done=tuple(parts),
    )

"""How is a run ended that cannot be completed? Held first, then what is missing is given up.

While it is held nothing new of it begins; what is under way comes to its end. Then what is neither
verified nor skipped is discarded, on record, and the run is frozen. If this command dies on the
way, the run stays held, and closing it again goes on.
"""

import json
from collections.abc import Iterator
from itertools import islice

from labferry.audit import Act
from labferry.clock import SystemClock
from labferry.completion import run_state
from labferry.errors import Refused
from labferry.ports import Ledger
from labferry.records import FileRecord, Note, RunFacts, Step
from labferry.states import LEASED, MOVE_OF, Event, State
from ops.consent import consent
from ops.exits import Exit
from ops.overview import find_run, read_run_key
from ops.shown import counted, size, terminal
from ops.standing import read_standings

#: Files of one act: its line in the audit names each.
ACT_FILES = 500
#: Uploads under way are waited for so long.
WAIT_S = 600.0
_POLL_S = 0.5
#: Files named in the preview.
_NAMED = 10
_GIVEN_UP = MOVE_OF[Event.CLOSE].sources


class Closing:
    """The end of one run."""

    def __init__(self, ledger: Ledger, run: str, act: Act, *, as_json: bool) -> None:
        self._ledger = ledger
        self._run = read_run_key(run)
        self._act = act
        self._as_json = as_json
        self._clock = SystemClock()

    def run(self, *, dry_run: bool, yes: bool) -> Exit:
        """Show what the run would lack, ask, and close it.

        Raises: NotFound, SettingsError, Refused.
        """
        facts = find_run(self._ledger, self._run)
        self._demand_open(facts)
        at_ms = self._ledger.now_ms()
        self._show(facts)
        if dry_run:
            return Exit.DONE
        consent(f"Close {self._run} without them?", yes=yes)
        was_held = facts.hold is not None
        if not was_held:
            self._ledger.hold(self._run, self._act)
        self._wait_for_uploads()
        count = self._give_up(at_ms)
        if not self._ledger.close(self._run, self._act):
            raise Refused(
                what=str(self._run),
                why="something of it moved meanwhile",
                step="It is held; close it again.",
            )
        self._ledger.release(self._run, self._act)
        self._say_closed(count)
        return Exit.DONE

    def _demand_open(self, facts: RunFacts) -> None:
        if facts.is_over:
            raise Refused(
                what=str(self._run),
                why=f"it is {run_state(facts)}",
                step=f"Its marker: {facts.marker}",
            )
        if facts.closed and facts.sealed_ms:
            raise Refused(
                what=str(self._run),
                why=f"it was closed by {facts.closed.actor}: {facts.closed.reason}",
                step="A worker writes its marker; `labferry status` says when.",
            )

    def _show(self, facts: RunFacts) -> None:
        lacking = _GIVEN_UP | LEASED | {State.DISCARDED}
        counts = {state: facts.counts[state] for state in lacking if facts.counts[state]}
        if self._as_json:
            shown = {str(state): count for state, count in sorted(counts.items())}
            print(json.dumps({"run": str(self._run), "would_lack": shown}))
            return
        console = terminal(soft_wrap=True)
        bytes_ = sum(facts.sizes[state] for state in counts)
        console.print(f"{self._run} is {run_state(facts)}; it would be closed without:")
        console.print(f"  {counted(sum(counts.values()))}, {size(bytes_)}")
        for state, count in sorted(counts.items()):
            ends = " (under way: waited for first)" if state in LEASED else ""
            console.print(f"  {count:,} {state}{ends}")
        for path, record in islice(self._lacking(), _NAMED):
            console.print(f"    {record.state:12} {path}")
        for lack in self._waits_for(facts):
            console.print(f"  It still waits for {lack}.")

    def _waits_for(self, facts: RunFacts) -> Iterator[str]:
        """Yield what its done rule lacks; a file that is held back there is not on record."""
        for standing in read_standings(self._ledger, [facts]):
            for waiting in standing.waiting.values():
                yield from waiting.lacks

    def _lacking(self) -> Iterator[tuple[str, FileRecord]]:
        for path, record in self._ledger.records(self._run):
            if record.state in _GIVEN_UP:
                yield path, record

    def _wait_for_uploads(self) -> None:
        until_s = self._clock.mono_s() + WAIT_S
        while under_way := self._under_way():
            if self._clock.mono_s() > until_s:
                raise Refused(
                    what=str(self._run),
                    why=f"{counted(under_way)} are still under way",
                    step="It is held, so nothing more begins; close it again later.",
                )
            self._clock.sleep_s(_POLL_S)

    def _under_way(self) -> int:
        facts = find_run(self._ledger, self._run)
        return sum(facts.counts[state] for state in LEASED)

    def _give_up(self, at_ms: int) -> int:
        """Discard what the operator was shown; what was discovered since is a late file."""
        lacking = {
            path: record for path, record in self._lacking() if record.discovered_ms <= at_ms
        }
        steps = [Step(path=path, note=self._note(record)) for path, record in lacking.items()]
        for first in range(0, len(steps), ACT_FILES):
            self._ledger.act(self._run, Event.CLOSE, steps[first : first + ACT_FILES], self._act)
        return len(steps)

    def _note(self, record: FileRecord) -> Note:
        return Note(
            event=Event.CLOSE,
            kind="operator",
            code=self._act.what,
            message=self._act.reason,
            worker=self._act.actor,
            series=record.series,
            decision=f"it was {record.state}",
        )

    def _say_closed(self, count: int) -> None:
        if self._as_json:
            print(json.dumps({"run": str(self._run), "given_up": count}))
        else:
            print(f"Closed {self._run}: {counted(count)} given up. A worker writes its marker.")

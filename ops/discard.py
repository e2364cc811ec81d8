"""How are dead letters given up? Shown first, then one act for some hundred files of a run."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice

from labferry.audit import Act
from labferry.chosen import chosen_letters
from labferry.dead_letter import DeadLetter
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import Note, Outcome, Step
from labferry.selector import Selector
from labferry.states import Event
from ops.consent import consent
from ops.dead_letters import groups_view
from ops.exits import Exit
from ops.letter_groups import Group, grouped, headline
from ops.shown import terminal

#: Files of one act: its line in the audit names each.
ACT_FILES = 500
_CAUSE = 1


@dataclass(slots=True, kw_only=True)
class Discarded:
    """What came of it; `left` counts files that were dead letters no more when their turn came."""

    groups: list[Group]
    dry_run: bool
    done: int = 0
    left: int = 0

    @property
    def exit_code(self) -> Exit:
        """How the command ends."""
        return Exit.PARTIAL if self.left else Exit.DONE

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry dead-letters discard --json`."""
        return {
            "groups": [group.to_json() for group in self.groups],
            "dry_run": self.dry_run,
            "discarded": self.done,
            "left": self.left,
        }


def discard_letters(
    ledger: Ledger, selector: Selector, act: Act, *, dry_run: bool, yes: bool, as_json: bool
) -> Exit:
    """Show which dead letters are meant, ask, and discard them; what dies meanwhile is left.

    Raises: SettingsError when nothing is chosen, Refused, NotFound, LedgerUnavailable.
    """
    selector.require()
    now_ms = ledger.now_ms()
    groups = grouped(chosen_letters(ledger, selector, now_ms=now_ms, notes=_CAUSE))
    result = Discarded(groups=groups, dry_run=dry_run)
    if not as_json:
        _show(groups)
    if groups and not dry_run:
        consent(f"Discard {headline(groups)}?", yes=yes)
        letters = chosen_letters(ledger, selector, now_ms=now_ms, notes=_CAUSE)
        _discard(ledger, letters, act, result)
    if as_json:
        print(json.dumps(result.to_json()))
    elif not dry_run and groups:
        _say(result)
    return result.exit_code


def _show(groups: list[Group]) -> None:
    if groups:
        terminal().print(groups_view(groups))
    else:
        print("No dead letter is meant.")


def _discard(ledger: Ledger, letters: Iterator[DeadLetter], act: Act, result: Discarded) -> None:
    for run, of_run in groupby(letters, key=lambda letter: letter.file.run):
        while batch := list(islice(of_run, ACT_FILES)):
            outcomes = _discard_batch(ledger, run, batch, act)
            result.done += outcomes.count(Outcome.DONE)
            result.left += len(outcomes) - outcomes.count(Outcome.DONE)


def _discard_batch(
    ledger: Ledger, run: RunKey, letters: list[DeadLetter], act: Act
) -> list[Outcome]:
    steps = {one.file.path: Step(path=one.file.path, note=_note(act, one)) for one in letters}
    return ledger.act(run, Event.DISCARD, list(steps.values()), act)


def _note(act: Act, letter: DeadLetter) -> Note:
    return Note(
        event=Event.DISCARD,
        kind="operator",
        code=act.what,
        message=act.reason,
        worker=act.actor,
        series=letter.record.series,
    )


def _say(result: Discarded) -> None:
    print(f"\nDiscarded: {result.done:,}.")
    if result.left:
        print(f"Left as they are: {result.left:,}, dead letters no more when their turn came.")

"""Which dead letters on record does a selector mean? A stream, never held whole."""

from collections.abc import Iterable, Iterator

from labferry.dead_letter import DeadLetter, dead_letter, find_letter
from labferry.errors import NotFound
from labferry.identity import FileKey, RunKey
from labferry.ports import Ledger
from labferry.selector import Selector
from labferry.states import State

_STEP = "KEY is INSTRUMENT/RUN/PATH."


def chosen_letters(
    ledger: Ledger, selector: Selector, *, now_ms: int, notes: int = 0
) -> Iterator[DeadLetter]:
    """Return the dead letters that are meant and were such at `now_ms`, in no order.

    Each comes with the newest `notes` lines of its history, or with all for 0; one may come twice.
    Raises, before the first: NotFound for a run or file of the selector's that is not on record.
    """
    return (
        letter
        for letter in _letters(ledger, selector, notes)
        if letter.at_ms <= now_ms and selector.matches(letter, now_ms)
    )


def _letters(ledger: Ledger, selector: Selector, notes: int) -> Iterable[DeadLetter]:
    if selector.file is not None:
        return [get_letter(ledger, selector.file, dead=True)]
    runs = _runs(ledger, selector)
    return (dead_letter(run, dead) for run in runs for dead in ledger.dead_files(run, notes=notes))


def _runs(ledger: Ledger, selector: Selector) -> list[RunKey]:
    if selector.run is None:
        runs = [run for run in ledger.runs() if selector.may_be_in(run)]
        if selector.instrument is not None and not runs:  # a misspelt name is no good news
            step = "`labferry status` lists the instruments and runs on record."
            raise NotFound(what=f"a run of the instrument {selector.instrument}", step=step)
        return runs
    if ledger.find_facts(selector.run) is None:
        raise NotFound(
            what=f"the run {selector.run}", step="`labferry status` lists the runs on record."
        )
    return [selector.run]


def get_letter(ledger: Ledger, file: FileKey, *, dead: bool = False) -> DeadLetter:
    """Return the dead letter that a file is; without `dead`, also the one that it was last.

    Raises: NotFound.
    """
    record = ledger.find_record(file)
    if record is None:
        facts = ledger.find_facts(file.run)
        is_away = facts is not None and facts.archive is not None
        step = f"Its run is over: labferry explain '{file}'" if is_away else _STEP
        raise NotFound(what=f"the file {file}", step=step)
    letter = find_letter(file, record, ledger.history(file))
    if letter is None or (dead and record.state is not State.QUARANTINED):
        raise NotFound(
            what=f"a dead letter {file}",
            step=f"The file is {record.state}: see `labferry explain`.",
        )
    return letter

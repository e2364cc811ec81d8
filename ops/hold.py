"""How does an operator hold a run or an instrument, and let it go on?"""

from collections.abc import Iterable

from labferry.audit import Act
from labferry.errors import NotFound, Refused
from labferry.identity import RunKey
from labferry.ports import Ledger
from ops.overview import find_run, read_run_key
from ops.shown import tell_change


def hold(
    ledger: Ledger,
    instruments: Iterable[str],
    name: str,
    act: Act,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Hold it, or say what that would do.

    Raises: NotFound, SettingsError, Refused when it is held already.
    """
    held = _read(ledger, instruments, name)
    if word := ledger.holds().get(str(held)):
        raise Refused(
            what=str(held),
            why=f"it is held by {word.actor}: {word.reason}",
            step=f"Let it go on: labferry release {held} --reason TEXT",
        )
    if not dry_run:
        ledger.hold(held, act)
    sentence = f"{held} is held: nothing of it is published or completed; what is under way ends."
    tell_change(sentence, {"name": str(held), "held": True}, dry_run=dry_run, as_json=as_json)


def release(
    ledger: Ledger,
    instruments: Iterable[str],
    name: str,
    act: Act,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Let it go on, or say what that would do.

    Raises: NotFound, SettingsError, Refused when it is not held.
    """
    held = _read(ledger, instruments, name)
    if str(held) not in ledger.holds():
        others = ", ".join(ledger.holds()) or "nothing"
        raise Refused(what=str(held), why="it is not held", step=f"Held is: {others}.")
    if not dry_run:
        ledger.release(held, act)
    facts = {"name": str(held), "held": False}
    tell_change(f"{held} goes on.", facts, dry_run=dry_run, as_json=as_json)


def _read(ledger: Ledger, instruments: Iterable[str], name: str) -> RunKey | str:
    name = name.removesuffix("/")  # a shell completes folders so
    if "/" in name:
        return find_run(ledger, read_run_key(name)).run
    if name in instruments or any(run.instrument == name for run in ledger.runs()):
        return name
    raise NotFound(what=f"the instrument {name}", step="`labferry status` lists them.")

"""How does an operator hold a run or an instrument, and let it go on?"""

from collections.abc import Iterable

from labferry.audit import Act
from labferry.errors import NotFound, Refused
from labferry.identity import RunKey
from labferry.ports import Ledger
from ops.overview import find_run, read_run_key


def hold(ledger: Ledger, instruments: Iterable[str], name: str, act: Act) -> None:
    """Hold it. Raises: NotFound, SettingsError, Refused when it is held already."""
    held = _read(ledger, instruments, name)
    if word := ledger.holds().get(name):
        raise Refused(
            what=name,
            why=f"it is held by {word.actor}: {word.reason}",
            step=f"Let it go on: labferry release {name} --reason TEXT",
        )
    ledger.hold(held, act)
    print(f"{name} is held: nothing of it is published or completed; what is under way ends.")


def release(ledger: Ledger, instruments: Iterable[str], name: str, act: Act) -> None:
    """Let it go on. Raises: NotFound, SettingsError, Refused when it is not held."""
    held = _read(ledger, instruments, name)
    if name not in ledger.holds():
        others = ", ".join(ledger.holds()) or "nothing"
        raise Refused(what=name, why="it is not held", step=f"Held is: {others}.")
    ledger.release(held, act)
    print(f"{name} goes on.")


def _read(ledger: Ledger, instruments: Iterable[str], name: str) -> RunKey | str:
    if "/" in name:
        return find_run(ledger, read_run_key(name)).run
    if name in instruments or any(run.instrument == name for run in ledger.runs()):
        return name
    raise NotFound(what=f"the instrument {name}", step="`labferry status` lists them.")

"""What does `labferry custody` do and print?"""

import json

from labferry.audit import Act
from labferry.clock import SystemClock
from labferry.identity import Layout
from labferry.ledger import open_ledger
from labferry.s3.store import open_store
from labferry.settings import Settings
from ops.custody import Custody, Found
from ops.exits import Exit
from ops.overview import find_run, read_run_key
from ops.shown import counted, tell_change


def keep_custody(
    settings: Settings,
    run: str | None,
    *,
    sample: int,
    per_second: float,
    budget_s: float,
    as_json: bool,
) -> Exit:
    """Look at a run, or at all, and print what was found. Raises: NotFound, SettingsError."""
    ledger = open_ledger(settings.ledger)
    runs = [find_run(ledger, read_run_key(run)).run] if run else ledger.runs()
    found = Custody(
        ledger=ledger,
        store=open_store(settings.store),
        layout=Layout(settings.store.prefix),
        clock=SystemClock(),
        sample=sample,
        per_second=per_second,
        budget_s=budget_s,
    ).look(runs)
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        _say(found)
    return found.exit_code


def change_custody(
    settings: Settings, run: str, act: Act, *, ends: bool, dry_run: bool, as_json: bool
) -> None:
    """Note that a run's objects may go, or are to stay after all; or say what that would do.

    Raises: NotFound.
    """
    ledger = open_ledger(settings.ledger)
    key = find_run(ledger, read_run_key(run)).run
    change = ledger.end_custody if ends else ledger.resume_custody
    if not dry_run:
        change(key, act)
    sentence = (
        f"{key} is released: its objects may go. Nothing of it is uploaded again."
        if ends
        else f"{key} is in custody again."
    )
    facts = {"run": str(key), "released": ends}
    tell_change(sentence, facts, dry_run=dry_run, as_json=as_json)


def _say(found: Found) -> None:
    sound = "" if found.incidents or found.unread or not found.objects else " All are as proven."
    print(f"{counted(found.objects, 'object')} of {counted(found.runs, 'run')} looked at.{sound}")
    for one in found.incidents:
        print(f"  {one.fault:11} {one.key}")
    for why in found.unread:
        print(f"  not looked at: {why}")
    if found.released:
        print(f"Released, and not looked at: {counted(found.released, 'run')}.")

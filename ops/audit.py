"""What did operators do, and is the record of it untouched?"""

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence

from labferry.audit import Entry, Fault, Head, find_fault, read_line
from labferry.errors import SettingsError
from labferry.identity import RunKey
from labferry.ports import Ledger
from ops.exits import Exit
from ops.overview import find_run, read_run_key
from ops.shown import counted, instant

Chain = RunKey | None
_VERIFY = "verify"


def chains(ledger: Ledger, run: str | None) -> list[Chain]:
    """Return the audits to look at: that of a run, or all. Raises: NotFound, SettingsError."""
    if run is not None:
        return [find_run(ledger, read_run_key(run)).run]
    return [None, *ledger.runs()]


def read_words(words: Sequence[str]) -> tuple[str | None, bool]:
    """Read `[RUN] [verify]`, in any order. Raises: SettingsError."""
    runs = [word for word in words if word != _VERIFY]
    if len(runs) > 1 or len(words) - len(runs) > 1:
        raise SettingsError(
            field="audit",
            why=f"{' '.join(words)!r} is too much",
            step="Write `labferry audit`, then a RUN or `verify` or both.",
        )
    return (runs[0] if runs else None), _VERIFY in words


def show_audit(ledger: Ledger, run: str | None, *, as_json: bool) -> None:
    """Print what operators did, oldest first. Raises: NotFound, MalformedMessage."""
    entries = heapq.merge(
        *(_entries(ledger, chain) for chain in chains(ledger, run)), key=lambda one: one.at_ms
    )
    if as_json:
        _print_json(entries)
        return
    lines = map(_line, entries)
    print(next(lines, "Nothing is on record: no operator changed anything."))
    for line in lines:
        print(line)


def _entries(ledger: Ledger, chain: Chain) -> Iterator[Entry]:
    return map(read_line, ledger.audit(chain))


def _print_json(entries: Iterable[Entry]) -> None:
    print('{"entries": [', end="")
    for number, entry in enumerate(entries):
        print(",\n" if number else "\n", end="")
        print(json.dumps(entry.to_json()), end="")
    print("]}")


def _line(entry: Entry) -> str:
    act = entry.act
    where = f" in {entry.run}" if entry.run else ""
    files = f", {counted(len(entry.files))}" if entry.files else ""
    which = f" ({act.selector})" if act.selector else ""
    what = f"{act.what}{where}{files}{which}"
    return f"{instant(entry.at_ms)}  {act.actor}  {what}: {act.reason}"


def verify_audit(ledger: Ledger, run: str | None, *, as_json: bool) -> Exit:
    """Say of each audit whether it is whole; exit 1 when one is not. Raises: NotFound."""
    found = [(chain, *verified(ledger, chain)) for chain in chains(ledger, run)]
    told = [(chain, head, fault) for chain, head, fault in found if head.lines or fault]
    if as_json:
        print(json.dumps({"audits": [_json(*one) for one in told]}))
    else:
        for one in told:
            print(_verdict(*one))
        if not told:
            print("Nothing is on record: no operator changed anything.")
    return Exit.FAILED if any(fault for _, _, fault in told) else Exit.DONE


def verified(ledger: Ledger, chain: Chain) -> tuple[Head, Fault | None]:
    """Return where an audit ends, and what is wrong with the lines up to there."""
    while True:
        head = ledger.audit_head(chain)
        fault = find_fault(ledger.audit(chain), head)
        if fault is None or ledger.audit_head(chain) == head:
            return head, fault  # else a line was added while it was read


def _json(chain: Chain, head: Head, fault: Fault | None) -> dict[str, object]:
    return {"run": str(chain or ""), **verdict_json(head, fault)}


def verdict_json(head: Head, fault: Fault | None) -> dict[str, object]:
    """Return where an audit ends, and whether it is whole."""
    return {
        "lines": head.lines,
        "head": head.digest,
        "whole": fault is None,
        "fault": None if fault is None else {"line": fault.number, "why": fault.why},
    }


def _verdict(chain: Chain, head: Head, fault: Fault | None) -> str:
    name = str(chain) if chain else "acts without a run"
    if fault is None:
        return f"{name}: whole, {head.lines:,} lines, head {head.digest}"
    return f"{name}: BROKEN at line {fault.number}: {fault.why}."

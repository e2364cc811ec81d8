"""Can this installation work, and keep labferry's promises?

Everything is really tried, also with what must be refused. Each finding that is not good ends in
the next step.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labferry.clock import SystemClock
from labferry.settings import Settings
from ops.doctor.broker import look_at_broker, look_at_workers
from ops.doctor.events import look_at_events
from ops.doctor.finding import Finding, Verdict
from ops.doctor.host import look_at_host
from ops.doctor.ledger import look_at_ledger
from ops.doctor.light import examine_lightly
from ops.doctor.store import look_at_store
from ops.exits import Exit
from ops.shown import terminal

_STYLE = {
    Verdict.GOOD: "green",
    Verdict.WARNING: "yellow",
    Verdict.BAD: "bold red",
    Verdict.UNKNOWN: "magenta",
}


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield every finding on what must be there before anything is started, as it is made."""
    wall_s = SystemClock().wall_s
    return itertools.chain(
        look_at_host(settings),
        look_at_ledger(settings, wall_s),
        look_at_broker(settings),
        look_at_store(settings.store, wall_s),
        look_at_events(settings),
    )


def show_examination(settings: Settings, *, light: bool, as_json: bool) -> Exit:
    """Print what is found and return the command's exit code."""
    if light:
        found = examine_lightly(settings)
    else:
        found = itertools.chain(examine(settings), look_at_workers(settings))
    if as_json:
        findings = list(found)
        facts = {"exit": exit_of(findings), "findings": [asdict(one) for one in findings]}
        print(json.dumps(facts, indent=2))
        return exit_of(findings)
    console = terminal()
    findings = print_findings(console, found)
    counts = {verdict: sum(one.verdict is verdict for one in findings) for verdict in Verdict}
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    return exit_of(findings)


def exit_of(findings: Sequence[Finding]) -> Exit:
    """Return 0 when labferry can work, 1 when something is bad, 75 when something is unknown."""
    verdicts = {one.verdict for one in findings}
    if Verdict.BAD in verdicts:
        return Exit.FAILED
    return Exit.UNAVAILABLE if Verdict.UNKNOWN in verdicts else Exit.DONE


def print_findings(console: Console, found: Iterable[Finding]) -> list[Finding]:
    """Print findings as they are made, each advice once; return them."""
    findings: list[Finding] = []
    for one in found:
        is_told = one.step in {before.step for before in findings}
        console.print(finding_line(replace(one, step="As above.") if one.step and is_told else one))
        findings.append(one)
    return findings


def finding_line(finding: Finding) -> Table:
    """Return a finding as a person reads it, in 80 columns."""
    line = Table.grid(padding=(0, 1))
    line.add_column(width=7, style=_STYLE[finding.verdict], no_wrap=True)
    line.add_column(width=22, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(finding.verdict, f"{finding.area} {finding.check}", finding.seen)
    if finding.step:
        line.add_row("", "", Text(finding.step, style="dim"))
    return line

"""How is a ledger that was lost made again from bucket and source? `labferry reconcile --rebuild`.

Each instrument is held meanwhile, so that nobody sends what is about to be found; agents may go on
scanning. What another person holds is left held. An error of one run does not stop the others; the
command may be run again, and goes on where it was.
"""

import argparse
import json
import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from labferry.audit import Act
from labferry.bucket_runs import runs_in_sight
from labferry.errors import LedgerUnavailable, MalformedMessage, SettingsError, StoreError
from labferry.identity import Layout, RunKey
from labferry.ledger import open_ledger
from labferry.ports import Ledger
from labferry.s3.probe import proven
from labferry.s3.store import open_store
from labferry.settings import Settings, load_settings
from labferry.telemetry import configure
from workers.rebuild_report import UNAVAILABLE, Rebuilt, exit_code, lines
from workers.rebuild_run import Site, rebuild_run

USAGE = 2
WHAT = "reconcile --rebuild"


def rebuild(site: Site, run: RunKey | None) -> list[Rebuilt]:
    """Put one run, or all that the bucket has anything of, on record; return what came of each.

    Raises: LedgerUnavailable, StoreError when the bucket cannot be listed.
    """
    strange: list[str] = []
    runs = [run] if run else runs_in_sight(site.store, site.layout, strange)
    for one in strange:
        sys.stderr.write(f"Not looked at: {one}\n")
    with _held(site.ledger, [] if site.dry_run else runs, site.act):
        return [_rebuild(site, one) for one in runs]


def _rebuild(site: Site, run: RunKey) -> Rebuilt:
    report = Rebuilt(run)
    try:
        rebuild_run(site, report)
    except (StoreError, MalformedMessage) as error:
        report.failure = str(error)
    return report


@contextmanager
def _held(ledger: Ledger, runs: Sequence[RunKey], act: Act) -> Iterator[None]:
    """Hold the instruments of runs, but for those that another person holds."""
    mine = replace(act, what="hold", selector=WHAT)
    names, holds = sorted({run.instrument for run in runs}), ledger.holds()
    for name in names:
        if name not in holds:
            ledger.hold(name, mine)
    try:
        yield
    finally:
        for name in names:
            # Also what an earlier call of the same words left held when it was killed.
            word = holds.get(name)
            if word is None or (word.actor, word.reason) == (act.actor, act.reason):
                ledger.release(name, replace(mine, what="release"))
            else:
                sys.stderr.write(f"{name} stays held by {word.actor}: {word.reason}\n")


def open_site(settings: Settings, act: Act, *, dry_run: bool) -> Site:
    """Return what a rebuild works with. Raises: LedgerUnavailable, StoreError."""
    ledger, store = open_ledger(settings.ledger), open_store(settings.store)
    layout = Layout(settings.store.prefix)
    return Site(
        ledger=ledger,
        store=store,
        layout=layout,
        settings=settings,
        proof=proven(store, layout, ledger),
        holder=ledger.register(f"{socket.gethostname()}:{os.getpid()}"),
        act=act,
        dry_run=dry_run,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m workers.rebuild`; return the exit code."""
    given = _parser().parse_args(arguments)
    configure("rebuild", level=logging.WARNING)
    try:
        act = Act(actor=given.actor, reason=given.reason, what=WHAT)
        site = open_site(load_settings(given.config), act, dry_run=given.dry_run)
        runs = rebuild(site, RunKey.parse(given.run) if given.run else None)
    except SettingsError as error:
        sys.stderr.write(f"labferry: {error}\n")
        return USAGE
    except (LedgerUnavailable, StoreError) as error:
        sys.stderr.write(f"labferry: {error}\n")
        return UNAVAILABLE
    if given.json:
        facts = {"dry_run": given.dry_run, "runs": [one.to_json() for one in runs]}
        sys.stdout.write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines(runs, dry_run=given.dry_run))
    return exit_code(runs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.rebuild")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--run")
    parser.add_argument("--actor", default="")
    parser.add_argument("--reason", default="")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())

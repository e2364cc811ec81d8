"""What does `labferry reconcile` look at, what does it say, and how does it end?

It compares ledger, bucket and source, and looks for uploads that nobody owns. Nothing is changed
unless it is told to end those.
"""

import json
from dataclasses import dataclass, field

from rich.console import Console

from labferry.audit import Act
from labferry.bucket_runs import runs_in_sight
from labferry.errors import NotFound, StoreError
from labferry.identity import Layout, RunKey
from labferry.ledger import open_ledger
from labferry.ledger.server import without_password
from labferry.ports import Ledger
from labferry.s3.store import CANNOT_LIST, open_store
from labferry.settings import Settings
from ops.consent import consent
from ops.drift import Comparison, Drift, Kind
from ops.exits import Exit
from ops.orphans import OrphanSearch, Uploads
from ops.overview import read_run_key
from ops.shown import terminal

_NEXT = {
    Kind.MISSING: "find out who removed them, and keep the source: `labferry replay --run RUN` "
    "sends them again",
    Kind.DIFFERENT: "find out who replaced them; nothing was overwritten by labferry",
    Kind.UNKNOWN: "`labferry reconcile --rebuild` takes over what can be proven",
    Kind.SOURCELESS: "look at the instrument; `labferry close` ends a run without them",
    Kind.UNKNOWN_MARKER: "`labferry reconcile --rebuild` takes it over",
    Kind.LOST_MARKER: "find out who removed it; `labferry verify` says what else is gone",
}


@dataclass(slots=True, kw_only=True)
class Report:
    """What was found; `drifts` has the runs in which something is wrong."""

    compared: int = 0
    drifts: list[Drift] = field(default_factory=list)
    uploads: Uploads | None = None
    not_seen: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> Exit:
        """How the command ends."""
        if self.drifts or (self.uploads and self.uploads.remaining):
            return Exit.PARTIAL
        return Exit.UNAVAILABLE if self.not_seen else Exit.DONE

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry reconcile --json`."""
        return {
            "compared": self.compared,
            "runs": [drift.to_json() for drift in self.drifts],
            "uploads": self.uploads.to_json() if self.uploads else None,
            "not_seen": self.not_seen,
        }


def reconcile(
    settings: Settings, run: str | None, act: Act | None, *, yes: bool, as_json: bool
) -> Exit:
    """Compare, and end what is nobody's where there is an act. Raises: NotFound, SettingsError,
    Refused, LedgerUnavailable, StoreError."""
    if act is not None:
        consent("End all multipart uploads that nobody owns?", yes=yes)
    report = _look(settings, read_run_key(run) if run else None, act)
    if as_json:
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        _show(report)
    return report.exit_code


def check_rebuild(
    settings: Settings, run: str | None, act: Act, *, dry_run: bool, yes: bool
) -> list[str]:
    """Ask whether a ledger is to be made again; return what `workers.rebuild` is started with.

    Raises: SettingsError, Refused, LedgerUnavailable.
    """
    only = read_run_key(run) if run else None
    known = len(open_ledger(settings.ledger).runs())
    if not dry_run:
        where = f"{without_password(settings.ledger.url)} (runs on record: {known:,})"
        consent(f"Put on record in {where} what {settings.store.bucket} proves?", yes=yes)
    options = [f"--actor={act.actor}", f"--reason={act.reason}"]
    options += [f"--run={only}"] if only else []
    return options + (["--dry-run"] if dry_run else [])


def _look(settings: Settings, run: RunKey | None, act: Act | None) -> Report:
    ledger, store = open_ledger(settings.ledger), open_store(settings.store)
    layout, report = Layout(settings.store.prefix), Report()
    roots = {name: one.root for name, one in settings.instruments.items()}
    known = ledger.runs()
    instruments = {*roots, *(one.instrument for one in known)}
    comparison = Comparison(ledger=ledger, store=store, layout=layout, roots=roots)
    seen = [] if run else runs_in_sight(store, layout, report.not_seen)
    for one in [run] if run else sorted({*known, *seen}):
        drift = comparison.look(one)
        report.compared += 1
        if drift:
            report.drifts.append(drift)
        if not drift.is_source_seen:
            report.not_seen.append(f"the source of {one}: its share is not on this host")
    search = OrphanSearch(ledger=ledger, store=store, layout=layout, instruments=instruments)
    try:
        report.uploads = search.look([run] if run else known, run, act)
    except StoreError as error:
        if error.code not in CANNOT_LIST:
            raise
        report.not_seen.append(f"open uploads: {error}")
    if run and not report.drifts and not _is_known(ledger, run, report.uploads):
        step = "Neither ledger nor bucket has it; `labferry status` lists the runs on record."
        raise NotFound(what=f"the run {run}", step=step)
    return report


def _is_known(ledger: Ledger, run: RunKey, uploads: Uploads | None) -> bool:
    """Whether anything is on record of a run; what only the bucket has is a drift."""
    has_uploads = uploads is not None and bool(uploads.owned or uploads.orphans.count)
    return has_uploads or ledger.find_facts(run) is not None


def _show(report: Report) -> None:
    out = terminal(soft_wrap=True)
    for drift in report.drifts:
        out.print(str(drift.run), style="bold")
        for kind, names in drift.found.items():
            if names:
                out.print(f"  {names.count:,} {kind}: {_NEXT[kind]}")
                out.print("".join(f"    {name}\n" for name in names.first), end="")
    if (uploads := report.uploads) is not None:
        _show_uploads(out, uploads)
    for one in report.not_seen:
        out.print(f"Not looked at: {one}.")
    what = "Nothing is wrong" if not report.drifts else f"{len(report.drifts):,} with drift"
    out.print(f"Runs compared: {report.compared:,}. {what}.")


def _show_uploads(out: Console, uploads: Uploads) -> None:
    out.print(f"Open uploads in parts: {uploads.owned:,} under way, {uploads.foreign:,} of others.")
    if not uploads.orphans:
        return
    out.print(f"Nobody owns {uploads.orphans.count:,}, {uploads.aborted:,} ended:")
    out.print("".join(f"    {one}\n" for one in uploads.orphans.first), end="")
    out.print("".join(f"  not ended: {one}\n" for one in uploads.left.first), end="")
    if not uploads.aborted and not uploads.left:
        out.print("  `labferry reconcile --abort-orphans --reason TEXT` ends them.")

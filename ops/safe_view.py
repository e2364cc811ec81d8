"""What does `labferry safe-to-delete` print: a statement, or the reasons why not?"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from labferry.clock import SystemClock
from labferry.completion import run_state
from labferry.dead_letter import iso
from labferry.errors import NotFound
from labferry.identity import Layout
from labferry.ledger import open_ledger
from labferry.records import RunFacts
from labferry.s3.store import open_store
from labferry.settings import InstrumentSettings, Settings
from ops.exits import Exit
from ops.overview import find_run, read_run_key
from ops.safe_to_delete import Examiner, Judgement
from ops.shown import counted
from ops.statement import check_key, statement_lines
from ops.verify import Verification
from ops.verify_report import Report, Verdict
from ops.written import written


def safe_to_delete(
    settings: Settings, run: str, *, budget_s: float, output: Path | None, as_json: bool
) -> Exit:
    """Write the statement and return 0, or say the reasons and return 4; 75 where nobody knows.

    Raises: NotFound, SettingsError, StoreError, LedgerUnavailable.
    """
    key = settings.statements.key.get_secret_value()
    check_key(key)
    ledger, store = open_ledger(settings.ledger), open_store(settings.store)
    layout = Layout(settings.store.prefix)
    facts = find_run(ledger, read_run_key(run))
    look = Verification(
        store=store, layout=layout, run=facts.run, clock=SystemClock(), budget_s=budget_s
    )
    try:
        report = look.report()
    except NotFound:  # on record, so it was seen: a reason, not a name nobody knows
        nothing = Judgement(run=facts.run)
        nothing.against(f"the run is {run_state(facts)}, and the bucket has nothing of it")
        _say(nothing, as_json=as_json)
        return Exit.REFUSED
    examiner = Examiner(ledger=ledger, store=store, layout=layout)
    judgement = examiner.examine(facts, report)
    instrument = settings.instruments.get(facts.run.instrument)
    with TemporaryDirectory(prefix="labferry-") as name:
        files = Path(name) / "files"
        if judgement.is_safe:
            judgement = _look_at_source(examiner, facts, instrument, files)
        if judgement.is_safe:
            header = _header(facts, report, judgement, settings.store.bucket)
            with written(output) as out:
                out.writelines(statement_lines(header, _lines(files), key))
            if output is not None:
                print(f"{facts.run}: safe to delete. {counted(judgement.files)}; see {output}.")
            if not key:
                print("It is not signed: LABFERRY_STATEMENTS__KEY is not set.", file=sys.stderr)
            return Exit.DONE
    _say(judgement, as_json=as_json)
    return Exit.UNAVAILABLE if report.verdict is Verdict.INCOMPLETE else Exit.REFUSED


def _look_at_source(
    examiner: Examiner, facts: RunFacts, instrument: InstrumentSettings | None, files: Path
) -> Judgement:
    if instrument is None or not instrument.root.is_dir():
        judgement = Judgement(run=facts.run)
        judgement.against("its source cannot be seen from this host: ask where the share is")
        return judgement
    with files.open("w", encoding="utf-8") as out:
        return examiner.compare(facts, instrument.root, instrument.resolved(), files.parent, out)


def _header(
    facts: RunFacts, report: Report, judgement: Judgement, bucket: str
) -> dict[str, object]:
    return {
        "run": str(facts.run),
        "verdict": "safe",
        "at": iso(facts.now_ms),
        "generation": facts.generation,
        "bucket": bucket,
        "marker": facts.marker,
        "basis": report.basis,
        "files": judgement.files,
        "bytes": judgement.size,
        "left_out": judgement.left_out,
        "gone": judgement.gone,
    }


def _lines(files: Path) -> Iterator[dict[str, Any]]:
    with files.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _say(judgement: Judgement, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(judgement.to_json()))
        return
    print(f"{judgement.run}: NOT safe to delete.", file=sys.stderr)
    for why, named in judgement.reasons.items():
        count = judgement.counts[why]
        print(f"  {why}" + (f" ({count:,})" if count > 1 else ""), file=sys.stderr)
        for name in named:
            print(f"    {name}", file=sys.stderr)

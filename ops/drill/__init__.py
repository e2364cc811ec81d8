"""Does labferry keep its promises here, with this bucket, when things go wrong on purpose?

Real processes on a site of their own, the facility's real bucket below a scratch prefix, and one
ugly case after the other. The report is for a person and, as JSON, for the file.
"""

import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from labferry import __version__
from labferry.clock import SystemClock
from labferry.dead_letter import iso
from labferry.errors import LabferryError, SettingsError
from labferry.settings import Settings
from ops.drill.cases import CASES, Check
from ops.drill.stage import Stage, clean, open_stage
from ops.exits import Exit
from ops.ready import check_bucket
from ops.shown import counted, terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What came of one case; `error` is what ended it early."""

    name: str
    about: str
    passed: bool
    seconds: float
    checks: Sequence[Check]
    error: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the object of the report."""
        return {**asdict(self), "checks": [one._asdict() for one in self.checks]}


def run_drill(settings: Settings, names: Sequence[str], report: Path, *, as_json: bool) -> Exit:
    """Run cases, all where none is named; print and write the report.

    Raises: SettingsError, StoreError, ServiceFailed, Interrupted.
    """
    for name in names:
        if name not in CASES:
            raise SettingsError(
                field="--case", why=f"there is no case {name!r}", step=f"Known: {', '.join(CASES)}."
            )
    check_bucket(settings.store)
    out = terminal(soft_wrap=True, quiet=as_json)
    clock = SystemClock()
    began_s = clock.mono_s()
    with open_stage(settings) as stage:
        out.print(f"Bucket {settings.store.bucket}, below {stage.layout.prefix}/")
        results, at_ms = list[CaseResult](), stage.ledger.now_ms()
        try:
            results.extend(_run(stage, names or list(CASES), out))
        finally:
            left = _clean(stage)
    facts = {
        "labferry": __version__,
        "at": iso(at_ms),
        "host": socket.gethostname(),
        "endpoint": settings.store.endpoint,
        "prefix": stage.layout.prefix,
        "passed": all(one.passed for one in results),
        "seconds": round(clock.mono_s() - began_s, 1),
        "left_behind": left,
        "cases": [one.to_json() for one in results],
    }
    report.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    if as_json:
        print(json.dumps(facts))
    _conclude(out, results, left, report)
    return Exit.DONE if facts["passed"] else Exit.FAILED


def _run(stage: Stage, names: Sequence[str], out: Console) -> Iterator[CaseResult]:
    for name in names:
        result = run_case(stage, name)
        word = "passed" if result.passed else "FAILED"
        style = "green" if result.passed else "bold red"
        out.print(f"{word}  {name:9} {result.about} ({result.seconds:.1f} s)", style=style)
        for check in result.checks:
            if not check.holds:
                out.print(f"          not so: {check.what} ({check.seen})")
        if result.error:
            out.print(f"          {result.error}")
        yield result


def run_case(stage: Stage, name: str) -> CaseResult:
    """Run one case; whatever ends it early is a failure of the case."""
    case, checks, error = CASES[name], list[Check](), ""
    began_s = stage.clock.mono_s()
    try:
        for check in case(stage):
            checks.append(check)
    except LabferryError as one:
        error = str(one)
    finally:
        stage.door.rules.clear()
    return CaseResult(
        name=name,
        about=(case.__doc__ or "").strip(),
        passed=not error and all(check.holds for check in checks),
        seconds=round(stage.clock.mono_s() - began_s, 1),
        checks=checks,
        error=error,
    )


def _clean(stage: Stage) -> int:
    try:
        return clean(stage)
    except LabferryError:
        return -1  # it is not known what stays


def _conclude(out: Console, results: Sequence[CaseResult], left: int, report: Path) -> None:
    passed = sum(one.passed for one in results)
    out.print(f"{passed} of {len(results)} cases passed. The report is in {report}.")
    if left:
        what = counted(left, "object") if left > 0 else "it is not known what"
        out.print(f"In the bucket stays below the prefix: {what}. Remove it there.")

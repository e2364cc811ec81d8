"""What does `labferry verify` print, or write to a file?"""

import json
from collections.abc import Iterator
from pathlib import Path

from labferry.clock import SystemClock
from labferry.identity import Layout
from labferry.s3.store import open_store
from labferry.settings import StoreSettings
from ops.overview import read_run_key
from ops.shown import counted
from ops.verify import Verification
from ops.verify_report import Basis, Report
from ops.written import written


def show_verification(
    settings: StoreSettings,
    run: str,
    *,
    budget_s: float,
    deep: bool,
    output: Path | None,
    as_json: bool,
) -> Report:
    """Verify a run and print the report, or write it, whole or not at all.

    Raises: NotFound, SettingsError.
    """
    longest_s = max(budget_s, 1)
    in_time = {
        "read_timeout_s": min(settings.read_timeout_s, longest_s),
        "connect_timeout_s": min(settings.connect_timeout_s, longest_s),
    }
    report = Verification(
        store=open_store(settings.model_copy(update=in_time)),
        layout=Layout(settings.prefix),
        run=read_run_key(run),
        clock=SystemClock(),
        budget_s=budget_s,
        deep=deep,
    ).report()
    with written(output) as out:
        if as_json:
            out.write(json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n")
        else:
            out.writelines(f"{line}\n" for line in _lines(report))
    return report


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.run}: {report.verdict}, {report.why}."
    generations = ", ".join(str(number) for number in report.generations) or "none"
    what = "counted" if report.basis is Basis.COUNT else "named"
    yield f"generations {generations}, {counted(report.files)}, {report.size:,} bytes {what}"
    if report.read_files:
        yield f"read back and hashed: {counted(report.read_files)}, {report.read_size:,} bytes"
    for label in ("missing", "different", "unexpected"):
        for name in getattr(report.differences, label):
            yield f"  {label:10} {name}"

"""What does `labferry verify` print, or write to a file?"""

import json
from collections.abc import Iterator
from pathlib import Path

from labferry.clock import SystemClock
from labferry.identity import Layout
from labferry.s3.store import open_store
from labferry.settings import Settings
from ops.overview import read_run_key
from ops.shown import counted
from ops.verify import Verification
from ops.verify_report import Basis, Report
from ops.verify_source import SourceFound
from ops.written import written


def show_verification(
    settings: Settings,
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
    longest_s, key = max(budget_s, 1), read_run_key(run)
    in_time = {
        "read_timeout_s": min(settings.store.read_timeout_s, longest_s),
        "connect_timeout_s": min(settings.store.connect_timeout_s, longest_s),
    }
    instrument = settings.instruments.get(key.instrument)
    report = Verification(
        store=open_store(settings.store.model_copy(update=in_time)),
        layout=Layout(settings.store.prefix),
        run=key,
        clock=SystemClock(),
        budget_s=budget_s,
        deep=deep,
        root=instrument.root if instrument else None,
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
    if report.source:
        yield from _source_lines(report.source)


def _source_lines(source: SourceFound) -> Iterator[str]:
    yield f"source read and hashed: {counted(source.files)}, {source.size:,} bytes"
    for label in ("different", "vanished", "unread"):
        names = getattr(source, label)
        for name in names.first:
            yield f"  {label:10} {name}"
        if names.count > len(names.first):
            yield f"  {label:10} and {names.count - len(names.first):,} more"

"""How does a person read a pass?"""

from collections.abc import Iterator, Sequence

from producer.report import Condition, InstrumentReport, RunReport

_COUNTS = (
    ("new", "new"),
    ("changed", "changed"),
    ("settled", "settled"),
    ("waiting", "waiting"),
    ("held_back", "held back"),
    ("left_out", "left out"),
    ("vanished", "vanished"),
    ("reappeared", "reappeared"),
    ("refused", "refused"),
    ("conflicts", "changed after verified"),
    ("superseded", "new editions"),
    ("errors", "unreadable"),
)


def lines(reports: Sequence[InstrumentReport]) -> Iterator[str]:
    """Yield the lines of a pass over some instruments."""
    for report in reports:
        yield f"{report.instrument}: {report.condition}{', ' if report.why else ''}{report.why}"
        for run in report.runs:
            yield from _run(run)
        yield from (f"  {name}: held back, a temporary name" for name in report.temporary)
        yield from (f"  {sentence}" for sentence in report.unusable)
        yield from (f"  cannot be listed: {sentence}" for sentence in report.unreadable)
        if report.outside_runs:
            yield f"  entries beside the run folders, of no run: {report.outside_runs}"
        if report.broker:
            yield f"  {report.broker}"
        elif report.condition is Condition.SCANNED:
            yield f"  messages published: {report.published}; took {report.duration_s:.1f} s"


def _run(run: RunReport) -> Iterator[str]:
    if run.failure:
        yield f"  {run.run}: failed, {run.failure}; the log has more"
        return
    counts = [f"{count} {word}" for name, word in _COUNTS if (count := getattr(run, name))]
    yield f"  {run.run}: {run.state}, {', '.join([f'{run.files} files', *counts])}"
    if run.wants_records:
        yield "    it changed since its records were put away: they are being taken back"
    yield from (f"    held back: {path}" for path in run.temporary)
    yield from (f"    the instrument calls it failed: {path}" for path in run.failed)
    yield from (f"    told apart by case or accents alone: {names}" for names in run.alike)
    yield from (f"    stuck: {sentence}" for sentence in run.stuck)
    yield from (f"    unreadable: {path}" for path in run.unreadable)
    for part in run.done:
        if not part.passes:
            yield f"    not done: {part.name} ({part.holds}): {part.looked_at}"

"""How is the producer started? `python -m producer`: for ever, or one pass with `--once`."""

import argparse
import json
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from types import FrameType

from labferry.broker import CeleryWakeups, make_app
from labferry.clock import SystemClock
from labferry.errors import LedgerUnavailable, SettingsError
from labferry.ledger import open_ledger
from labferry.settings import Settings, load_settings
from labferry.telemetry import configure
from labferry.tracing import start_tracing
from producer.agent import Agent
from producer.dry_run import dry
from producer.report import Condition, InstrumentReport
from producer.shown import lines

#: Exit codes; docs/commands.md has them all.
DONE, FAILED, USAGE, PARTIAL, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 75, 130

#: How long the agents have to end when the program is to end; one on a share that hangs never does.
STOP_S = 2.0
_POLL_S = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the producer; return the exit code."""
    given = _parser().parse_args(arguments)
    # The report of one pass says what happened; the log then adds only what went wrong.
    configure("producer", level=logging.WARNING if given.once else logging.INFO)
    try:
        settings = load_settings(given.config)
        if not given.once:
            settings.logs.apply("producer")
            start_tracing("agent", settings.traces.endpoint_url)
        agents = _agents(settings, given.instrument, dry_run=given.dry_run)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    except LedgerUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return UNAVAILABLE
    stop = _stop_on_signals()
    if not given.once:
        _wait([_start(agent.run_forever, stop) for agent in agents], stop)
        return DONE
    reports = _once(agents, stop)
    _show(reports, as_json=given.json, dry_run=given.dry_run)
    return INTERRUPTED if len(reports) < len(agents) else exit_code(reports)


def _agents(settings: Settings, chosen: Sequence[str], *, dry_run: bool) -> list[Agent]:
    ledger, wakeups = open_ledger(settings.ledger), CeleryWakeups(make_app(settings))
    clock = SystemClock()
    names = _names(settings, chosen)
    return [
        Agent(name, settings, dry(ledger) if dry_run else ledger, wakeups, clock) for name in names
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m producer", description="Look at instrument folders and queue what is there."
    )
    parser.add_argument("--config", type=Path, help="labferry.toml, else LABFERRY_CONFIG")
    parser.add_argument(
        "--instrument", action="append", default=[], metavar="NAME", help="only this one"
    )
    parser.add_argument("--once", action="store_true", help="one pass, then a report")
    parser.add_argument("--dry-run", action="store_true", help="with --once: record nothing")
    parser.add_argument("--json", action="store_true", help="the report of --once as JSON")
    return parser


def _names(settings: Settings, chosen: Sequence[str]) -> list[str]:
    for name in chosen:
        if name not in settings.instruments:
            raise SettingsError(
                field="--instrument",
                why=f"there is no instrument {name!r}",
                step=f"Known: {', '.join(settings.instruments)}.",
            )
    return list(dict.fromkeys(chosen)) or list(settings.instruments)


def _stop_on_signals() -> Flag:
    stop = Flag()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    return stop


def _once(agents: Sequence[Agent], stop: Flag) -> list[InstrumentReport]:
    """Return the agents' reports, in their order; fewer when the program was to end."""
    reports: dict[int, InstrumentReport] = {}

    def make_pass(number: int, agent: Agent) -> None:
        reports[number] = agent.make_pass(stop.is_set)

    threads = [_start(make_pass, number, agent) for number, agent in enumerate(agents)]
    _wait(threads, stop)
    return [reports[number] for number in sorted(reports)]


def _wait(threads: Sequence[Thread], stop: Flag) -> None:
    """Wait until all threads have ended or, once the program is to end, for a moment longer."""
    for thread in threads:
        while thread.is_alive() and not stop.is_set():
            thread.join(_POLL_S)
    clock = SystemClock()
    end_s = clock.mono_s() + STOP_S
    for thread in threads:
        thread.join(max(0.0, end_s - clock.mono_s()))


def _start(job: Callable[..., None], *arguments: object) -> Thread:
    """Run a job in a thread that cannot keep the program from ending: its share may hang."""
    thread = Thread(target=job, args=arguments, daemon=True)
    thread.start()
    return thread


def _show(reports: Sequence[InstrumentReport], *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        shown = [report.to_json() for report in reports]
        facts = {"instruments": shown, "dry_run": dry_run}
        sys.stdout.write(json.dumps(facts, ensure_ascii=False) + "\n")
    else:
        if dry_run:
            sys.stdout.write("Nothing was recorded or published. Without --dry-run:\n")
        sys.stdout.writelines(f"{line}\n" for line in lines(reports))


def exit_code(reports: Sequence[InstrumentReport]) -> int:
    """Return the code that one pass over some instruments ends with."""
    if any(report.condition is Condition.STOPPED for report in reports):
        return INTERRUPTED
    if any(report.condition is Condition.LEDGER_UNAVAILABLE for report in reports):
        return UNAVAILABLE
    if any(report.failed for report in reports):
        return FAILED
    if any(report.broker for report in reports):
        return UNAVAILABLE
    return PARTIAL if any(report.partial for report in reports) else DONE


if __name__ == "__main__":
    sys.exit(main())

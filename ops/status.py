"""What does `labferry status` print, once or again and again?"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from labferry.clock import SystemClock
from labferry.completion import RunState, run_state
from labferry.ledger import open_ledger
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.settings import Settings
from ops.exits import Exit
from ops.overview import Overview, read_overview, rules_of
from ops.pace import Pace, Pacers
from ops.run_view import overview_view, progress_words, states_view, unfinished, watch_view
from ops.shown import terminal
from ops.troubles import Troubles, alerts_view, read_troubles, troubles_view

WATCH_S = 1.0


Shower = Callable[[Overview, list[tuple[RunFacts, Pace]]], None]


def show_status(
    settings: Settings, run: str | None, *, everything: bool, watch: bool, as_json: bool
) -> Exit:
    """Print the status and return the exit code.

    Without `everything`, people are shown the newest only of the runs that are over. With `watch`,
    follow it: until Ctrl-C, or one run until nothing of it moves by itself; then the code says
    whether it is complete.

    Raises: LedgerUnavailable, NotFound, SettingsError.
    """
    ledger = open_ledger(settings.ledger)
    console = terminal()
    read = partial(read_overview, ledger, settings.instruments, run, rules_of(settings))
    if watch and not as_json:
        shown = read if everything else lambda: read().newest()
        return _Watch(ledger, settings, run, console, shown).follow()
    overview = read()
    troubles = _troubles(ledger, settings, overview, run)
    if as_json:
        print(json.dumps(overview.to_json() | troubles.to_json(), ensure_ascii=False))
    else:
        view = overview_view(overview if everything else overview.newest())
        states = _states(overview, run)
        console.print(troubles_view(troubles), view, *states, alerts_view(troubles), sep="")
    return Exit.DONE


class _Watch:
    """`labferry status --watch`."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        run: str | None,
        console: Console,
        read: Callable[[], Overview],
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._run = run
        self._console = console
        self._read = read
        self._clock = SystemClock()
        self._pacers = Pacers()
        self._said: dict[str, str] = {}

    def follow(self) -> Exit:
        """Show it again every second."""
        if not self._console.is_terminal:
            return self._each(self._say_changes)
        with Live(console=self._console, auto_refresh=False) as live:
            return self._each(
                lambda overview, runs: live.update(self._screen(overview, runs), refresh=True)
            )

    def _screen(self, overview: Overview, runs: list[tuple[RunFacts, Pace]]) -> Group:
        """Return what moves first: a screen ends, and alerts may be long."""
        troubles, states = self._troubles(overview), _states(overview, self._run)
        view = _view(overview, runs)
        return Group(troubles_view(troubles), view, *states, alerts_view(troubles))

    def _troubles(self, overview: Overview) -> Troubles:
        return _troubles(self._ledger, self._settings, overview, self._run)

    def _each(self, show: Shower) -> Exit:
        while True:
            overview = self._read()
            show(overview, self._pacers.observe(self._ledger, overview.runs, self._clock.mono_s()))
            if self._run is not None and not any(map(unfinished, overview.runs)):
                whole = all(run_state(facts) is RunState.COMPLETE for facts in overview.runs)
                return Exit.DONE if whole else Exit.PARTIAL
            self._clock.sleep_s(WATCH_S)

    def _say_changes(self, overview: Overview, runs: list[tuple[RunFacts, Pace]]) -> None:
        """Print one line for whatever changed: what a log file or a pipe wants."""
        for breaker in self._troubles(overview).breakers:
            self._say(breaker.name, f"{breaker.name}: {breaker.phase}, {breaker.message}")
        for facts, pace in runs:
            words = f"{facts.run}: {run_state(facts)}, {progress_words(facts, pace)}"
            self._say(str(facts.run), words)

    def _say(self, name: str, line: str) -> None:
        if self._said.get(name) != line:
            self._said[name] = line
            print(line, flush=True)


def _view(overview: Overview, runs: list[tuple[RunFacts, Pace]]) -> RenderableType:
    moving = [(facts, pace) for facts, pace in runs if unfinished(facts)]
    resting = tuple(facts for facts, _ in runs if not unfinished(facts))
    return watch_view(replace(overview, runs=resting), moving)


def _states(overview: Overview, run: str | None) -> list[RenderableType]:
    """Return where the files of the one run are that was asked for."""
    views = [states_view(facts) for facts in overview.runs if run is not None]
    return [*views, Text()] if views else []


def _troubles(ledger: Ledger, settings: Settings, overview: Overview, run: str | None) -> Troubles:
    """Return what stands in the way; of the one run that was asked for, its alerts alone."""
    troubles = read_troubles(ledger, int(settings.breakers.recovery_s * 1000))
    return troubles if run is None else troubles.of([facts.run for facts in overview.runs])

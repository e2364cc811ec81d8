"""Where do all instruments and runs stand now? The ledger's counts, and a named condition."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from labferry.breakers import Conditions
from labferry.completion import OVER, run_state
from labferry.errors import BadName, NotFound, SettingsError
from labferry.identity import RunKey
from labferry.passes import Waiting
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.settings import Settings
from labferry.settings_watching import MonitorSettings
from labferry.states import State
from labferry.throttle import share_of
from labferry.word import Word
from ops.causes import Cause, causes_of
from ops.condition import Around, Condition, condition_of
from ops.standing import Standing, read_standings
from ops.troubles import breakers_before
from ops.watching import Watched

#: Runs shown that are over and need nobody; a facility has thousands.
QUIET_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentStatus:
    """One instrument: `backlog` counts files that are not at rest, `backlog_bytes` their sizes.

    `why` says in words why the condition holds; `waits_s` is how long a file waits for a worker.
    `hold` is set while a person holds the instrument, with all its runs.
    """

    instrument: str
    condition: Condition
    why: str
    backlog: int
    backlog_bytes: int
    waits_s: float
    runs: int
    watched: Watched
    profile: str = ""
    hold: Word | None = None

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry status --json`."""
        return {
            "instrument": self.instrument,
            "condition": self.condition,
            "why": self.why or None,
            "backlog": self.backlog,
            "backlog_bytes": self.backlog_bytes,
            "waits_s": round(self.waits_s, 1),
            "runs": self.runs,
            "profile": self.profile or None,
            "hold": asdict(self.hold) if self.hold else None,
            **self.watched.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """By what is a condition named? `stale_s` is how long an open run of an instrument may rest, by
    which of the `profiles`, `recovery_ms` how long a halved pace takes to double."""

    limits: MonitorSettings = field(default_factory=MonitorSettings)
    stale_s: Mapping[str, float] = field(default_factory=dict)
    profiles: Mapping[str, str] = field(default_factory=dict)
    recovery_ms: int = 30_000

    def seen(self, facts: RunFacts) -> RunFacts:
        """Return a run's facts, with how long it may rest."""
        return replace(facts, stale_s=self.stale_s.get(facts.run.instrument, 0))


def rules_of(settings: Settings) -> Rules:
    """Return the rules that the settings state."""
    return Rules(
        limits=settings.monitor,
        stale_s={name: one.resolved().stale_s for name, one in settings.instruments.items()},
        profiles={name: one.profile for name, one in settings.instruments.items()},
        recovery_ms=int(settings.breakers.recovery_s * 1000),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What `labferry status` shows; `causes` are of the runs that have dead letters, `waiting` says
    why runs are not done, `left_out` counts runs on record that are not among these."""

    instruments: tuple[InstrumentStatus, ...]
    runs: tuple[RunFacts, ...]
    causes: Mapping[RunKey, tuple[Cause, ...]] = field(default_factory=dict)
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    left_out: int = 0

    def newest(self) -> "Overview":
        """Return it without runs that are over, need nobody and are not among the newest such."""
        quiet = [one for one in self.runs if one.is_over and not _needs_somebody(one)]
        quiet.sort(key=lambda one: one.finished_ms)
        old = {one.run for one in quiet[:-QUIET_SHOWN]}
        runs = tuple(one for one in self.runs if one.run not in old)
        return replace(self, runs=runs, left_out=len(old))

    def to_json(self) -> dict[str, object]:
        """Return the object of `labferry status --json`."""
        return {
            "instruments": [status.to_json() for status in self.instruments],
            "runs": [
                run_json(facts, self.causes.get(facts.run, ()), self.waiting.get(str(facts.run)))
                for facts in self.runs
            ],
        }


def read_overview(
    ledger: Ledger,
    instruments: Iterable[str],
    run: str | None,
    rules: Rules | None = None,
) -> Overview:
    """Return all runs, or one. `instruments` are shown although they have no run yet.

    Raises: NotFound, SettingsError.
    """
    if run is not None:
        facts = [find_run(ledger, read_run_key(run))]
        instruments = ()
    else:
        facts = ledger.facts_of(ledger.runs())
    rules = rules or Rules()
    facts = [rules.seen(one) for one in facts]
    conditions, holds = ledger.conditions(), ledger.holds()
    standings = read_standings(ledger, facts, instruments)
    return Overview(
        instruments=tuple(
            _instrument_status(one, conditions, rules, holds.get(one.instrument))
            for one in standings
        ),
        runs=tuple(facts),
        causes=causes_of(ledger, facts),
        waiting={run: waiting for one in standings for run, waiting in one.waiting.items()},
    )


def read_run_key(text: str) -> RunKey:
    """Read what a person typed, or a shell completed to a folder. Raises: SettingsError."""
    try:
        return RunKey.parse(text.removesuffix("/"))
    except BadName as error:
        raise SettingsError(
            field="RUN",
            why=f"{text!r} is not INSTRUMENT/RUN",
            step="`labferry status` lists the runs on record.",
        ) from error


def find_run(ledger: Ledger, run: RunKey) -> RunFacts:
    """Return the facts of one run. Raises: NotFound."""
    facts = ledger.find_facts(run)
    if facts is None:
        raise NotFound(what=f"the run {run}", step="`labferry status` lists the runs on record.")
    return facts


def _needs_somebody(facts: RunFacts) -> bool:
    """Whether a run that is over is held, or has files that are not at their end."""
    ended = facts.counts[State.VERIFIED] + facts.counts[State.SKIPPED]
    at_end = ended + facts.counts[State.DISCARDED]
    return facts.hold is not None or at_end != sum(facts.counts.values())


def _instrument_status(
    standing: Standing, conditions: Conditions, rules: Rules, hold: Word | None
) -> InstrumentStatus:
    condition, why = condition_of(
        standing, around(conditions, standing.instrument, rules.recovery_ms), rules.limits
    )
    return InstrumentStatus(
        instrument=standing.instrument,
        condition=condition,
        why=why,
        backlog=standing.backlog,
        backlog_bytes=standing.backlog_bytes,
        waits_s=standing.waits_s,
        runs=len(standing.runs),
        watched=standing.watched,
        profile=rules.profiles.get(standing.instrument, ""),
        hold=hold,
    )


def around(conditions: Conditions, instrument: str, recovery_ms: int) -> Around:
    """Return what is so around an instrument."""
    shares = [share_of(one, conditions.now_ms, recovery_ms) for one in conditions.paces]
    return Around(
        share=min(shares, default=1.0), holds=bool(breakers_before(conditions, instrument))
    )


def run_json(
    facts: RunFacts, causes: Sequence[Cause] = (), waiting: Waiting | None = None
) -> dict[str, object]:
    """Return a run as `labferry status --json` shows it."""
    state = run_state(facts)
    return {
        "run": str(facts.run),
        "state": state,
        "generation": facts.generation,
        "files": {str(name): count for name, count in facts.counts.items()},
        "bytes": {str(name): size for name, size in facts.sizes.items()},
        "marker": facts.marker if state in OVER else None,
        "causes": [cause.to_json() for cause in causes],
        **({"waits_for": waiting.lacks, "stuck": waiting.stuck} if waiting else {}),
        **({"hold": asdict(facts.hold)} if facts.hold else {}),
        **({"closed": asdict(facts.closed)} if facts.closed else {}),
    }

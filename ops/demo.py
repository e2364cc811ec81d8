"""How is everything labferry does shown in a minute, on this machine, and left without a trace?"""

import signal
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from labferry.clock import SystemClock
from labferry.completion import RunState, run_state
from labferry.environment import adopt_environment, child_environment
from labferry.errors import SettingsError
from labferry.identity import Layout, RunKey, encode_path
from labferry.ledger import open_ledger
from labferry.manifest import read_marker
from labferry.ports import Ledger
from labferry.records import Lane, RunFacts
from labferry.s3.store import open_store
from labferry.settings import Settings, load_settings
from labferry.states import State
from ops.demo_config import (
    BUCKET,
    ENV,
    NOT_INHERITED,
    SOURCE,
    demo_config,
    demo_variables,
    source_config,
    write_credentials,
    write_env,
)
from ops.demo_inject import Trouble
from ops.demo_runs import MICROSCOPE, SEQUENCER, Injection, Writers, demo_runs
from ops.demo_screen import Screen, Shown
from ops.demo_source import check_source
from ops.demo_trouble import left_out, why_stuck
from ops.embedded import Valkey, Weed
from ops.exits import Exit
from ops.flower_access import flower_url
from ops.interrupts import Interrupted, Interrupts
from ops.loopback import free_ports
from ops.pace import Pacers
from ops.processes import Children
from ops.programs import AGENT, SWEEP, flower, lane_worker
from ops.verify import Verification
from ops.verify_report import Verdict

#: How often the runs are looked at.
LOOK_S = 0.25
#: The demo gives up when nothing at all moved for this long.
STUCK_S = 240.0
#: Time for programs to stop; nothing of the demo is worth more.
GRACE_S = 2.0
VERIFY_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What a demo has set up."""

    folder: Path
    settings: Settings
    interrupts: Interrupts
    children: Children
    ledger: Ledger
    runs: tuple[RunKey, ...]
    writers: Writers
    trouble: Trouble | None


def run_demo(*, keep: bool, source: Path | None, injection: Injection | None) -> Exit:
    """Run the demo, kept open where something goes wrong on purpose; return its exit code.

    Raises: Interrupted after everything was put away, SettingsError, Refused, ServiceFailed.
    """
    if source and injection:
        step = "Ferry your own folder without --inject."
        raise SettingsError(field="--inject", why="it is for the demo's own runs", step=step)
    given = check_source(source) if source else None
    clock = SystemClock()
    screen, code = Screen(clock.mono_s()), Exit.FAILED
    try:
        with Interrupts() as interrupts, ExitStack() as put_away, interrupts.allowed():
            stage = _set_up(put_away, interrupts, screen, clock, given, injection)
            screen.watching(stage.runs, being_written=given is None)
            if _ferried(stage, screen, clock):
                code = _proven(stage, screen, clock)
            if keep or injection:
                _keep_open(stage, screen, clock)
            else:
                screen.not_kept(flower_url(stage.settings.flower))
    except Interrupted:
        screen.put_away("Interrupted.", clock.mono_s())
        raise
    screen.put_away("Done." if code is Exit.DONE else "Not done.", clock.mono_s())
    return code


def _set_up(
    put_away: ExitStack,
    interrupts: Interrupts,
    screen: Screen,
    clock: SystemClock,
    source: Path | None,
    injection: Injection | None,
) -> _Stage:
    with interrupts.postponed():
        temporary = tempfile.TemporaryDirectory(prefix="labferry-demo-")
        put_away.callback(temporary.cleanup)
    folder = Path(temporary.name)
    screen.begins(folder)
    weed, valkey = Weed(BUCKET, folder / "s3"), Valkey(folder / "valkey")
    weed.guard = valkey.guard = interrupts.postponed
    put_away.callback(weed.stop, 0)
    weed.start()
    interrupts.check()
    screen.started("S3 server", f"{weed.endpoint}, bucket {BUCKET}")
    put_away.callback(valkey.stop, 0)
    valkey.start()
    interrupts.check()
    screen.started("Valkey", valkey.url())
    settings = _settle_in(folder, valkey, weed, source)
    writers = Writers()
    put_away.callback(writers.stop)
    if source is None:
        runs = _begin_to_write(folder, writers, injection)
    else:
        runs = (_key(SOURCE, source.name),)
    children = _start_programs(folder, settings, interrupts, put_away, clock)
    screen.started("Flower", flower_url(settings.flower))
    screen.started("programs", "agent, a worker for small and one for large files, sweep")
    return _Stage(
        folder=folder,
        settings=settings,
        interrupts=interrupts,
        children=children,
        ledger=open_ledger(settings.ledger),
        runs=runs,
        writers=writers,
        trouble=Trouble(injection, weed, folder) if injection else None,
    )


def _settle_in(folder: Path, valkey: Valkey, weed: Weed, source: Path | None) -> Settings:
    """Write the demo's settings and make this process forget the user's own."""
    (port,) = free_ports(1)
    temporary = folder / "tmp"
    temporary.mkdir()
    config = folder / "labferry.toml"
    if source is None:
        config.write_text(demo_config(valkey, weed, port, folder), "utf-8")
    else:
        config.write_text(source_config(valkey, weed, port, source), "utf-8")
    credentials = write_credentials(weed, folder)
    write_env(config, credentials, folder)
    variables = demo_variables(credentials, temporary)
    adopt_environment(child_environment(config, variables, without=NOT_INHERITED))
    tempfile.tempdir = None  # forget the one of before: what is left in this one goes with it
    return load_settings()


def _begin_to_write(
    folder: Path, writers: Writers, injection: Injection | None
) -> tuple[RunKey, ...]:
    for instrument in (SEQUENCER, MICROSCOPE):
        (folder / instrument).mkdir()
    for run in demo_runs(injection):
        writers.start(folder / run.instrument, run)
    return tuple(_key(run.instrument, run.name) for run in demo_runs())


def _start_programs(
    folder: Path,
    settings: Settings,
    interrupts: Interrupts,
    put_away: ExitStack,
    clock: SystemClock,
) -> Children:
    logs = folder / "logs"
    logs.mkdir()
    children = Children(
        child_environment(None), interrupts, clock, logs, orphan_signal=signal.SIGKILL
    )
    put_away.callback(children.stop, GRACE_S)
    for lane in Lane:
        children.start(lane_worker(settings.worker, lane, list(settings.instruments)))
    for program in (AGENT, SWEEP, flower()):
        children.start(program)
    return children


def _key(instrument: str, name: str) -> RunKey:
    return RunKey(instrument, encode_path(name.encode("utf-8", "surrogateescape")))


def _ferried(stage: _Stage, screen: Screen, clock: SystemClock) -> bool:
    """Watch until all runs are complete; False when nothing moves any more, with the reasons."""
    pacers, last, moved_s = Pacers(), None, clock.mono_s()
    with screen.live():
        while True:
            found = [stage.ledger.find_facts(run) for run in stage.runs]
            now_s = clock.mono_s()
            paces = pacers.observe(stage.ledger, [one for one in found if one], now_s)
            screen.progress(stage.runs, paces)
            verified = any(facts and facts.counts[State.VERIFIED] for facts in found)
            if verified:
                stage.writers.go_on()
            if all(facts and run_state(facts) is RunState.COMPLETE for facts in found):
                return True
            if (seen := [_moving_parts(facts) for facts in found]) != last:
                last, moved_s = seen, now_s
            elif stage.trouble is None and now_s - moved_s > STUCK_S:
                break
            if stage.trouble:
                _play(stage.trouble, stage.folder, screen, verified=verified)
            stage.children.tend()
            clock.sleep_s(LOOK_S)
    screen.stuck(why_stuck(stage.ledger, stage.runs, stage.children, stage.folder / "logs"))
    return False


def _play(trouble: Trouble, folder: Path, screen: Screen, *, verified: bool) -> None:
    """Let something go wrong, or be mended, where that is due."""
    if said := trouble.tend(verified=verified):
        screen.trouble(said, trouble.runbook, trouble.file, folder / ENV)


def _moving_parts(facts: RunFacts | None) -> object:
    return facts and (facts.counts, facts.sizes, facts.sealed_ms, facts.completed)


def _proven(stage: _Stage, screen: Screen, clock: SystemClock) -> Exit:
    """Read each run back from the bucket alone, and say what is there."""
    settings = stage.settings.store
    store, layout = open_store(settings), Layout(settings.prefix)
    code = Exit.DONE
    for run in stage.runs:
        stage.children.tend()
        report = Verification(
            store=store, layout=layout, run=run, clock=clock, budget_s=VERIFY_S
        ).report()
        marker_key = layout.marker(run, max(report.generations, default=1))
        marker = read_marker(b"".join(store.read(marker_key)))
        shown = Shown(run=run, bucket=settings.bucket, marker_key=marker_key, marker=marker)
        screen.result(shown, report.why, left_out(stage.ledger, run))
        if report.verdict is not Verdict.COMPLETE:
            code = Exit.FAILED
    return code


def _keep_open(stage: _Stage, screen: Screen, clock: SystemClock) -> None:
    try:
        screen.kept(flower_url(stage.settings.flower), stage.folder / ENV)
        while True:
            stage.children.tend()
            clock.sleep_s(LOOK_S)
    except Interrupted:
        stage.interrupts.answered()

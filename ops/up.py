"""How does everything run on one machine, for a real bucket, with one command?"""

import fcntl
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from labferry.clock import SystemClock
from labferry.environment import adopt_environment, child_environment
from labferry.errors import Refused, SettingsError
from labferry.records import Lane
from labferry.settings import LedgerSettings, Settings, load_settings
from labferry.telemetry import emit
from ops.doctor import examine, exit_of, print_findings
from ops.doctor.finding import Verdict
from ops.embedded import Valkey
from ops.exits import Exit
from ops.flower_access import check_apart, check_flower, check_monitor, flower_url, monitor_url
from ops.interrupts import Interrupted, Interrupts
from ops.loopback import HOST
from ops.processes import Children, Program
from ops.programs import AGENT, MONITOR, flower
from ops.ready import check_bucket, check_ledger
from ops.shown import terminal
from ops.worker import TEND_S, worker_programs

#: Valkey writes what it holds before it ends.
VALKEY_GRACE_S = 15.0


def run_up(settings: Settings, config: Path | None, data: Path) -> None:
    """Keep everything running until somebody asks to stop; SIGTERM is an orderly end.

    Raises: Interrupted on Ctrl-C; SettingsError, Refused, LedgerUnavailable, StoreError.
    """
    data = data.resolve()
    check_bucket(settings.store)
    programs = [AGENT, *worker_programs(settings, list(Lane), None, sweep=True), flower(), MONITOR]
    try:
        with Interrupts() as interrupts, ExitStack() as put_away, interrupts.allowed():
            embeds = not (_named(settings.ledger) and _named(settings.broker))
            if embeds:  # before ports are tried: a second `up` is told that it is one
                _lock(data, put_away)
            check_flower(settings.flower)
            check_monitor(settings.monitor)
            check_apart(settings.flower, settings.monitor)
            valkey = _start_valkey(data, interrupts, put_away) if embeds else None
            adopt_environment(
                child_environment(config, _urls(settings, valkey), without=("FLOWER_",))
            )
            settings = load_settings(config)
            check_ledger(settings.ledger)
            _examine(settings)
            _say_where(settings, valkey)
            _run(programs, interrupts, put_away, valkey)
    except Interrupted as interrupted:
        if not interrupted.asked_politely:
            raise


def _start_valkey(data: Path, interrupts: Interrupts, put_away: ExitStack) -> Valkey:
    """Start the embedded ledger and broker."""
    valkey = Valkey(data / "valkey")
    valkey.guard = interrupts.postponed
    default = urlsplit(LedgerSettings().url).port
    if default and _is_free(default):
        valkey.port = default  # where every other command looks when nothing else is set
    put_away.callback(valkey.stop, VALKEY_GRACE_S)
    return valkey.start()


def _examine(settings: Settings) -> None:
    """Say what is not as it should be. Raises: Refused when labferry could not work like that."""
    found = (one for one in examine(settings) if one.verdict is not Verdict.GOOD)
    findings = print_findings(terminal(), found)
    if exit_of(findings) is not Exit.DONE:
        raise Refused(
            what="labferry up",
            why="of the above, what is bad or unknown would stop files or break a promise",
            step="Mend it; `labferry doctor` looks again.",
        )


def _named(section: object) -> bool:
    return "url" in getattr(section, "model_fields_set", ())


def _urls(settings: Settings, valkey: Valkey | None) -> dict[str, str]:
    if valkey is None:
        return {}
    urls = {} if _named(settings.ledger) else {"LABFERRY_LEDGER__URL": valkey.url(1)}
    return urls if _named(settings.broker) else {**urls, "LABFERRY_BROKER__URL": valkey.url(0)}


def _lock(data: Path, put_away: ExitStack) -> None:
    """Take the folder for this process alone. Raises: Refused, SettingsError."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = put_away.enter_context((data / "lock").open("a+"))
    except OSError as error:
        raise SettingsError(
            field="--data",
            why=f"{data} cannot be written ({error.strerror})",
            step="Give another folder.",
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refused(
            what=f"labferry up --data {data}",
            why="another `labferry up` runs with this folder",
            step="Stop that one first, or give another --data folder.",
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _say_where(settings: Settings, valkey: Valkey | None) -> None:
    store = settings.store
    prefix = f"{store.prefix}/" if store.prefix else ""
    at = f" at {store.endpoint_url}" if store.endpoint_url else ""
    print(f"bucket      s3://{store.bucket}/{prefix}{at}")
    for name, instrument in settings.instruments.items():
        print(f"instrument  {name}: {instrument.root}")
    if valkey is not None:
        print(f"Valkey      {valkey.url()}, kept in {valkey.directory}")
    print(f"Flower      {flower_url(settings.flower)}")
    print(f"Status      {monitor_url(settings.monitor)}")
    look = "labferry status --watch"
    if settings.ledger.url != LedgerSettings().url and valkey is not None:
        look = f"LABFERRY_LEDGER__URL={settings.ledger.url} {look}"
    print(f"Look with   {look}\nCtrl-C stops everything in good order.", flush=True)


def _run(
    programs: Sequence[Program],
    interrupts: Interrupts,
    put_away: ExitStack,
    valkey: Valkey | None,
) -> None:
    clock = SystemClock()
    children = Children(child_environment(None), interrupts, clock)
    put_away.callback(children.stop)
    for program in programs:
        children.start(program)
    while True:
        clock.sleep_s(TEND_S)
        children.tend()
        if valkey is not None and not valkey.running:
            emit("valkey.ended", log=str(valkey.log))
            valkey.start()

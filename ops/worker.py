"""What does one worker host run, for which instruments, and how does it stop?"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from labferry.clock import SystemClock
from labferry.errors import SettingsError
from labferry.records import Lane
from labferry.settings import Settings
from labferry.telemetry import emit
from ops.interrupts import Interrupted, Interrupts
from ops.processes import Children, Program
from ops.programs import SWEEP, lane_worker

TEND_S = 0.5


def worker_programs(
    settings: Settings, lanes: Sequence[Lane], processes: int | None, *, sweep: bool
) -> list[Program]:
    """Return the programs of a worker host. Raises: SettingsError when it can see no share."""
    instruments = visible_instruments(settings)
    programs = [lane_worker(settings.worker, lane, instruments, processes) for lane in lanes]
    return [*programs, SWEEP] if sweep else programs


def visible_instruments(settings: Settings) -> list[str]:
    """Return the instruments whose root can be listed here; the others are logged and left out.

    Raises: SettingsError when there is none.
    """
    visible = []
    for name, instrument in settings.instruments.items():
        if why := _why_not_visible(instrument.root):
            emit("instrument.left_out", instrument=name, root=str(instrument.root), why=why)
        else:
            visible.append(name)
    if not visible:
        name, instrument = next(iter(settings.instruments.items()))
        raise SettingsError(
            field=f"instruments.{name}.root",
            why=f"{instrument.root}: {_why_not_visible(instrument.root)}, and no other root is "
            "there either",
            step=f"Mount the share, or set LABFERRY_INSTRUMENTS__{name.upper()}__ROOT to where "
            "it is on this host.",
        )
    return visible


def _why_not_visible(root: Path) -> str:
    try:
        with os.scandir(root):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def serve(programs: Sequence[Program], environment: Mapping[str, str]) -> None:
    """Keep programs running until somebody asks to stop.

    SIGTERM is an orderly end and returns. Raises: Interrupted on Ctrl-C.
    """
    clock = SystemClock()
    try:
        with Interrupts() as interrupts:
            children = Children(environment, interrupts, clock)
            try:
                with interrupts.allowed():
                    for program in programs:
                        children.start(program)
                    while True:
                        clock.sleep_s(TEND_S)
                        children.tend()
            finally:
                children.stop()
    except Interrupted as interrupted:
        if not interrupted.asked_politely:
            raise

"""How is each program of labferry started: which module, which options, how long to stop?

Programs never import one another; this module knows them by name alone.
"""

import os
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from labferry.environment import child_environment
from labferry.messages import CONTROL_QUEUE, upload_queue
from labferry.records import Lane
from labferry.settings import WorkerSettings, load_settings
from ops.processes import Program
from ops.ready import check_format

_CELERY = ("celery", "-q", "-A", "workers.app")
#: What a worker needs beyond its soft shutdown, to park what it holds. Source: Celery research.
STOP_MARGIN_S = 15.0

AGENT = Program(name="agent", arguments=("producer",))
MONITOR = Program(name="monitor", arguments=("ops.monitor",))
SWEEP = Program(name="sweep", arguments=("workers.sweep",))


def lane_worker(
    worker: WorkerSettings, lane: Lane, instruments: Sequence[str], processes: int | None = None
) -> Program:
    """Return the Celery worker of one lane for these instruments."""
    default = worker.small_processes if lane is Lane.SMALL else worker.large_processes
    queues = [upload_queue(instrument, lane) for instrument in instruments]
    if lane is Lane.SMALL:
        queues.append(CONTROL_QUEUE)  # completion must not wait behind an upload of hours
    return Program(
        name=f"worker-{lane}",
        arguments=(
            *_CELERY,
            "worker",
            f"--hostname={lane}-{os.getpid()}@%h",
            f"--queues={','.join(queues)}",
            "--pool=prefork",
            f"--concurrency={processes or default}",
            "--optimization=fair",
            "--disable-prefetch",
            "--task-events",
            "--without-gossip",
            "--without-mingle",
            "--loglevel=WARNING",
        ),
        grace_s=worker.soft_shutdown_s + STOP_MARGIN_S,
        environment={"REMAP_SIGTERM": "SIGQUIT"},  # SIGTERM is then the soft shutdown
    )


def flower() -> Program:
    """Return Flower; ops/flower_conf.py gives it its options, so that no password is in `ps`."""
    configuration = files("ops").joinpath("flower_conf.py")
    return Program(name="flower", arguments=(*_CELERY, "flower", f"--conf={configuration}"))


def become(config: Path | None, module: str, *options: str) -> None:
    """Replace this process by another program of labferry, after its settings were checked.

    Raises: Refused on a ledger of another version.
    """
    check_format(load_settings(config).ledger)
    command = [sys.executable, "-P", "-m", module, *options]
    sys.stdout.flush()
    os.execve(sys.executable, command, child_environment(config))  # noqa: S606  no shell is wanted

"""What does Celery run? `celery -A workers.app worker`: the app and its tasks."""

import gc
import os
from functools import cache
from typing import Any, NoReturn

from celery.signals import (
    setup_logging,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)

from labferry import messages
from labferry.broker import CeleryWakeups, make_app
from labferry.errors import MalformedMessage
from labferry.identity import RunKey
from labferry.settings import load_settings
from labferry.telemetry import emit
from labferry.tracing import start_tracing
from workers.process import WorkerProcess
from workers.shares import watch_shares
from workers.shown import FileQuarantined, shown

settings = load_settings()
app = make_app(settings)


#: So many new objects are looked through for garbage that refers to itself.
_GARBAGE_EVERY = 10_000


@setup_logging.connect
def _logs(**_options: object) -> None:
    settings.logs.apply("worker")


@worker_process_init.connect
def _keep_programs(**_options: object) -> None:
    # What was imported stays, and a file's objects die without cycles: to look through both for
    # garbage took a quarter of what a run's completion does.
    gc.freeze()
    gc.set_threshold(_GARBAGE_EVERY)


@worker_process_init.connect
def _trace(**_options: object) -> None:
    tell_last = start_tracing("worker", settings.traces.endpoint_url)

    def close(**_options: object) -> None:
        tell_last()

    worker_process_shutdown.connect(close, weak=False)


@worker_ready.connect
def _watch(sender: Any, **_options: object) -> None:
    watch = watch_shares(sender, settings)

    def close(**_options: object) -> None:
        watch.close()

    worker_shutting_down.connect(close, weak=False)


@cache
def _process(_pid: int) -> WorkerProcess:
    process = WorkerProcess(settings, CeleryWakeups(app))

    def close(**_options: object) -> None:
        process.close()

    worker_process_shutdown.connect(close, weak=False)
    return process


# What `throws` names is no fault of the program: Celery logs it without a traceback.
@app.task(name=messages.UPLOAD, bind=True, throws=(FileQuarantined,))
def upload(self: Any, payload: object = None) -> str:
    """Upload one bundle of files."""
    process = _process(os.getpid())
    try:
        message = messages.UploadMessage.from_payload(payload)
    except MalformedMessage as error:
        _bury(process, self.name, payload, error)
    return shown(process.upload(message))


@app.task(name=messages.COMPLETE, bind=True)
def complete(self: Any, payload: object = None) -> str:
    """Complete one run."""
    process = _process(os.getpid())
    run = _run(process, self.name, payload)
    return "complete" if process.complete(run) else "not ready"


@app.task(name=messages.REASONS, bind=True)
def reasons(self: Any, payload: object = None) -> str:
    """Tell the bucket of one run's dead letters."""
    process = _process(os.getpid())
    return f"{process.write_reasons(_run(process, self.name, payload))} written"


@app.task(name=messages.PUT_AWAY, bind=True)
def put_away(self: Any, payload: object = None) -> str:
    """Put one complete run's records away."""
    process = _process(os.getpid())
    run = _run(process, self.name, payload)
    return "put away" if process.put_away(run) else "not yet"


@app.task(name=messages.TAKE_BACK, bind=True)
def take_back(self: Any, payload: object = None) -> str:
    """Take one run's records back."""
    process = _process(os.getpid())
    run = _run(process, self.name, payload)
    return "taken back" if process.take_back(run) else "not yet"


def _run(process: WorkerProcess, task: str, payload: object) -> RunKey:
    try:
        return messages.read_run(task, payload)
    except MalformedMessage as error:
        _bury(process, task, payload, error)


def _bury(process: WorkerProcess, task: str, payload: object, error: Exception) -> NoReturn:
    process.ledger.bury(messages.buried(task, payload, str(error)))
    emit("message.buried", task=task, why=str(error))
    raise error

"""How long does a Celery worker that is told to stop wait for its tasks? Until they have ended.

Celery sleeps the whole time that short uploads have: its main process, which hears of results, is
in a signal's handler then. And it waits for ever where a process never tells how its task ended:
one that is stopped, or whose task was being handed over when the signal came.
"""

import signal
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any

from celery.apps.worker import Worker as CeleryWorker
from celery.worker import state

#: What is left of a stop after the tasks' time. A supervisor kills sooner; it may be gone.
_REST_S = 20


class Worker(CeleryWorker):
    """Celery's own, but for that."""

    app: Any
    pool: Any

    def wait_for_soft_shutdown(self) -> None:  # type: ignore[override]  # the stubs are wrong
        """Wait until the processes that are at work have something to tell: how it ended.

        That they began was heard already, or their tasks would not be among the active ones.
        """
        timeout_s = self.app.conf.worker_soft_shutdown_timeout
        signal.setitimer(signal.ITIMER_REAL, timeout_s + _REST_S)  # SIGALRM: the kernel ends it
        until_s = monotonic() + timeout_s
        busy = {request.worker_pid for request in state.active_requests}
        with DefaultSelector() as results:
            for process in self.pool._pool._pool:
                if process.pid in busy:
                    results.register(process.outqR_fd, EVENT_READ)
            while results.get_map() and (left_s := until_s - monotonic()) > 0:
                for ended, _ in results.select(left_s):
                    results.unregister(ended.fileobj)

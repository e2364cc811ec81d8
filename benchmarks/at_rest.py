"""How does a run come to its end without an upload, and what does an agent's look at it take?

The first scan is `labferry scan`; then the ledger alone moves the files to verified and records the
marker. Whoever looks again is a new agent, which looks at everything: one that goes on would let
the run rest.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.job import Job
from benchmarks.ledgered import PROOF, RUN, Ledgered
from benchmarks.processes import Cost, run_to_end
from benchmarks.programs import COMMAND, environment_of, write_settings
from labferry.broker import CeleryWakeups, make_app
from labferry.clock import SystemClock
from labferry.identity import Layout
from labferry.ledger import open_ledger
from labferry.records import Completion
from labferry.settings import load_settings
from labferry.states import Event, State
from ops.embedded import Valkey
from producer.agent import Agent

LAYOUT = Layout("bench")


class AtRest:
    """The run of a job, and a ledger of its own."""

    def __init__(self, job: Job, config: Path, valkey: Valkey) -> None:
        self.settings = load_settings(config)
        self.ledger = open_ledger(self.settings.ledger)
        self.run = Ledgered(valkey, self.ledger)
        self._job, self.config = job, config
        self._count = len(job.point.sizes)
        self._wakeups, self._clock = CeleryWakeups(make_app(self.settings)), SystemClock()

    def command(self, *words: str) -> Cost:
        """Run a command of labferry's to its end."""
        environment = environment_of(self.config, self._job.endpoint)
        return run_to_end([COMMAND, *words], environment, self._job.scratch / "command.log")

    def scan(self) -> None:
        """Look at everything once; nothing may come of it. Raises: RuntimeError."""
        agent = Agent(RUN.instrument, self.settings, self.ledger, self._wakeups, self._clock)
        report = agent.make_pass(lambda: False)
        facts = self.ledger.find_facts(RUN)
        if (
            report.published
            or facts is None
            or report.runs[0].files != self._count
            or facts.counts[State.VERIFIED] != self._count
        ):
            raise RuntimeError(f"the scan did not find all as it was: {report}")

    def claim(self) -> None:
        """Take the leases on all files that a scan has settled."""
        facts = self.ledger.find_facts(RUN)
        assert facts is not None
        self.run.numbers = list(range(1, facts.sent + 1))
        self.run.take()
        self.run.claim(self.run.numbers)

    def finish(self) -> None:
        """Bring every file to verified, and the run to its marker."""
        self.claim()
        self.run.end(Event.VERIFY, evidence=PROOF)
        self.ledger.complete(
            RUN,
            Completion(
                generation=1,
                file_count=self._count,
                manifest_key=LAYOUT.manifest(RUN, 1),
                manifest_digest="",
                marker_key=LAYOUT.marker(RUN, 1),
                event="{}",
            ),
        )


@contextmanager
def at_rest(job: Job) -> Iterator[AtRest]:
    """Set up a ledger and an instrument with the files of the job as its one run."""
    root, before = job.scratch / "root", dict(os.environ)
    root.mkdir()
    job.folder.rename(root / RUN.run)
    os.environ.update(job.endpoint.environment)
    try:
        with Valkey(job.scratch / "valkey") as valkey:
            instrument = {"root": str(root), "settle_window_s": 0, "quiet_s": 0}
            config = job.scratch / "labferry.toml"
            write_settings(
                config, job.endpoint, valkey, {RUN.instrument: instrument}, LAYOUT.prefix
            )
            yield AtRest(job, config, valkey)
    finally:
        os.environ.clear()
        os.environ.update(before)
        (root / RUN.run).rename(job.folder)


def timed(step: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that something took, and those of this process's CPU."""
    before_s, began_s = time.process_time(), time.monotonic()
    step()
    return time.monotonic() - began_s, time.process_time() - before_s

"""What does labferry take for a run, with everything it does included?

Its programs are up and idle before the clock starts, as in production: agent, worker with sweep,
Valkey with its append-only file. They have ferried one small run, so that the endpoint is proven
and every worker process is warm. Then the run folder appears under the instrument's root by a
rename; the clock stops when the completion marker can be read from the bucket. Settle window and
quiet time are 0 and the root is scanned often, because they wait on purpose; all else is default.
Once the run is sealed the agent is paused, between two passes, since it says so when it has
published: with its usual 15 s between scans it would not go on looking at the same files ten times
a second.
"""

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.loads import MIB, make_files
from benchmarks.processes import Cost, Meter
from benchmarks.programs import programs, write_settings
from benchmarks.servers import Endpoint
from labferry.identity import Layout, RunKey
from ops.embedded import Valkey

DIGESTS = "CRC64NVME, sent and proven at the server"
INSTRUMENT = "bench"
WARM_SIZES = (*(4096,) * 200, *(33 * MIB,) * 4)
POLL_S = 0.025
RUN_TIMEOUT_S = 900
IDLE_S = 1.0

WAITS_FOR_NOTHING = {"quiet_s": 0, "settle_window_s": 0, "scan_interval_s": 0.1}


def ferry(
    folder: Path, to: Endpoint, prefix: str, scratch: Path, environment: Mapping[str, str]
) -> Cost:
    """Ferry a folder as one run and return the cost; the folder is back where it was.

    `environment` are settings beside the default.
    """
    root = scratch / "root"
    make_files(root / "warm", WARM_SIZES)
    layout, client = Layout(prefix), to.client()
    with Valkey(scratch / "valkey") as valkey:
        instrument = {"root": str(root), **WAITS_FOR_NOTHING}
        settings = write_settings(
            scratch / "labferry.toml", to, valkey, {INSTRUMENT: instrument}, prefix
        )
        with programs(settings, to, scratch, environment) as (worker, agent):
            _await_marker(client, to, layout, "warm")
            time.sleep(IDLE_S)
            folder.rename(root / "run")
            try:
                meter = Meter({"worker": worker.pid, "agent": agent.pid, "ledger": valkey.pid})
                _await_line(scratch / "agent.log", '"run.sealed", "run": "bench/run"')
                agent.send_signal(signal.SIGSTOP)
                _await_marker(client, to, layout, "run")
                return meter.stop()
            finally:
                agent.send_signal(signal.SIGCONT)
                (root / "run").rename(folder)


def _await_line(log: Path, part: str) -> None:
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while part not in log.read_text():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{log.name} says nothing of {part} within {RUN_TIMEOUT_S} s")
        time.sleep(POLL_S)


def _await_marker(client: Any, to: Endpoint, layout: Layout, run: str) -> None:
    key = layout.marker(RunKey(INSTRUMENT, run), 1)
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while True:
        try:
            client.head_object(Bucket=to.bucket, Key=key)
        except ClientError:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no marker {key} within {RUN_TIMEOUT_S} s") from None
            time.sleep(POLL_S)
        else:
            return

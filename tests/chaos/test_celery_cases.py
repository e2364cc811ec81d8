"""The cases of research on Celery that ask for processes of their own (docs/proof.md).

Cases 3, 5, 6, 10 and 13; the others are named in docs/proof.md.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.identity import RunKey
from labferry.messages import upload_queue
from labferry.records import Lane, Step
from labferry.settings import StoreSettings
from labferry.states import Event, State
from ops.embedded import Valkey
from ops.loopback import HOST
from tests.dock import fingerprint
from tests.fault_proxy import FaultProxy
from tests.faults import Hold, Kill, rule
from tests.quay import PUT, behind
from tests.site import Changes, Site, open_site
from tests.waiting import eventually

RUN = RunKey("scope", "movie 1")
FLOOD = 600
KILLS = 3
SILENCED = 60
POISON = "poison.raw"


def write_run(folder: Path, count: int) -> Path:
    run = folder / "share" / RUN.run
    run.mkdir(parents=True)
    for number in range(count):
        (run / f"{number}.raw").write_bytes(f"{number}".encode() * 100)
    return run


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with all that it started, as when its host dies."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_flood_goes_through_workers_that_are_killed_again_and_again(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    ledger_url: str,
    broker_url: str,
) -> None:
    """Case 3: Celery loses messages by this; the ledger misses none. Case 5: a stop that is cut
    short is such a kill."""
    write_run(tmp_path, FLOOD)
    changes = {"broker": {"bundle_max_files": 4}, "worker": {"small_threads": 2}}
    store = store_settings.model_copy(update={"endpoint_url": fault_proxy.url})
    hold = Hold()
    fault_proxy.script(rule(hold, on=PUT, key="*/raw/*"))
    with open_site(tmp_path, valkey, store, {"scope": tmp_path / "share"}, changes) as site:
        site.start("sweep")
        site.start("agent")
        for number in range(KILLS):
            before = site.verified(RUN)
            hold.after = hold.came + 40
            worker = site.start("worker", "--lane", "small", "--no-sweep")
            site.until(lambda n=before: site.verified(RUN) > n + 20, "files verified")  # type: ignore[misc]
            if number % 2:
                worker.send_signal(signal.SIGTERM)
            kill(worker)
        hold.open()
        site.start("worker")
        site.until(site.outlives, "the run complete")
        records = dict(site.ledger.records(RUN))
        assert {one.state for one in records.values()} == {State.VERIFIED}
        assert sum(one.attempt for one in records.values()) == 0
        assert len(site.objects(site.layout.raw_prefix(RUN))) == FLOOD
        assert site.ledger.markers(RUN) == {1}


def test_a_file_that_kills_whoever_takes_it_is_a_dead_letter_and_its_neighbours_are_not(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    ledger_url: str,
    broker_url: str,
) -> None:
    """Case 6."""
    run = write_run(tmp_path, 20)
    (run / POISON).write_bytes(b"poison")
    changes: Changes = {
        "retry": {"worker_losses": 3, "base_s": 0.1, "cap_s": 0.1, "floor_s": 0.05},
        "broker": {"bundle_max_files": 1},
    }
    settings = behind(fault_proxy, store_settings)
    with open_site(tmp_path, valkey, settings, {"scope": tmp_path / "share"}, changes) as site:
        fault_proxy.script(rule(Kill(applied=False), on=PUT, key=f"*/{POISON}"))
        site.start("worker")
        site.start("agent")
        file = RUN.file(POISON)

        def is_dead() -> bool:
            site.lapse()
            found = site.ledger.find_record(file)
            return found is not None and found.state is State.QUARANTINED

        site.until(is_dead, "the poison a dead letter")
        kills = len(fault_proxy.asked(fault="Kill"))
        fault_proxy.script()
        site.until(lambda: site.verified(RUN) == 20, "its neighbours verified")
        assert kills == 3
        events = [note.event for note in site.ledger.history(file)]
        assert events == [Event.EXPIRE, Event.EXPIRE, Event.EXHAUST]
        assert site.ledger.markers(RUN) == set()


class Hole:
    """Passes bytes to a server, until `open` lets all connections of that moment go silent: they
    stay open, and nothing comes through any more, as behind a firewall that forgot them."""

    def __init__(self, port: int) -> None:
        self._server = (HOST, port)
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._silent: list[threading.Event] = []
        self._now = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: int) -> str:
        return f"redis://{HOST}:{self.port}/{database}"

    def open(self) -> None:
        silent, self._now = self._now, threading.Event()
        silent.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                threading.Thread(
                    target=self._pass, args=(client, server, self._now), daemon=True
                ).start()

    def _pass(self, client: socket.socket, server: socket.socket, silent: threading.Event) -> None:
        other = {client: server, server: client}
        with contextlib.suppress(OSError), client, server:
            while True:
                ready, _, _ = select.select([client, server], [], [], 0.1)
                if silent.is_set():
                    silent = threading.Event()
                    other = {}
                for one in ready:
                    data = one.recv(65536)
                    if not data:
                        return
                    if one in other:
                        other[one].sendall(data)


def test_connections_that_go_silent_are_given_up_and_work_resumes(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    ledger_url: str,
    broker_url: str,
) -> None:
    """Case 10: of worker, agent and sweep, to broker and ledger alike."""
    write_run(tmp_path, SILENCED)
    hole = Hole(valkey.port)
    store = store_settings.model_copy(update={"endpoint_url": fault_proxy.url})
    hold = Hold(after=SILENCED / 2)
    fault_proxy.script(rule(hold, on=PUT, key="*/raw/*"))
    changes: Changes = {
        "ledger": {"url": hole.url(1) + "?socket_timeout=3"},
        "broker": {"url": hole.url(0), "bundle_max_files": 1},
        "worker": {"small_threads": 1},
    }
    with open_site(tmp_path, valkey, store, {"scope": tmp_path / "share"}, changes) as site:
        site.start("worker", "--lane", "small")
        site.start("agent")
        site.until(lambda: site.verified(RUN) >= 10, "the run flows")
        hole.open()
        hold.open()
        site.until(lambda: site.verified(RUN) == SILENCED, "the run flows again")
        site.start("worker", "--lane", "large")
        site.until(site.complete, "the run complete")
        assert all(process.poll() is None for process in site.processes)
    hole.close()


@pytest.fixture
def sweeps(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Site]:
    write_run(tmp_path, 4)
    once = {"ledger": {"resend_s": 3600}}  # what is queued twice was not queued by the resend
    with open_site(tmp_path, valkey, store_settings, {"scope": tmp_path / "share"}, once) as site:
        yield site


def test_whichever_of_two_sweeps_is_killed_the_other_goes_on_and_queues_once(sweeps: Site) -> None:
    """Case 13."""
    pair = [sweeps.start("sweep"), sweeps.start("sweep")]
    queue = upload_queue("scope", Lane.SMALL)
    for number in range(4):
        name = f"{number}.raw"
        seen = fingerprint(sweeps.roots["scope"] / RUN.run / name)
        sweeps.ledger.discover(RUN, [(name, seen)])
        step = Step(path=name, fingerprint=seen, lane=Lane.SMALL)
        sweeps.ledger.move(RUN, Event.SETTLE, [step])
        eventually(lambda n=number: sweeps.broker.llen(queue) > n)  # type: ignore[misc]
        assert sweeps.broker.llen(queue) == number + 1
        if number % 2 == 0:
            kill(pair.pop(0))
            pair.append(sweeps.start("sweep"))

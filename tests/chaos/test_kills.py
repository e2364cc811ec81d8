"""Does a worker killed before or after any of its S3 calls, or of its writes on the ledger, leave
nothing half done?

Test 1 of research (docs/proof.md), by SIGKILL, of one real process or of all at once. With
more kinds of endpoint, and at what only reads the ledger: tests/chaos/test_kill_at_every_call.py.
What a process writes of itself, its number and its counts, decides nothing and is left out.
"""

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from labferry.identity import RunKey
from labferry.ledger.keys import leader
from labferry.manifest import read_marker
from labferry.s3.checksum import crc64nvme
from labferry.s3.probe import prove
from labferry.s3.store import open_store
from labferry.settings import StoreSettings
from labferry.states import Event, State
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Kill, Rule, rule
from tests.ledger_world import was_claimed_once
from tests.quay import COMPLETE, CREATE, HEAD, LIST, LIST_UPLOADS, PART, PART_PUT, PUT, behind
from tests.services import LEDGER_DATABASE
from tests.site import Changes, Site, kill_host, open_site
from tests.striking_proxy import Call, Fatal, StrikingProxy

FILE = "f"
FILE_PUT, MARKER_PUT = f"{PUT} {FILE}", f"{PUT} complete.json"
ANNOUNCE, RELEASE = Call("lock announce"), Call("release complete")

#: All writes on the ledger (in small letters) and S3 calls of one run, in their order: the transfer
#: of a small file, of one in two parts, and the completion.
SMALL = [Call("claim"), Call(FILE_PUT), Call("move"), ANNOUNCE]
LARGE = [
    Call("claim"),
    Call(HEAD),
    Call(LIST_UPLOADS),
    Call("plan"),
    Call(CREATE),
    Call("plan", 2),  # the upload's id
    Call("plan", 3),  # what part 1 holds
    Call(PART_PUT),
    Call("plan", 4),  # its receipt, and what part 2 holds
    Call(PART_PUT, 2),
    Call("plan", 5),  # its receipt
    Call("plan", 6),  # that Complete is sent
    Call(COMPLETE),
    Call(HEAD, 2),
    Call(LIST_UPLOADS, 2),
    Call("move"),
    ANNOUNCE,
]
COMPLETION = [
    Call("lock complete"),
    Call(LIST),
    Call("extend complete"),
    Call(LIST, 2),
    Call(f"{PUT} manifest.jsonl"),
    Call(MARKER_PUT),
    Call("activate"),
    Call("complete"),
    Call("activate", 2),
    RELEASE,
]


class Case(NamedTuple):
    """A run of one file, and the call that is fatal to who brings it on its way."""

    number: int
    size: str
    fatal: Fatal

    @property
    def run(self) -> RunKey:
        (name, nth), applied = self.fatal
        when = "after" if applied else "before"
        return RunKey("scope", f"{self.size} {self.number:02} {name} {nth} {when}")

    @property
    def is_s3(self) -> bool:
        return self.fatal.call.name[0].isupper()

    @property
    def is_completion(self) -> bool:
        return self.size == "small" and self.fatal.call in COMPLETION

    @property
    def loses_lease(self) -> bool:
        """Whether who dies has the file and has not told what came of it."""
        outside = (Fatal(Call("claim"), applied=False), Fatal(Call("move"), applied=True))
        is_transfer = not self.is_completion and self.fatal.call != ANNOUNCE
        return is_transfer and self.fatal not in outside

    @property
    def sent_again(self) -> list[int]:
        """The part whose receipt could not be recorded."""
        (name, nth), applied = self.fatal
        if name == PART_PUT:
            return [nth]
        return [nth - 3] if name == "plan" and nth in (4, 5) and not applied else []


#: The last calls first: where Complete was or may have been sent, its object is waited for a while.
CASES = [
    Case(number, size, fatal)
    for size, calls in (("large", LARGE), ("small", SMALL + COMPLETION))
    for number, fatal in enumerate(
        Fatal(call, applied) for call in reversed(calls) for applied in (False, True)
    )
]
#: Nobody dies over these: they show that the lists above are whole.
UNTOUCHED = {RunKey("scope", "large"): LARGE, RunKey("scope", "small"): SMALL}
RUNS = [*(case.run for case in CASES), *UNTOUCHED]


class Laboratory(NamedTuple):
    """A site whose workers ask ledger and bucket by way of proxies that strike."""

    site: Site
    ledger: StrikingProxy
    bucket: FaultProxy

    def start_worker(self) -> subprocess.Popen[bytes]:
        url = self.ledger.url(LEDGER_DATABASE)
        return self.site.start("worker", "--no-sweep", LABFERRY_LEDGER__URL=url)

    def struck(self) -> list[Case]:
        """The cases in which somebody died, or is kept to die."""
        keys = [one.key for one in self.bucket.asked(fault="Kill")]
        return [
            case
            for case in CASES
            if case.run in self.ledger.struck or any(f"/{case.run}/" in key for key in keys)
        ]

    def free_locks(self) -> None:
        """End the dead completers' locks: by themselves they end after a minute."""
        locks = [leader(f"complete:{case.run}") for case in self.struck() if case.is_completion]
        if locks:
            self.site.ledger._server.client.delete(*locks)

    def end(self) -> None:
        """Wait until every run is complete, and somebody died over each that is a case."""

        def complete() -> bool:
            self.free_locks()
            return self.site.outlives()

        self.site.until(complete, "every run complete in spite of all kills")
        assert self.struck() == CASES

    def calls(self, run: RunKey) -> list[Call]:
        """Return all S3 calls for a run, and all writes, until it was complete.

        What follows is a completer's who was just too late.
        """
        names = [
            f"{PUT} {one.key.rpartition('/')[2]}" if one.operation == PUT else one.operation
            for one in self.bucket.asked(key=f"*/{run}/*")
        ]
        calls = [Call(name, names[: i + 1].count(name)) for i, name in enumerate(names)]
        writes = self.ledger.made[run]
        return calls[: names.index(MARKER_PUT) + 1] + writes[: writes.index(RELEASE) + 1]


Opens = Callable[[signal.Signals, int, int], AbstractContextManager[Laboratory]]


@pytest.fixture
def laboratory(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    fault_proxy: FaultProxy,
    ledger_url: str,
    broker_url: str,
) -> Opens:
    """Opens a laboratory with every run sealed and queued, and no worker yet."""

    @contextmanager
    def opened(by: signal.Signals, large: int, small: int) -> Iterator[Laboratory]:
        for run in RUNS:
            folder = tmp_path / "share" / run.run
            folder.mkdir(parents=True)
            (folder / FILE).write_bytes(os.urandom(PART + 1 if "large" in run.run else 100))
        changes: Changes = {
            # Leases are not renewed: that is a write whenever it happens to be time.
            "ledger": {"resend_s": 1, "sweep_interval_s": 0.2, "heartbeat_s": 1200},
            "retry": {"base_s": 0.1, "cap_s": 0.1, "floor_s": 0.05},
            "worker": {
                "large_processes": large,
                "small_processes": small,
                "part_threads": 1,
                "max_bytes_in_flight": PART,
            },
        }
        settings = behind(fault_proxy, store_settings).model_copy(update={"complete_timeout_s": 5})
        share = {"scope": tmp_path / "share"}
        with open_site(tmp_path, valkey, settings, share, changes) as site:
            proof = prove(open_store(settings), site.layout, now_ms=site.ledger.now_ms())
            site.ledger.save_proof(settings.endpoint, proof, keep_s=3600)
            fault_proxy.script(*[kills(case, by) for case in CASES if case.is_s3])
            fatal = {case.run: case.fatal for case in CASES if not case.is_s3}
            proxy = StrikingProxy(valkey.port, site.ledger, RUNS, fatal, by)
            site.start("agent")
            site.start("sweep")
            # Before that, who verifies a file would not announce its run's completion.
            site.until(lambda: are_queued(site), "all runs sealed and queued")
            yield Laboratory(site, proxy, fault_proxy)
            proxy.close()

    return opened


def kills(case: Case, by: signal.Signals) -> Rule:
    (name, nth), applied = case.fatal
    operation, _, ending = name.partition(" ")
    return rule(Kill(applied, by), on=operation, key=f"*/{case.run}/*{ending}", nth=nth)


def are_queued(site: Site) -> bool:
    facts = site.ledger.facts_of(site.ledger.runs())
    return sum(1 for one in facts if one.sealed_ms and one.sent) == len(RUNS)


def test_a_process_killed_at_any_call_leaves_one_good_object_and_one_marker(
    laboratory: Opens,
) -> None:
    """Test 1: what the server acknowledged is not sent again, and no upload stays open."""
    with laboratory(signal.SIGKILL, 4, 4) as lab:
        lab.start_worker()
        lab.end()
        for run, transfer in UNTOUCHED.items():
            # The sweep may have been the one to announce its completion.
            assert {*lab.calls(run), ANNOUNCE} == {*transfer, *COMPLETION}
        all_is_well(lab)


def test_a_worker_killed_with_all_its_processes_at_any_call_does_so_too(laboratory: Opens) -> None:
    """Test 1: who comes to the fatal call is stopped; once all are, the whole worker is killed."""
    workers, lanes = 2, Counter(case.size for case in CASES)
    large, small = (lanes[size] // workers for size in ("large", "small"))
    with laboratory(signal.SIGSTOP, large, small) as lab:
        for _ in range(workers):
            worker = lab.start_worker()

            def are_stopped(pid: int = worker.pid) -> bool:
                lab.site.lapse()
                return stopped_below(pid) == large + small

            lab.site.until(are_stopped, "every process at a fatal call")
            kill_host(worker)
            lab.free_locks()
        lab.start_worker()
        lab.end()
        all_is_well(lab)


def stopped_below(pid: int) -> int:
    """Return how many processes that a worker started are stopped."""
    below = psutil.Process(pid).children(recursive=True)
    return sum(one.status() == psutil.STATUS_STOPPED for one in below)


def all_is_well(lab: Laboratory) -> None:
    """Demand of every run one good object, one marker, a legal history and nothing else."""
    site, bucket, layout = lab.site, lab.site.store_settings.bucket, lab.site.layout
    sent = Counter((one.key, one.part) for one in lab.bucket.asked(PART_PUT))
    lab.bucket.script()
    client, prefix = site.client(), site.store_settings.prefix
    expected = set[str]()
    for run in RUNS:
        is_good(site, client, run)
        expected |= {layout.raw(run.file(FILE)), layout.manifest(run, 1), layout.marker(run, 1)}
    assert set(site.objects(f"{prefix}/")) == expected
    uploads = client.list_multipart_uploads(Bucket=bucket, Prefix=prefix)
    assert uploads.get("Uploads", []) == []
    for case in CASES:
        was_leased_again(site, case)
    again = [(key, part) for (key, part), count in sent.items() for _ in range(count - 1)]
    assert sorted(again) == sorted(
        (layout.raw(case.run.file(FILE)), part) for case in CASES for part in case.sent_again
    )


def is_good(site: Site, client: Any, run: RunKey) -> None:
    file = run.file(FILE)
    source = (site.roots["scope"] / run.run / FILE).read_bytes()
    assert site.body(client, site.layout.raw(file)) == source, run
    record = site.ledger.find_record(file)
    assert record is not None
    assert (record.state, record.attempt, record.rounds) == (State.VERIFIED, 0, 0), run
    assert record.evidence is not None
    assert record.evidence.crc64 == crc64nvme(source), run
    assert read_marker(site.body(client, site.layout.marker(run, 1))).total_files == 1
    assert site.ledger.markers(run) == {1}, run
    assert len(site.ledger.told(run)) == 1, run


def was_leased_again(site: Site, case: Case) -> None:
    """Demand a legal history: one lease ran out where one was lost, and nothing else happened."""
    file, lost = case.run.file(FILE), int(case.loses_lease)
    record = site.ledger.find_record(file)
    assert record is not None
    assert [note.event for note in site.ledger.history(file)] == [Event.EXPIRE] * lost, case
    assert (record.lost, was_claimed_once(record)) == (lost, not lost), case

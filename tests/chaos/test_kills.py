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
from collections.abc import Callable, Iterator, Sequence
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
from tests.quay import (
    ABORT,
    COMPLETE,
    CREATE,
    HEAD,
    LIST,
    LIST_PARTS,
    LIST_UPLOADS,
    PART,
    PART_PUT,
    PUT,
    behind,
)
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
#: What else the next transfer of a large file does, by what the one before it died of.
RESUMPTION = {
    Fatal(Call(CREATE), applied=True): [Call("plan", 2), Call(ABORT)],  # the first plan is dropped
    Fatal(Call(PART_PUT, 2), applied=False): [Call(LIST_PARTS)],
}


class Case(NamedTuple):
    """A run of one file, and the call that is fatal to who brings it on its way; and the one that
    was so to who did before."""

    number: int
    size: str
    fatal: Fatal
    first: Fatal | None = None

    @property
    def run(self) -> RunKey:
        (name, nth), applied = self.fatal
        when = "after" if applied else "before"
        return RunKey("scope", f"{self.size} {self.number:02} {name} {nth} {when}")

    @property
    def is_s3(self) -> bool:
        return self.fatal.call.name[0].isupper()

    @property
    def operation(self) -> str:
        return self.fatal.call.name.partition(" ")[0]

    @property
    def deaths(self) -> list[Fatal]:
        return [self.first, self.fatal] if self.first else [self.fatal]

    @property
    def is_completion(self) -> bool:
        return self.size == "small" and self.fatal.call in COMPLETION

    @property
    def leases_lost(self) -> int:
        """How many of the dead had the file and had not told what came of it."""
        outside = (Fatal(Call("claim"), applied=False), Fatal(Call("move"), applied=True))
        if self.is_completion or self.fatal.call == ANNOUNCE or self.fatal in outside:
            return 0
        return len(self.deaths)

    @property
    def sent_again(self) -> list[int]:
        """The parts whose receipts could not be recorded."""
        parts = [call.nth for call, _ in self.deaths if call.name == PART_PUT]
        unrecorded = {Fatal(Call("plan", part + 3), applied=False): part for part in (1, 2)}
        return parts + [unrecorded[one] for one in self.deaths if one in unrecorded]


TWICE = [
    Case(number, "resumed", Fatal(call, applied), first)
    for number, (first, call, applied) in enumerate(
        (first, call, applied)
        for first, calls in RESUMPTION.items()
        for call in calls
        for applied in (False, True)
    )
]
#: The last calls first: where Complete was or may have been sent, its object is waited for a while.
ONCE = [
    Case(number, size, fatal)
    for size, calls in (("large", LARGE), ("small", SMALL + COMPLETION))
    for number, fatal in enumerate(
        Fatal(call, applied) for call in reversed(calls) for applied in (False, True)
    )
]
CASES = TWICE + ONCE
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
        return [
            case
            for case in CASES
            if case.run in self.ledger.struck
            or self.bucket.asked(case.operation, f"*/{case.run}/*", fault="Kill")
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
        share = tmp_path / "share"
        share.mkdir()
        with open_site(tmp_path, valkey, settings, {"scope": share}, changes) as site:
            proof = prove(open_store(settings), site.layout, now_ms=site.ledger.now_ms())
            site.ledger.save_proof(settings.endpoint, proof, keep_s=3600)
            fault_proxy.script(*[one for case in CASES for one in rules(case, by)])
            fatal = {case.run: case.fatal for case in CASES if not case.is_s3}
            proxy = StrikingProxy(valkey.port, site.ledger, RUNS, fatal, by)
            # Those over whom two must die are at the head of the queue.
            write([case.run for case in TWICE], share)
            site.start("agent")
            site.start("sweep")
            site.until(lambda: queued(site) == len(TWICE), "the first runs sealed and queued")
            write(RUNS[len(TWICE) :], share)
            # Before that, who verifies a file would not announce its run's completion.
            site.until(lambda: queued(site) == len(RUNS), "all runs sealed and queued")
            yield Laboratory(site, proxy, fault_proxy)
            proxy.close()

    return opened


def write(runs: Sequence[RunKey], share: Path) -> None:
    for run in runs:
        (share / run.run).mkdir()
        size = 100 if run.run.startswith("small") else PART + 1
        (share / run.run / FILE).write_bytes(os.urandom(size))


def rules(case: Case, by: signal.Signals) -> Iterator[Rule]:
    """Yield what is fatal of the calls to the bucket."""
    for (name, nth), applied in case.deaths:
        operation, _, ending = name.partition(" ")
        if operation[0].isupper():
            key = f"*/{case.run}/*{ending}"
            yield rule(Kill(applied, by), on=operation, key=key, nth=nth)


def queued(site: Site) -> int:
    facts = site.ledger.facts_of(site.ledger.runs())
    return sum(1 for one in facts if one.sealed_ms and one.sent)


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
    workers, all_deaths = 2, sum(len(case.deaths) for case in CASES)
    small = sum(len(case.deaths) for case in CASES if case.size == "small") // workers
    large = all_deaths // workers - small
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
    """Demand a legal history: a lease ran out where one was lost, and nothing else happened."""
    file, lost = case.run.file(FILE), case.leases_lost
    record = site.ledger.find_record(file)
    assert record is not None
    assert [note.event for note in site.ledger.history(file)] == [Event.EXPIRE] * lost, case
    assert (record.lost, was_claimed_once(record)) == (lost, not lost), case

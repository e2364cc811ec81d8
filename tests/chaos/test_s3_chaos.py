"""Seeded chaos: real workers, three requests in ten that go wrong, kills, lapsed leases, a broker
that is flushed, and a ledger that is killed.

Test 25 of research (docs/proof.md). The control shows that the chaos is worth the name: boto3's own
transfer of the same files under the same faults reports success for what is not there.

LABFERRY_SEED, LABFERRY_SOAK_FILES: another seed, more files.
"""

import contextlib
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import cycle
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import boto3
import psutil
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from labferry.identity import FileKey, RunKey
from labferry.manifest import read_entry, split_lines
from labferry.s3.checksum import crc64nvme
from labferry.s3.probe import prove
from labferry.s3.store import S3Store, open_store
from labferry.settings import StoreSettings
from labferry.states import LEASED, Event, State
from ops.embedded import Valkey, Weed
from tests.fault_proxy import FaultProxy
from tests.faults import (
    HTML,
    Answer,
    Delay,
    DropAfter,
    DropBefore,
    Duplicate,
    Exchange,
    Fault,
    FlipByte,
    Hang,
    Pass,
    ResetMid,
    Rule,
    Truncate,
    rule,
)
from tests.quay import PART, PART_PUT, PUT, SINGLE_MAX, behind
from tests.site import Changes, Site, open_site
from tests.waiting import eventually

SEED = int(os.environ.get("LABFERRY_SEED", "1125"))
FILES = int(os.environ.get("LABFERRY_SOAK_FILES", "200"))
LARGE = 10
RUN = RunKey("scope", "movie 1")
#: A kill, or a pause longer than a lease, after so many more requests; the next one waits for it.
EVERY_REQUESTS = 10
STRIKES = (*["kill"] * 5, *["pause"] * 2, *["flush"] * 2, *["kill Redis"] * 2, "kill all")


class FlipOnce(Fault):
    """A flipped bit in a file's bytes, but not twice: damage that repeats is a dead letter."""

    def __init__(self) -> None:
        self._flipped: set[tuple[str, str, int]] = set()

    async def play(self, exchange: Exchange) -> None:
        identity = (exchange.request.operation, exchange.request.key, exchange.request.part)
        flips = identity[0] in {PUT, PART_PUT} and identity not in self._flipped
        self._flipped.add(identity)
        await (FlipByte(-1) if flips else Pass()).play(exchange)


def chaos() -> list[Rule]:
    """Three requests in ten of all operations go wrong."""
    return [
        rule(Hang(), chance=0.003),
        rule(
            DropBefore(),
            DropAfter(),
            ResetMid(100),
            Truncate(30),
            Truncate(0),
            Delay(before_s=0.1, after_s=0.1),
            Duplicate(0),
            Duplicate(1),
            FlipOnce(),
            Answer(),
            Answer(applied=True),
            Answer(body=HTML),
            Answer(200, "InternalError"),
            Answer(200, "InternalError", applied=True),
            Answer(500, "InternalError"),
            Answer(500, "InternalError", applied=True),
            Answer(503),
            Answer(503, "SlowDown", headers=(("Retry-After", "0.2"),)),
            Answer(400, "RequestTimeout"),
            Answer(409, "OperationAborted"),
            chance=0.3,
        ),
    ]


def write_files(folder: Path) -> dict[str, bytes]:
    """Write the run's files; return their bytes by name."""
    dice = Random(SEED)
    sizes = [dice.choice((0, 1, dice.randrange(64 * 1024))) for _ in range(FILES - LARGE)]
    sizes += [dice.choice((SINGLE_MAX + 1, PART + 1, 2 * PART)) for _ in range(LARGE)]
    folder.mkdir(parents=True)
    bodies = {}
    for number, size in enumerate(sizes):
        name = f"{'large' if size > SINGLE_MAX else 'small'} {number}.bin"
        bodies[name] = dice.randbytes(size)
        (folder / name).write_bytes(bodies[name])
    return bodies


@pytest.fixture
def proxy(weed: Weed) -> Iterator[FaultProxy]:
    """A proxy of this test's own, with its seed."""
    print(f"LABFERRY_SEED={SEED}")
    with FaultProxy(weed.endpoint, seed=SEED) as proxy:
        yield proxy


@pytest.fixture
def bodies(tmp_path: Path) -> dict[str, bytes]:
    return write_files(tmp_path / "share" / RUN.run)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Valkey]:
    """A Valkey that may be killed."""
    with Valkey(tmp_path / "valkey") as running:
        yield running


@pytest.fixture
def site(
    tmp_path: Path,
    bodies: dict[str, bytes],
    mortal: Valkey,
    store_settings: StoreSettings,
    proxy: FaultProxy,
) -> Iterator[Site]:
    """The run on its share; everything goes to S3 through the proxy; nothing runs yet."""
    changes: Changes = {
        "ledger": {"lease_ttl_s": 3, "heartbeat_s": 0.5, "resend_s": 1, "sweep_interval_s": 0.2},
        "retry": {
            "attempts": 100,
            "worker_losses": 100,
            "base_s": 0.1,
            "cap_s": 0.5,
            "floor_s": 0.05,
            "hold_s": 0.2,
        },
        "worker": {"small_threads": 8, "small_processes": 2, "large_processes": 2},
    }
    soon = {"connect_timeout_s": 2, "read_timeout_s": 3, "complete_timeout_s": 0.4}
    settings = behind(proxy, store_settings).model_copy(update=soon)
    with open_site(tmp_path, mortal, settings, {"scope": tmp_path / "share"}, changes) as opened:
        yield opened
    end_all_of(opened)


def end_all_of(site: Site) -> None:
    """Kill what outlived the workers that were killed: Celery waits for ever for a lost broker."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("LABFERRY_CONFIG") == str(site.config):
                process.kill()


class Reaper:
    """Kills pool processes, whole workers and Redis, stops processes for longer than a lease, and
    flushes the broker, as the dice fall."""

    def __init__(self, site: Site, valkey: Valkey) -> None:
        self._site = site
        self._valkey = valkey
        self._dice = Random(SEED)
        self._next = cycle(self._dice.sample(STRIKES, len(STRIKES)))
        self._workers: list[subprocess.Popen[bytes]] = []
        self.done: Counter[str] = Counter()

    def strike(self) -> None:
        """Strike one of those; where nobody holds a lease, nobody is killed or paused."""
        what = next(self._next)
        if what == "kill all":
            self._workers[-1].kill()
            self.start_worker()
        elif what == "flush":
            self._site.broker.flushdb()
        elif what == "kill Redis":
            self._valkey.kill()
            self._valkey.start()
        elif pid := self._holder():
            os.kill(pid, signal.SIGKILL if what == "kill" else signal.SIGSTOP)
            if what == "pause":
                eventually(lambda: not self._leases_of(pid), 60)
                with contextlib.suppress(ProcessLookupError):  # Celery may have ended it meanwhile
                    os.kill(pid, signal.SIGCONT)
        else:
            return
        self.done[what] += 1

    def start_worker(self) -> None:
        self._workers.append(self._site.start("worker"))

    def _leases_of(self, pid: int) -> list[str]:
        return [path for path, holder in self._held() if holder == pid]

    def _holder(self) -> int | None:
        """Return one of the processes that hold leases and are alive."""
        alive = sorted({pid for _, pid in self._held() if psutil.pid_exists(pid)})
        return self._dice.choice(alive) if alive else None

    def _held(self) -> list[tuple[str, int]]:
        """The leased files, with the process that holds each."""
        name_of = self._site.ledger.worker_name
        return [
            (path, int(name_of(one.holder).rpartition(":")[2]))
            for path, one in self._site.ledger.records(RUN)
            if one.state in LEASED
        ]


def test_under_chaos_every_file_is_verified_once_and_the_run_has_one_marker(
    site: Site, mortal: Valkey, proxy: FaultProxy, bodies: dict[str, bytes]
) -> None:
    """Test 25."""
    settings = site.store_settings
    site.ledger.save_proof(
        settings.endpoint,
        prove(open_store(settings), site.layout, now_ms=site.ledger.now_ms()),
        keep_s=3600,
    )
    proxy.script(*chaos())
    proxy.held_after = EVERY_REQUESTS
    reaper = Reaper(site, mortal)
    reaper.start_worker()
    site.start("agent")

    def complete() -> bool:
        if len(proxy.log) > proxy.held_after:
            reaper.strike()
            struck = reaper.done.total() == len(STRIKES)
            proxy.held_after = inf if struck else len(proxy.log) + EVERY_REQUESTS
        nothing_is_a_dead_letter(site)
        return site.complete()

    site.until(complete, "the run complete under chaos")
    log = list(proxy.log)
    proxy.script()

    it_was_chaos(log, reaper)
    every_file_is_good(site, bodies)
    nothing_was_overwritten(site, log)
    nothing_else_is_there(site, bodies)
    the_marker_names_all(site, bodies)


def nothing_is_a_dead_letter(site: Site) -> None:
    facts = site.ledger.find_facts(RUN)
    if facts and facts.counts[State.QUARANTINED]:
        dead = [path for path, one in site.ledger.records(RUN) if one.state is State.QUARANTINED]
        history = [note for path in dead for note in site.ledger.history(FileKey(RUN, path))]
        raise AssertionError("\n".join(str(one) for one in (*dead, *history)))


def it_was_chaos(log: Sequence[Any], reaper: Reaper) -> None:
    faults = Counter(one.fault for one in log)
    print(f"{len(log)} requests: {dict(faults)}; {dict(reaper.done)}")
    assert 0.2 < 1 - faults["Pass"] / len(log) < 0.4
    assert set(reaper.done) == set(STRIKES)
    assert reaper.done.total() == len(STRIKES)


def every_file_is_good(site: Site, bodies: dict[str, bytes]) -> None:
    client = site.client()
    for name, body in bodies.items():
        file = FileKey(RUN, name)
        record = site.ledger.find_record(file)
        assert record is not None
        assert record.state is State.VERIFIED
        assert record.evidence is not None
        assert record.evidence.crc64 == crc64nvme(body)
        assert site.body(client, site.layout.raw(file)) == body
        assert Event.QUARANTINE not in {note.event for note in site.ledger.history(file)}


def nothing_was_overwritten(site: Site, log: Sequence[Any]) -> None:
    created = Counter(
        one.key for one in log if one.operation == PUT for status in one.upstream if status == 200
    )
    assert {key: count for key, count in created.items() if count > 1} == {}


def nothing_else_is_there(site: Site, bodies: dict[str, bytes]) -> None:
    raw = {site.layout.raw(FileKey(RUN, name)) for name in bodies}
    assert set(site.objects(site.layout.raw_prefix(RUN))) == raw
    # An Abort, or the listing before it, may have been lost: a lifecycle rule ends what is left.
    # None of them is on record, so that none is in use.
    uploads = site.client().list_multipart_uploads(
        Bucket=site.store_settings.bucket, Prefix=site.layout.raw_prefix(RUN)
    )
    left = [upload["Key"] for upload in uploads.get("Uploads", [])]
    print(f"{len(left)} uploads left open")
    assert len(left) <= LARGE
    assert all(site.ledger.find_upload(FileKey(RUN, name)) is None for name in bodies)


def the_marker_names_all(site: Site, bodies: dict[str, bytes]) -> None:
    assert site.ledger.markers(RUN) == {1}
    marker, manifest = site.layout.marker(RUN, 1), site.layout.manifest(RUN, 1)
    assert set(site.objects(marker.rpartition("/")[0] + "/")) == {marker, manifest}
    _, *lines = split_lines([site.body(site.client(), manifest)])
    assert {read_entry(line).path for line in lines} == set(bodies)


# -- the control


def naive(url: str, settings: StoreSettings, folder: Path, names: Sequence[str]) -> dict[str, bool]:
    """Upload as everybody does; return by name whether boto3 said that it worked."""
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name=settings.region,
        config=Config(
            read_timeout=3,
            connect_timeout=2,
            s3={"addressing_style": "path"},
            max_pool_connections=40,
        ),
    )
    parts = TransferConfig(multipart_threshold=SINGLE_MAX, multipart_chunksize=PART)

    def upload(name: str) -> bool:
        try:
            key = f"{settings.prefix}/naive/{name}"
            client.upload_file(str(folder / name), settings.bucket, key, Config=parts)
        except Exception:  # noqa: BLE001  whatever it is, the upload is said to have failed
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        said = dict(zip(names, pool.map(upload, names), strict=True))
    client.close()
    return said


def found(store: S3Store, key: str, body: bytes) -> bool:
    stored = store.find_object(key)
    return stored is not None and b"".join(store.read(key)) == body


def test_the_naive_control_under_the_same_chaos_says_what_is_not_so(
    tmp_path: Path, bodies: dict[str, bytes], store_settings: StoreSettings, proxy: FaultProxy
) -> None:
    """Test 25: or the chaos proves nothing."""
    proxy.script(*chaos())
    said = naive(proxy.url, store_settings, tmp_path / "share" / RUN.run, list(bodies))
    store = open_store(store_settings)
    prefix = f"{store_settings.prefix}/naive/"
    there = {name: found(store, prefix + name, body) for name, body in bodies.items()}
    orphans = [name for name in bodies for _ in store.find_uploads(prefix + name)]
    false_success = [name for name in bodies if said[name] and not there[name]]
    false_failure = [name for name in bodies if there[name] and not said[name]]
    print(
        f"{len(bodies)} files: {len(false_success)} said OK and are not there, "
        f"{len(false_failure)} said failed and are there, {len(orphans)} orphan uploads"
    )
    assert false_success
    assert len(false_success) + len(false_failure) + len(orphans) >= FILES // 100

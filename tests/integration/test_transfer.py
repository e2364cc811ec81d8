"""What becomes of claimed files, on the real ledger and a real S3 server?"""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pytest

from labferry.errors import LedgerUnavailable, SourceError, StoreError
from labferry.failures import Kind, classify
from labferry.ports import Ledger
from labferry.records import Level, Step
from labferry.retry import Budget, Verdict, decide
from labferry.s3.checksum import crc64nvme
from labferry.s3.store import open_store
from labferry.settings import StoreSettings
from labferry.settings_trouble import RetrySettings
from labferry.states import Event, State
from labferry.stored import StoredObject
from tests.dock import MIB, PROVEN, RUN, UNPROVEN, Dock, Meddling
from tests.manual_clock import ManualClock
from tests.memory_store import Breaking, Died, MemoryStore
from tests.waiting import eventually
from workers.source import SourceFile
from workers.transfer import Result

SINGLE_MAX = 6 * MIB
PART = 5 * MIB


@pytest.fixture
def dock(tmp_path: Path, ledger_url: str, store_settings: StoreSettings) -> Dock:
    """On SeaweedFS."""
    sizes = {"single_put_max_bytes": SINGLE_MAX, "part_size_bytes": PART}
    settings = store_settings.model_copy(update=sizes)
    return Dock(tmp_path, ledger_url, open_store(settings), store_settings=settings)


@pytest.fixture
def memory(tmp_path: Path, ledger_url: str) -> Dock:
    """On a store in memory, where S3 itself is not the question."""
    settings = StoreSettings(
        bucket="bucket",
        single_put_max_bytes=SINGLE_MAX,
        part_size_bytes=PART,
        complete_timeout_s=0.1,
    )
    return Dock(tmp_path, ledger_url, MemoryStore(), store_settings=settings)


def noise(size: int) -> bytes:
    return os.urandom(size)


def states(results: dict[str, Result]) -> dict[str, State]:
    return {name: result.state for name, result in results.items()}


def lost(operation: str = "PutObject") -> StoreError:
    return StoreError(operation=operation, key="k", code="ReadTimeoutError")


# -- what goes well


@pytest.mark.parametrize(
    "size",
    [0, 1, SINGLE_MAX - 1, SINGLE_MAX, SINGLE_MAX + 1, 2 * PART - 1, 2 * PART, 2 * PART + 1],
)
def test_a_file_of_any_size_is_verified_byte_for_byte(dock: Dock, size: int) -> None:
    body = noise(size)
    dock.write("f", body)
    result = dock.ferried("f")["f"]
    assert (result.state, result.bytes, result.failure) == (State.VERIFIED, size, None)
    assert dock.stored("f") == body
    evidence = dock.record("f").evidence
    assert evidence is not None
    assert (evidence.level, evidence.crc64) == (Level.A, crc64nvme(body))
    assert dock.codes("f") == []
    assert dock.store.find_uploads(dock.key("f")) == []
    assert dock.ledger.find_upload(RUN.file("f")) is None


NAMES = ["a b.txt", "#1", "+.txt", "100%", "%2541.txt", "Größe/Übersicht.tif", "d/e/f", "c%01d"]


def test_names_of_every_kind_are_verified(dock: Dock) -> None:
    for name in NAMES:
        dock.write(name, name.encode())
    assert states(dock.ferried(*NAMES)) == dict.fromkeys(NAMES, State.VERIFIED)
    assert {name: dock.stored(name) for name in NAMES} == {n: n.encode() for n in NAMES}


def test_a_bundle_is_told_to_the_ledger_in_few_calls(memory: Dock) -> None:
    names = [f"f{number}" for number in range(450)]
    for name in names:
        memory.write(name)
    memory.settle(*names)
    ledger = Breaking(memory.ledger)
    results = memory.ferry(ledger=ledger)
    assert states(results) == dict.fromkeys(names, State.VERIFIED)
    assert len(ledger.calls) <= 10


def test_large_and_small_files_ride_together(memory: Dock) -> None:
    memory.write("large", noise(SINGLE_MAX + 1))
    memory.write("small")
    assert set(states(memory.ferried("large", "small")).values()) == {State.VERIFIED}


def test_bytes_in_memory_are_bounded(memory: Dock) -> None:
    memory.tune("worker", max_bytes_in_flight=MIB, small_threads=8)
    lock, never, inside, most = threading.Lock(), threading.Event(), [0], [0]

    class Counting(MemoryStore):
        def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
            with lock:
                inside[0] += len(body)
                most[0] = max(most[0], inside[0])
            never.wait(0.01)  # a link that takes its time
            with lock:
                inside[0] -= len(body)
            return super().put_fast(key, body, attempt_token)

    names = [f"f{number}" for number in range(24)]
    for name in names:
        memory.write(name, noise(MIB // 2))
    results = memory.ferried(*names, store=Counting())
    assert set(states(results).values()) == {State.VERIFIED}
    assert most[0] == MIB


def test_bytes_in_memory_are_bounded_though_no_answer_comes(memory: Dock) -> None:
    memory.tune("worker", max_bytes_in_flight=64 * 1024)
    lock, down, kept, most = threading.Lock(), dict[str, int](), [0], [0]

    class Silent(MemoryStore):
        def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
            super().put_fast(key, body, attempt_token)
            with lock:
                down[key] = len(body)
                kept[0] += len(body)
                most[0] = max(most[0], kept[0])
            raise StoreError(operation="PutObject", key=key, code="ReadTimeoutError")

        def find_object(self, key: str) -> StoredObject | None:
            found = super().find_object(key)
            with lock:
                if key in down:  # what is looked for is done with
                    kept[0] -= down.pop(key)
            return found

    names = [f"f{number}" for number in range(800)]
    for name in names:
        memory.write(name, noise(128))
    results = memory.ferried(*names, store=Silent())
    assert set(states(results).values()) == {State.VERIFIED}
    assert 16 * 1024 <= most[0] <= 64 * 1024


# -- when the source is not what was settled


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def truncate(path: Path) -> None:
    os.truncate(path, 2)


def replace_file(path: Path) -> None:
    other = path.with_name(".other")
    shutil.copy(path, other)
    other.rename(path)


def rewrite_and_restore_mtime(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = [grow, truncate, replace_file, rewrite_and_restore_mtime, os.unlink]
Change = Callable[[Path], None]


def abandoned(dock: Dock, result: Result) -> None:
    """Nothing of the file is in the bucket, and no attempt was counted."""
    assert result.state is State.DISCOVERED
    assert result.failure is not None
    assert result.failure.kind is Kind.SOURCE
    record = dock.record("f")
    assert (record.state, record.attempt, record.rounds) == (State.DISCOVERED, 0, 1)
    assert [event for event, _ in dock.codes("f")] == [Event.ABANDON]
    assert dock.stored("f") is None
    assert dock.store.find_uploads(dock.key("f")) == []
    assert dock.ledger.find_upload(RUN.file("f")) is None


@pytest.mark.parametrize("size", [100, SINGLE_MAX + 1])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_before_its_upload_waits_until_it_is_at_rest(
    dock: Dock, change: Change, size: int
) -> None:
    dock.write("f", noise(size))
    dock.write("neighbour")
    dock.settle("f", "neighbour")
    change(dock.source("f"))
    results = dock.ferry()
    abandoned(dock, results["f"])
    assert results["neighbour"].state is State.VERIFIED


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_a_large_file_that_changes_under_its_upload_leaves_nothing(
    dock: Dock, change: Change, nth: int
) -> None:
    dock.write("f", noise(SINGLE_MAX + 1))
    dock.write("neighbour")
    dock.settle("f", "neighbour")
    store = Meddling(dock.store, "put_part", lambda: change(dock.source("f")), nth=nth)
    abandoned(dock, dock.ferry(store=store)["f"])


@pytest.mark.parametrize("change", CHANGES)
def test_a_small_file_that_changes_while_it_is_read_leaves_nothing(
    dock: Dock, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    dock.write("f", noise(100))
    dock.settle("f")
    read = SourceFile.read

    def read_and_change(file: SourceFile) -> bytes:
        body = read(file)
        change(dock.source("f"))
        return body

    monkeypatch.setattr(SourceFile, "read", read_and_change)
    dock.write("neighbour")
    abandoned(dock, dock.ferry()["f"])


def test_a_changed_file_is_verified_once_it_is_settled_again(memory: Dock) -> None:
    memory.write("f", noise(SINGLE_MAX + 1))
    memory.settle("f")
    grow(memory.source("f"))
    memory.ferry()
    memory.finish()
    assert memory.stored("f") == memory.source("f").read_bytes()


def test_a_file_that_never_comes_to_rest_is_quarantined(memory: Dock) -> None:
    memory.tune("retry", source_rounds=2)
    memory.write("f")
    for _ in range(3):
        memory.settle("f")
        grow(memory.source("f"))
        memory.ferry()
    assert memory.state("f") is State.QUARANTINED
    expected = [Event.ABANDON, Event.ABANDON, Event.QUARANTINE]
    assert [event for event, _ in memory.codes("f")] == expected


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_link(path: Path) -> None:
    outside = path.parent.parent.parent / "outside"
    path.rename(outside)
    path.symlink_to(outside)


@pytest.mark.parametrize("change", [to_folder, to_fifo, to_link])
def test_what_is_no_regular_file_is_quarantined_and_its_neighbours_go_on(
    dock: Dock, change: Change
) -> None:
    dock.write("f")
    dock.write("neighbour")
    dock.settle("f", "neighbour")
    change(dock.source("f"))
    assert states(dock.ferry()) == {"f": State.QUARANTINED, "neighbour": State.VERIFIED}
    assert dock.codes("f") == [(Event.QUARANTINE, "source_refused")]
    assert dock.stored("f") is None


def test_a_path_that_leaves_its_run_is_never_read(memory: Dock) -> None:
    (memory.root / "secret").write_bytes(b"s")
    memory.write("%2E%2E%2Fsecret")
    memory.settle("%2E%2E%2Fsecret")
    assert states(memory.ferry()) == {"%2E%2E%2Fsecret": State.QUARANTINED}
    assert memory.store.objects == {}  # type: ignore[attr-defined]


def test_the_files_of_an_absent_share_are_left_to_other_hosts_and_cost_nothing(
    memory: Dock,
) -> None:
    names = ["a", "b"]
    for name in names:
        memory.write(name)
    memory.settle(*names)
    shutil.rmtree(memory.root)
    assert states(memory.ferry()) == dict.fromkeys(names, State.ELIGIBLE)
    assert [memory.record(name).attempt for name in names] == [0, 0]
    assert [memory.codes(name) for name in names] == [[], []]


def test_an_empty_share_deletes_nothing(memory: Dock) -> None:
    memory.write("a")
    memory.settle("a")
    shutil.rmtree(memory.run)
    result = memory.ferry()["a"]
    assert result.state is State.ELIGIBLE
    assert result.failure is not None
    assert result.failure.code == "share_unavailable"


def test_a_share_that_goes_away_in_mid_bundle_holds_the_file_that_met_it_alone(
    memory: Dock,
) -> None:
    memory.tune("worker", small_threads=1)
    names = [f"f{number}" for number in range(5)]
    for name in names:
        memory.write(name)
    memory.settle(*names)
    away = Meddling(memory.store, "put_fast", lambda: shutil.rmtree(memory.run), when="after")
    found = states(memory.ferry(store=away))
    assert list(found.values()) == [State.VERIFIED, State.HELD, *[State.ELIGIBLE] * 3]
    assert [memory.codes(name) for name in found] == [
        [], [(Event.HOLD, "share_unavailable")], [], [], []
    ]  # fmt: skip


# -- when something is there already


@pytest.mark.parametrize("size", [100, SINGLE_MAX + 1])
def test_an_identical_object_is_adopted_and_not_written_again(dock: Dock, size: int) -> None:
    body = noise(size)
    dock.write("f", body)
    before = dock.store.put_absent(dock.key("f"), body, crc64nvme(body), "anothers")
    assert states(dock.ferried("f")) == {"f": State.VERIFIED}
    evidence = dock.record("f").evidence
    assert evidence is not None
    assert (evidence.level, evidence.etag) == (Level.A, before.etag)
    found = dock.store.find_object(dock.key("f"))
    assert found is not None
    assert found.attempt_token == "anothers"
    assert dock.store.find_uploads(dock.key("f")) == []


@pytest.mark.parametrize("size", [100, SINGLE_MAX + 1])
@pytest.mark.parametrize("more", [0, 1])
def test_a_different_object_is_never_overwritten(dock: Dock, size: int, more: int) -> None:
    other = noise(size + more)
    dock.write("f", noise(size))
    dock.store.put_absent(dock.key("f"), other, crc64nvme(other), "anothers")
    assert states(dock.ferried("f")) == {"f": State.QUARANTINED}
    assert dock.codes("f") == [(Event.QUARANTINE, "object_conflict")]
    assert dock.stored("f") == other
    assert dock.store.find_uploads(dock.key("f")) == []


def test_an_object_that_appears_under_a_multipart_upload_is_never_overwritten(dock: Dock) -> None:
    other = noise(10)
    dock.write("f", noise(SINGLE_MAX + 1))
    dock.settle("f")
    store = Meddling(
        dock.store,
        "complete_upload",
        lambda: dock.store.put_absent(dock.key("f"), other, crc64nvme(other), "anothers"),
    )
    assert states(dock.ferry(store=store)) == {"f": State.QUARANTINED}
    assert dock.stored("f") == other
    assert dock.store.find_uploads(dock.key("f")) == []


# -- what an endpoint does not prove


@pytest.mark.parametrize("size", [0, 100, SINGLE_MAX + 1])
def test_an_endpoint_without_proof_is_read_back(dock: Dock, size: int) -> None:
    dock.write("f", noise(size))
    assert states(dock.ferried("f", proof=UNPROVEN)) == {"f": State.VERIFIED}
    evidence = dock.record("f").evidence
    assert evidence is not None
    assert evidence.level is Level.D


def test_an_endpoint_that_would_overwrite_is_asked_first(memory: Dock) -> None:
    class Overwriting(MemoryStore):
        def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
            self.objects.pop(key, None)
            return super().put_fast(key, body, attempt_token)

    store = Overwriting()
    store.put_absent(memory.key("f"), b"raw", crc64nvme(b"raw"), "anothers")
    memory.write("f", b"new")
    proof = replace(PROVEN, conditional_put=False)
    assert states(memory.ferried("f", store=store, proof=proof)) == {"f": State.QUARANTINED}
    assert store.objects[memory.key("f")].body == b"raw"


@pytest.mark.parametrize("size", [100, SINGLE_MAX + 1])
def test_where_the_evidence_would_be_too_weak_nothing_is_sent(memory: Dock, size: int) -> None:
    memory.tune("store", evidence_minimum="A")
    memory.write("f", noise(size))
    result = memory.ferried("f", proof=UNPROVEN)["f"]
    assert result.state is State.HELD
    assert result.failure is not None
    assert result.failure.code == "weak_evidence"
    assert memory.store.objects == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [100, SINGLE_MAX + 1])
def test_bytes_ruined_on_the_way_are_found_by_reading_back(memory: Dock, size: int) -> None:
    store = MemoryStore(attests=False)

    def ruin() -> None:
        body = store.objects[memory.key("f")].body
        store.objects[memory.key("f")].body = body[:-1] + bytes([body[-1] ^ 1])

    memory.write("f", noise(size))
    method = "put_fast" if size == 100 else "complete_upload"
    proof = replace(UNPROVEN, conditional_put=True, conditional_complete=True)
    meddling = Meddling(store, method, ruin, when="after")
    assert states(memory.ferried("f", store=meddling, proof=proof)) == {"f": State.QUARANTINED}
    assert memory.codes("f") == [(Event.QUARANTINE, "checksum_mismatch")]


# -- when the server does not answer, or says no


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_to_a_put_is_no_failure(
    memory: Dock, when: Literal["before", "after"]
) -> None:
    memory.write("f")
    store = Breaking(memory.store, 1, when, method="put_fast", error=lost())
    assert states(memory.ferried("f", store=store)) == {"f": State.VERIFIED}
    assert memory.codes("f") == []
    assert ("put_absent" in store.calls) == (when == "before")


def test_two_lost_answers_are_one_attempt(memory: Dock) -> None:
    memory.write("f")
    store = Breaking(memory.store, 1, method="put_fast", error=lost())
    store = Breaking(store, 1, method="put_absent", error=lost())
    result = memory.ferried("f", store=store)["f"]
    assert result.state is State.FAILED
    assert result.failure is not None
    assert result.failure.kind is Kind.TRANSIENT
    assert memory.record("f").attempt == 1
    memory.finish()
    assert memory.state("f") is State.VERIFIED


def test_a_second_lost_answer_is_decided_by_asking(memory: Dock) -> None:
    memory.write("f")
    store = Breaking(memory.store, 1, method="put_fast", error=lost())
    store = Breaking(store, 1, "after", method="put_absent", error=lost())
    assert states(memory.ferried("f", store=store)) == {"f": State.VERIFIED}


def refusing(dock: Dock, code: str, status: int, *, name: str = "f") -> MemoryStore:
    """A store that refuses every creation of one key."""

    class Refusing(MemoryStore):
        def put_absent(
            self, key: str, body: bytes | BinaryIO, crc64: int, attempt_token: str
        ) -> StoredObject:
            if key == dock.key(name):
                raise StoreError(operation="PutObject", key=key, code=code, status=status)
            return super().put_absent(key, body, crc64, attempt_token)

    return Refusing()


def test_access_denied_quarantines_that_file_at_once(memory: Dock) -> None:
    for name in ("f", "neighbour"):
        memory.write(name)
    store = refusing(memory, "AccessDenied", 403)
    results = memory.ferried("f", "neighbour", store=store)
    assert states(results) == {"f": State.QUARANTINED, "neighbour": State.VERIFIED}
    assert memory.codes("f") == [(Event.QUARANTINE, "AccessDenied")]


def test_where_head_is_forbidden_too_the_puts_own_refusal_is_recorded(memory: Dock) -> None:
    memory.write("f")
    forbidden = StoreError(operation="HeadObject", key="k", code="403", status=403)
    store = Breaking(
        refusing(memory, "AccessDenied", 403), 1, method="find_object", error=forbidden
    )
    memory.ferried("f", store=store)
    assert memory.codes("f") == [(Event.QUARANTINE, "AccessDenied")]


@pytest.mark.parametrize(
    ("code", "status", "calls"),
    [
        ("SlowDown", 503, ["put_fast"]),
        ("ExpiredToken", 403, ["put_fast"]),
    ],
)
def test_what_is_in_everybodys_way_holds_and_spends_nothing(
    memory: Dock, code: str, status: int, calls: list[str]
) -> None:
    memory.tune("worker", small_threads=1)
    names = [f"f{number}" for number in range(20)]
    for name in names:
        memory.write(name)
    memory.settle(*names)
    error = StoreError(operation="PutObject", key="k", code=code, status=status)
    denied = Breaking(memory.store, 1, method="put_absent", error=error)
    denied = Breaking(denied, 1, method="put_fast", error=error)
    results = memory.ferry(store=denied)
    assert states(results) == dict.fromkeys(names, State.HELD)
    assert {memory.record(name).attempt for name in names} == {0}
    # The rest of the bundle does not run against the same wall.
    assert denied.calls == calls
    memory.finish()
    assert {memory.state(name) for name in names} == {State.VERIFIED}


def test_an_exhausted_budget_ends_in_quarantine_with_every_attempt_on_record(memory: Dock) -> None:
    memory.tune("retry", attempts=3, base_s=0.001, floor_s=0, cap_s=0.001)
    memory.write("f")
    memory.settle("f")
    memory.finish(store=refusing(memory, "InternalError", 500))
    assert memory.state("f") is State.QUARANTINED
    notes = memory.ledger.history(RUN.file("f"))
    assert [note.event for note in notes] == [Event.FAIL, Event.FAIL, Event.QUARANTINE]
    assert [note.attempt for note in notes] == [1, 2, 3]
    assert {note.code for note in notes} == {"InternalError"}
    assert {note.worker for note in notes} == {"host:1"}
    assert [note.bytes_sent for note in notes] == [5, 5, 5]
    assert len({note.token for note in notes}) == 3


def test_an_unknown_failure_after_known_ones_is_not_the_end(memory: Dock) -> None:
    memory.write("f")
    memory.settle("f")
    known, unknown = ("InternalError", 500), ("XNeverHeardOf", 400)
    for number, (code, status) in enumerate((known, unknown, known, known, unknown), 1):
        store = refusing(memory, code, status)

        def failed(number: int = number, store: MemoryStore = store) -> bool:
            memory.ferry(store=store)
            return memory.record("f").attempt == number

        eventually(failed)
    assert memory.state("f") is State.FAILED
    memory.finish(store=refusing(memory, *unknown))
    assert memory.state("f") is State.QUARANTINED
    assert [event for event, _ in memory.codes("f")] == [*[Event.FAIL] * 5, Event.QUARANTINE]


def test_a_defect_met_by_one_file_is_unknown_and_stops_no_other(memory: Dock) -> None:
    class Broken(MemoryStore):
        def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
            if key == memory.key("f"):
                raise ZeroDivisionError("a defect")
            return super().put_fast(key, body, attempt_token)

    names = ["f", "a", "b"]
    for name in names:
        memory.write(name)
    results = memory.ferried(*names, store=Broken())
    assert states(results) == {"f": State.FAILED, "a": State.VERIFIED, "b": State.VERIFIED}
    assert results["f"].failure is not None
    assert results["f"].failure.kind is Kind.UNKNOWN


def test_a_name_too_long_for_a_key_is_quarantined(memory: Dock) -> None:
    memory.tune("store", prefix="p" * 1000)
    memory.layout = replace(memory.layout, prefix="p" * 1000)
    memory.write("f" * 30)
    memory.ferried("f" * 30)
    assert memory.codes("f" * 30) == [(Event.QUARANTINE, "bad_name")]


# -- when the source cannot be read


@pytest.mark.parametrize("code", ["EACCES", "EPERM", "EBUSY", "ETXTBSY"])
def test_a_file_that_is_kept_from_us_is_tried_again_after_minutes_until_it_can_be_read(
    memory: Dock, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    real = os.open

    def refuse(path: str | bytes, *args: Any, **options: Any) -> int:
        if path == b"kept":
            raise OSError(getattr(errno, code), os.strerror(getattr(errno, code)))
        return real(path, *args, **options)

    memory.write("kept")
    memory.write("free")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        results = memory.ferried("kept", "free")
    assert states(results) == {"kept": State.FAILED, "free": State.VERIFIED}
    assert memory.codes("kept") == [(Event.FAIL, code)]
    due_ms = memory.ledger.find_due(RUN.file("kept"))
    assert due_ms is not None
    assert due_ms - memory.ledger.now_ms() > 299_000
    memory.make_due()
    memory.finish()
    assert memory.state("kept") is State.VERIFIED


def test_a_file_that_stays_out_of_reach_becomes_a_dead_letter_after_half_an_hour_or_more() -> None:
    failure = classify(SourceError(path="f", errno_name="EACCES"))
    budget, waited_s = Budget(**RetrySettings().model_dump()), 0.0
    for attempt in range(1, budget.attempts):
        decision = decide(failure, attempt=attempt, age_s=waited_s, budget=budget, uniform=0.0)
        assert decision.verdict is Verdict.RETRY
        waited_s += decision.delay_s
    end = decide(failure, attempt=budget.attempts, age_s=waited_s, budget=budget, uniform=0.0)
    assert end.verdict is Verdict.QUARANTINE
    assert waited_s >= 1800


# -- when the lease or the ledger is lost


def test_who_lost_the_lease_writes_nothing_and_reports_nothing(memory: Dock) -> None:
    memory.write("f")
    memory.settle("f")
    stale = memory.claim()
    memory.lapse()
    newer = memory.claim()
    assert memory.ferry(stale) == {}
    assert memory.record("f").token == newer[0].token
    assert states(memory.ferry(newer)) == {"f": State.VERIFIED}
    assert memory.codes("f") == []


def test_a_lease_that_ran_out_while_the_file_was_read_writes_nothing(
    memory: Dock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, read = ManualClock(), SourceFile.read

    def read_slowly(file: SourceFile) -> bytes:
        clock.now_s += memory.settings.ledger.lease_ttl_s
        return read(file)

    monkeypatch.setattr(SourceFile, "read", read_slowly)
    memory.write("f")
    assert memory.ferried("f", clock=clock) == {}
    assert memory.store.objects == {}  # type: ignore[attr-defined]
    assert memory.state("f") is State.UPLOADING


def test_who_loses_the_lease_between_parts_stops_and_aborts_nothing(memory: Dock) -> None:
    memory.write("f", noise(4 * PART))
    memory.settle("f")
    store = Breaking(Meddling(memory.store, "put_part", memory.lapse))
    assert memory.ferry(store=store) == {}
    assert store.calls.count("put_part") <= 2 * memory.settings.worker.part_threads
    assert "abort_upload" not in store.calls
    assert "complete_upload" not in store.calls
    assert memory.state("f") is State.FAILED
    memory.finish()
    assert memory.stored("f") == memory.source("f").read_bytes()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_ledger_that_is_away_for_a_moment_costs_nothing(
    memory: Dock, when: Literal["before", "after"]
) -> None:
    away = LedgerUnavailable(url="redis://x", why="gone")
    ledger = Breaking(memory.ledger, 1, when, method="move", error=away)
    memory.write("f")
    assert states(memory.ferried("f", ledger=ledger)) == {"f": State.VERIFIED}
    assert memory.codes("f") == []


def test_a_ledger_that_stays_away_is_told_to_the_caller_and_nothing_is_lost(memory: Dock) -> None:
    away = LedgerUnavailable(url="redis://x", why="gone")
    ledger: Ledger = memory.ledger
    for nth in (1, 1, 1):
        ledger = Breaking(ledger, nth, method="move", error=away)
    memory.write("f")
    memory.settle("f")
    with pytest.raises(LedgerUnavailable):
        memory.ferry(ledger=ledger)
    assert memory.state("f") is State.UPLOADING
    memory.finish()
    assert memory.state("f") is State.VERIFIED


def test_a_ledger_lost_between_parts_gives_the_file_back(memory: Dock) -> None:
    away = LedgerUnavailable(url="redis://x", why="gone")
    ledger = Breaking(memory.ledger, 2, method="save_parts", error=away)
    memory.write("f", noise(4 * PART))
    assert states(memory.ferried("f", ledger=ledger)) == {"f": State.ELIGIBLE}
    assert memory.codes("f") == [(Event.YIELD, "ledger_unavailable")]
    memory.finish()
    assert memory.record("f").attempt == 0


# -- when the worker is asked to stop


def exit_now() -> None:
    raise SystemExit(0)


def test_a_shutdown_gives_unfinished_files_back_and_keeps_what_is_done(memory: Dock) -> None:
    memory.tune("worker", small_threads=2)
    names = [f"f{number}" for number in range(300)]
    for name in names:
        memory.write(name)
    memory.settle(*names)
    ledger = Meddling(memory.ledger, "move", exit_now, when="after")
    with pytest.raises(SystemExit):
        memory.ferry(ledger=ledger)
    counts = [memory.state(name) for name in names]
    assert set(counts) <= {State.VERIFIED, State.ELIGIBLE}
    assert counts.count(State.VERIFIED) >= 100
    memory.finish()
    assert {memory.state(name) for name in names} == {State.VERIFIED}
    assert {memory.record(name).attempt for name in names} == {0}
    assert {memory.record(name).lost for name in names} == {0}


def test_a_shutdown_in_mid_upload_resumes_without_sending_a_part_twice(dock: Dock) -> None:
    dock.write("f", noise(4 * PART + 1))
    dock.settle("f")
    store = Breaking(Meddling(dock.store, "complete_upload", exit_now))
    with pytest.raises(SystemExit):
        dock.ferry(store=store)
    assert store.calls.count("put_part") == 5
    assert (dock.state("f"), dock.record("f").attempt) == (State.ELIGIBLE, 0)
    assert dock.codes("f") == [(Event.YIELD, "shutdown")]
    again = Breaking(dock.store)
    dock.tune("store", complete_timeout_s=0.01)
    assert states(dock.ferry(store=again)) == {"f": State.VERIFIED}
    assert "put_part" not in again.calls
    assert "create_upload" not in again.calls
    assert dock.stored("f") == dock.source("f").read_bytes()


# -- resuming


@pytest.mark.parametrize("nth", [1, 3, 5])
def test_a_resumed_upload_sends_missing_parts_alone(dock: Dock, nth: int) -> None:
    dock.tune("worker", part_threads=1)
    dock.write("f", noise(4 * PART + 1))
    dock.settle("f")
    with pytest.raises(Died):
        dock.ferry(store=Breaking(dock.store, nth, "after", method="put_part"))
    dock.lapse()
    upload = dock.ledger.find_upload(RUN.file("f"))
    assert upload is not None
    acknowledged = [number for number, part in upload.parts.items() if part.etag]
    again = Breaking(dock.store)
    assert states(dock.ferry(store=again)) == {"f": State.VERIFIED}
    assert again.calls.count("put_part") == 5 - len(acknowledged)
    # The thread that saw the receipt died with it: one part is sent again.
    assert len(acknowledged) == nth - 1
    assert "create_upload" not in again.calls
    assert dock.stored("f") == dock.source("f").read_bytes()


def test_a_resumed_upload_keeps_its_part_size_when_settings_change(dock: Dock) -> None:
    dock.write("f", noise(4 * PART))
    dock.settle("f")
    with pytest.raises(Died):
        dock.ferry(store=Breaking(dock.store, 3, method="put_part"))
    dock.lapse()
    dock.tune("store", part_size_bytes=7 * MIB)
    assert states(dock.ferry()) == {"f": State.VERIFIED}
    assert dock.stored("f") == dock.source("f").read_bytes()


def test_a_part_that_reads_otherwise_than_recorded_is_a_changed_source(memory: Dock) -> None:
    memory.tune("worker", part_threads=1)
    memory.write("f", noise(3 * PART))
    memory.settle("f")
    with pytest.raises(Died):
        memory.ferry(store=Breaking(memory.store, 2, method="put_part"))
    memory.lapse()
    claims = memory.claim()
    upload = memory.ledger.find_upload(RUN.file("f"))
    assert upload is not None
    part = upload.parts[2]
    memory.ledger.save_parts(
        RUN.file("f"), claims[0].token, {2: part._replace(crc64=part.crc64 ^ 1)}
    )
    assert states(memory.ferry(claims)) == {"f": State.DISCOVERED}
    assert memory.store.find_uploads(memory.key("f")) == []


def test_an_upload_of_earlier_content_is_aborted_and_begun_anew(memory: Dock) -> None:
    memory.write("f", noise(3 * PART))
    memory.settle("f")
    with pytest.raises(Died):
        memory.ferry(store=Breaking(memory.store, 2, method="put_part"))
    memory.lapse()
    bundles = memory.ledger.take_due(RUN, 10)
    assert bundles
    memory.write("f", noise(3 * PART))
    memory.settle("f")
    assert states(memory.ferry()) == {"f": State.VERIFIED}
    assert memory.stored("f") == memory.source("f").read_bytes()
    assert memory.store.find_uploads(memory.key("f")) == []


def test_the_state_of_the_ledger_is_told_by_the_outcome_alone(memory: Dock) -> None:
    """A file that an operator's hand moved meanwhile is left alone."""
    memory.write("f")
    memory.settle("f")
    claims = memory.claim()
    step = Step(path="f", token=claims[0].token)
    memory.ledger.move(RUN, Event.QUARANTINE, [step])
    assert memory.ferry(claims) == {}
    assert memory.state("f") is State.QUARANTINED

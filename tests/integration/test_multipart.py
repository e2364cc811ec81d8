"""Does a multipart upload end in one good object, whatever the server answers?"""

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labferry.concurrency import Concurrency
from labferry.errors import StoreError
from labferry.failures import Kind
from labferry.ports import ObjectStore
from labferry.records import Part
from labferry.s3.checksum import crc64nvme
from labferry.settings import StoreSettings
from labferry.states import Event, State
from tests.dock import MIB, PROVEN, RUN, Dock, Meddling
from tests.manual_clock import ManualClock
from tests.memory_store import Breaking, Died, MemoryStore

PART = 5 * MIB
SIZE = 3 * PART + 1
PARTS = 4
COMPLETE, CREATE, PUT = "complete_upload", "create_upload", "put_part"
OPERATIONS = {
    COMPLETE: "CompleteMultipartUpload",
    CREATE: "CreateMultipartUpload",
    PUT: "UploadPart",
    "list_parts": "ListParts",
    "abort_upload": "AbortMultipartUpload",
}


@pytest.fixture
def dock(tmp_path: Path, ledger_url: str) -> Dock:
    settings = StoreSettings(
        bucket="bucket", single_put_max_bytes=MIB, part_size_bytes=PART, complete_timeout_s=0.1
    )
    made = Dock(tmp_path, ledger_url, MemoryStore(), store_settings=settings)
    made.tune("worker", part_threads=1)
    made.write("f", os.urandom(SIZE))
    made.settle("f")
    return made


def failing(
    port: object, method: str, code: str = "ReadTimeoutError", status: int | None = None, **how: Any
) -> Breaking:
    error = StoreError(operation=OPERATIONS[method], key="k", code=code, status=status)
    return Breaking(port, how.pop("nth", 1), how.pop("when", "before"), method=method, error=error)


def ferry(dock: Dock, store: ObjectStore, **options: Any) -> Breaking:
    """Ferry the file and return the calls that its store was asked for."""
    asked = Breaking(store)
    dock.ferry(store=asked, **options)
    return asked


def verified(dock: Dock) -> None:
    assert dock.state("f") is State.VERIFIED
    assert dock.stored("f") == dock.source("f").read_bytes()
    assert dock.store.find_uploads(dock.key("f")) == []
    assert dock.ledger.find_upload(RUN.file("f")) is None


# -- Create


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_to_create_leaves_no_orphan(dock: Dock, when: str) -> None:
    asked = ferry(dock, failing(dock.store, CREATE, when=when))
    verified(dock)
    assert asked.calls.count(CREATE) == 2
    assert asked.calls.count("abort_upload") == (1 if when == "after" else 0)
    assert dock.codes("f") == []


def test_create_is_not_asked_for_for_ever(dock: Dock) -> None:
    store = failing(failing(dock.store, CREATE), CREATE)
    asked = ferry(dock, store)
    assert asked.calls.count(CREATE) == 2
    assert dock.codes("f") == [(Event.FAIL, "ReadTimeoutError")]
    dock.finish()
    verified(dock)


def test_an_upload_whose_id_never_was_recorded_is_aborted_by_the_next_owner(dock: Dock) -> None:
    with pytest.raises(Died):
        dock.ferry(ledger=Breaking(dock.ledger, 2, method="save_upload"))
    assert len(dock.store.find_uploads(dock.key("f"))) == 1
    dock.finish()
    verified(dock)


def test_uploads_of_other_keys_are_left_alone(dock: Dock) -> None:
    other = dock.store.create_upload(dock.key("f") + "2", "anothers")
    ferry(dock, dock.store)
    verified(dock)
    assert dock.store.find_uploads(dock.key("f") + "2") == [other]


# -- parts


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("status", [None, 500, 503])
def test_a_part_is_sent_again_from_memory(dock: Dock, when: str, status: int | None) -> None:
    code = "ReadTimeoutError" if status is None else "InternalError"
    asked = ferry(dock, failing(dock.store, PUT, code, status, when=when, nth=2))
    verified(dock)
    assert asked.calls.count(PUT) == PARTS + 1
    assert dock.codes("f") == []


def test_a_part_damaged_on_the_way_is_sent_once_more(dock: Dock) -> None:
    asked = ferry(dock, failing(dock.store, PUT, "BadDigest", 400))
    verified(dock)
    assert asked.calls.count(PUT) == PARTS + 1


def test_a_part_damaged_twice_quarantines_the_file(dock: Dock) -> None:
    store = failing(failing(dock.store, PUT, "BadDigest", 400), PUT, "BadDigest", 400)
    asked = ferry(dock, store)
    assert asked.calls.count(PUT) == 2
    assert dock.codes("f") == [(Event.QUARANTINE, "BadDigest")]
    assert dock.stored("f") is None


def test_parts_that_went_before_a_failure_are_not_sent_again(dock: Dock) -> None:
    store: ObjectStore = dock.store
    for _ in range(3):
        store = failing(store, PUT, "InternalError", 500, nth=3)
    ferry(dock, store)
    assert dock.codes("f") == [(Event.FAIL, "InternalError")]
    assert dock.record("f").attempt == 1
    note = dock.ledger.history(RUN.file("f"))[0]
    assert note.bytes_sent == 2 * PART
    assert note.upload_id == dock.store.find_uploads(dock.key("f"))[0]
    asked = Breaking(dock.store)
    dock.finish(store=asked)
    verified(dock)
    assert asked.calls.count(PUT) == PARTS - 2
    assert CREATE not in asked.calls


@pytest.mark.parametrize(("code", "status"), [("SlowDown", 503), ("ExpiredToken", 403)])
def test_a_held_file_goes_on_with_the_same_upload(dock: Dock, code: str, status: int) -> None:
    ferry(dock, failing(dock.store, PUT, code, status, nth=2))
    assert dock.codes("f") == [(Event.HOLD, code)]
    assert dock.record("f").attempt == 0
    before = dock.store.find_uploads(dock.key("f"))
    assert len(before) == 1
    asked = Breaking(dock.store)
    dock.finish(store=asked)
    verified(dock)
    assert CREATE not in asked.calls
    assert asked.calls.count(PUT) == PARTS - 1


def test_an_upload_aborted_by_anybody_else_is_begun_anew(dock: Dock) -> None:
    store = Meddling(dock.store, PUT, dock.store.uploads.clear, nth=3)  # type: ignore[attr-defined]
    asked = ferry(dock, store)
    verified(dock)
    assert asked.calls.count(CREATE) == 2
    assert dock.codes("f") == []


def test_an_upload_that_vanished_between_attempts_is_begun_anew(dock: Dock) -> None:
    with pytest.raises(Died):
        dock.ferry(store=Breaking(dock.store, 3, method=PUT))
    dock.lapse()
    dock.store.uploads.clear()  # type: ignore[attr-defined]
    asked = ferry(dock, dock.store)
    verified(dock)
    assert asked.calls.count(PUT) == PARTS


def test_a_part_that_the_server_lost_is_sent_again(dock: Dock) -> None:
    with pytest.raises(Died):
        dock.ferry(store=Breaking(dock.store, 4, method=PUT))
    dock.lapse()
    (upload,) = dock.store.uploads.values()  # type: ignore[attr-defined]
    del upload.parts[0]
    asked = ferry(dock, dock.store)
    verified(dock)
    assert asked.calls.count(PUT) == PARTS - 3 + 1


def test_a_part_that_nobody_recorded_is_not_trusted(dock: Dock) -> None:
    with pytest.raises(Died):
        dock.ferry(store=Breaking(dock.store, 2, method=PUT))
    dock.lapse()
    ((upload_id, _),) = dock.store.uploads.items()  # type: ignore[attr-defined]
    foreign = os.urandom(PART)
    for number in (2, 3):
        dock.store.put_part(dock.key("f"), upload_id, number, foreign, crc64nvme(foreign))
    ferry(dock, dock.store)
    verified(dock)


# -- Complete


def test_a_lost_answer_to_a_complete_that_worked_is_no_failure(dock: Dock) -> None:
    asked = ferry(dock, failing(dock.store, COMPLETE, when="after"))
    verified(dock)
    assert asked.calls.count(COMPLETE) == 1
    assert "abort_upload" not in asked.calls
    assert dock.codes("f") == []


@pytest.mark.parametrize(
    ("code", "status"),
    [("ReadTimeoutError", None), ("InternalError", 500), ("NoETag", 200), ("503", 503)],
)
def test_a_complete_that_left_no_object_is_waited_for_and_sent_again(
    dock: Dock, code: str, status: int | None
) -> None:
    asked = ferry(dock, failing(dock.store, COMPLETE, code, status))
    verified(dock)
    assert asked.calls.count(COMPLETE) == 2
    between = asked.calls[asked.calls.index(COMPLETE) : len(asked.calls)]
    assert between[1:3] == ["find_object", "find_object"]
    assert "abort_upload" not in asked.calls


def test_no_complete_is_sent_again_for_an_upload_that_is_gone(dock: Dock) -> None:
    gone = Meddling(dock.store, COMPLETE, dock.store.uploads.clear)  # type: ignore[attr-defined]
    lost = StoreError(operation=OPERATIONS[COMPLETE], key="k", code="ReadTimeoutError")

    class Unanswered(Breaking):
        """Answers nothing where the upload is not known."""

        def __getattr__(self, name: str) -> Any:
            call = super().__getattr__(name)

            def unanswered(*args: Any) -> Any:
                try:
                    return call(*args)
                except StoreError:
                    if name == COMPLETE:
                        raise lost from None
                    raise

            return unanswered if callable(call) else call

    asked = ferry(dock, Unanswered(gone))
    verified(dock)
    assert (asked.calls.count(COMPLETE), asked.calls.count(CREATE)) == (2, 2)


def test_a_complete_that_returns_without_an_object_is_no_success(dock: Dock) -> None:
    class Empty(Breaking):
        """Answers the first Complete with an empty page."""

        done = False

        def __getattr__(self, name: str) -> Any:
            if name == COMPLETE and not self.done:
                self.done = True
                return lambda *_: None
            return super().__getattr__(name)

    asked = ferry(dock, Empty(dock.store))
    verified(dock)
    assert asked.calls.count(COMPLETE) == 2


def test_a_complete_that_worked_is_decided_without_waiting(dock: Dock) -> None:
    clock = ManualClock()
    ferry(dock, dock.store, clock=clock)
    verified(dock)
    assert clock.waits == []


def test_an_object_that_is_there_already_is_found_before_anything_is_sent(dock: Dock) -> None:
    body = dock.source("f").read_bytes()
    dock.store.put_absent(dock.key("f"), body, crc64nvme(body), "anothers")
    asked = ferry(dock, dock.store)
    verified(dock)
    assert not {CREATE, PUT, COMPLETE} & set(asked.calls)


def test_a_complete_that_ends_after_its_answer_was_given_up_is_not_repeated(dock: Dock) -> None:
    memory = dock.store
    late: list[Callable[[], None]] = []

    class Slow(Breaking):
        def __getattr__(self, name: str) -> Any:
            if name == COMPLETE:
                return self.give_up
            if name == "find_object" and late and self.calls:
                late.pop()()
            return super().__getattr__(name)

        def give_up(self, *args: Any) -> None:
            self.calls.clear()
            late.append(lambda: memory.complete_upload(*args))
            raise StoreError(operation=OPERATIONS[COMPLETE], key="k", code="ReadTimeoutError")

    dock.tune("store", complete_timeout_s=30)
    asked = ferry(dock, Slow(memory))
    verified(dock)
    assert asked.calls.count(COMPLETE) == 1
    assert "abort_upload" not in asked.calls


def test_while_a_complete_may_be_under_way_the_next_owner_sends_none(dock: Dock) -> None:
    dock.tune("store", complete_timeout_s=0.4)
    with pytest.raises(Died):
        dock.ferry(store=Breaking(dock.store, 1, method=COMPLETE))
    dock.lapse()
    upload = dock.ledger.find_upload(RUN.file("f"))
    assert upload is not None
    sent: list[int] = []
    store = Meddling(dock.store, COMPLETE, lambda: sent.append(dock.ledger.now_ms()))
    asked = ferry(dock, store)
    verified(dock)
    assert sent[0] >= upload.complete_sent_ms + 800
    assert PUT not in asked.calls


def test_an_object_completed_by_a_dead_worker_is_verified_without_reading_again(
    dock: Dock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Died):
        dock.ferry(store=Breaking(dock.store, 1, "after", method=COMPLETE))
    dock.lapse()

    def read(*_: object) -> None:
        raise AssertionError("its checksum is on record")

    monkeypatch.setattr("workers.source.SourceFile.read_into", read)
    asked = ferry(dock, dock.store)
    monkeypatch.undo()
    verified(dock)
    assert PUT not in asked.calls


def test_a_complete_refused_for_its_checksum_begins_one_new_upload(dock: Dock) -> None:
    asked = ferry(dock, failing(dock.store, COMPLETE, "BadDigest", 400))
    verified(dock)
    assert asked.calls.count(CREATE) == 2
    assert asked.calls.count(PUT) == 2 * PARTS


def test_a_complete_refused_twice_for_its_checksum_is_a_dead_letter(dock: Dock) -> None:
    store = failing(failing(dock.store, COMPLETE, "BadDigest", 400), COMPLETE, "BadDigest", 400)
    ferry(dock, store)
    assert dock.codes("f") == [(Event.QUARANTINE, "BadDigest")]
    assert dock.stored("f") is None


def test_a_complete_that_misses_a_part_sends_that_part_again(dock: Dock) -> None:
    def lose_a_part() -> None:
        (upload,) = dock.store.uploads.values()  # type: ignore[attr-defined]
        del upload.parts[1]

    asked = ferry(dock, Meddling(dock.store, COMPLETE, lose_a_part))
    verified(dock)
    assert asked.calls.count(PUT) == PARTS + 1
    assert asked.calls.count(CREATE) == 1


def test_a_conflict_between_requests_begins_a_new_upload(dock: Dock) -> None:
    asked = ferry(dock, failing(dock.store, COMPLETE, "ConditionalRequestConflict", 409))
    verified(dock)
    assert asked.calls.count(CREATE) == 2


def test_an_upload_unknown_to_complete_may_be_done_already(dock: Dock) -> None:
    store = failing(dock.store, COMPLETE, "NoSuchUpload", 404, when="after")
    asked = ferry(dock, store)
    verified(dock)
    assert asked.calls.count(CREATE) == 1


def test_a_precondition_that_failed_for_our_own_object_is_success(dock: Dock) -> None:
    store = failing(dock.store, COMPLETE, "PreconditionFailed", 412, when="after")
    asked = ferry(dock, store)
    verified(dock)
    assert asked.calls.count(COMPLETE) == 1


def test_an_identical_object_that_overtook_ours_is_adopted_and_our_upload_ended(dock: Dock) -> None:
    body = dock.source("f").read_bytes()
    store = Meddling(
        dock.store,
        COMPLETE,
        lambda: dock.store.put_absent(dock.key("f"), body, crc64nvme(body), "anothers"),
    )
    ferry(dock, store)
    verified(dock)


def test_a_refused_complete_does_not_make_the_next_attempt_wait(dock: Dock) -> None:
    dock.tune("store", complete_timeout_s=600)
    ferry(dock, failing(dock.store, COMPLETE, "SlowDown", 503))
    assert dock.codes("f") == [(Event.HOLD, "SlowDown")]
    upload = dock.ledger.find_upload(RUN.file("f"))
    assert upload is not None
    assert upload.complete_sent_ms == 0
    dock.finish()
    verified(dock)


def test_denied_completion_is_a_dead_letter_and_keeps_its_parts(dock: Dock) -> None:
    ferry(dock, failing(dock.store, COMPLETE, "AccessDenied", 403))
    assert dock.codes("f") == [(Event.QUARANTINE, "AccessDenied")]
    upload = dock.ledger.find_upload(RUN.file("f"))
    assert upload is not None
    assert len([part for part in upload.parts.values() if part.etag]) == PARTS


def test_a_head_that_fails_after_complete_leaves_the_decision_to_the_next_attempt(
    dock: Dock,
) -> None:
    error = StoreError(operation="HeadObject", key="k", code="500", status=500)
    asked = ferry(dock, Breaking(dock.store, 2, method="find_object", error=error))
    assert dock.codes("f") == [(Event.FAIL, "500")]
    assert asked.calls.count(COMPLETE) == 1
    asked = Breaking(dock.store)
    dock.finish(store=asked)
    verified(dock)
    assert COMPLETE not in asked.calls


def test_an_abort_that_is_denied_stops_nothing(dock: Dock) -> None:
    dock.store.create_upload(dock.key("f"), "orphan")
    ferry(dock, failing(dock.store, "abort_upload", "AccessDenied", 403))
    assert dock.state("f") is State.VERIFIED


def test_where_complete_would_overwrite_the_object_is_looked_for_just_before(dock: Dock) -> None:
    proof = replace(PROVEN, conditional_complete=False)
    other = b"anothers"
    store = Meddling(
        dock.store,
        PUT,
        lambda: dock.store.put_absent(dock.key("f"), other, crc64nvme(other), "anothers"),
        nth=PARTS,
    )
    asked = ferry(dock, store, proof=proof)
    assert COMPLETE not in asked.calls
    assert dock.state("f") is State.QUARANTINED
    assert dock.stored("f") == other


# -- what is on record at each moment


def test_everything_is_on_record_before_the_server_is_asked(dock: Dock) -> None:
    class Watching(Breaking):
        def __getattr__(self, name: str) -> Any:
            call = super().__getattr__(name)
            check = getattr(self, f"check_{name}", None)

            def watched(*args: Any) -> Any:
                if check:
                    check(dock.ledger.find_upload(RUN.file("f")), *args)
                return call(*args)

            return watched

        def check_create_upload(self, upload: Any, key: str, attempt_token: str) -> None:
            assert (upload.attempt_token, upload.upload_id) == (attempt_token, "")

        def check_put_part(
            self, upload: Any, key: str, upload_id: str, number: int, body: memoryview, crc64: int
        ) -> None:
            assert upload.upload_id == upload_id
            assert upload.parts[number] == Part(crc64, len(body), "")
            assert all(upload.parts[earlier].etag for earlier in range(1, number))

        def check_complete_upload(
            self, upload: Any, key: str, upload_id: str, parts: dict[int, Part], crc64: int
        ) -> None:
            assert upload.parts == parts
            assert upload.complete_sent_ms > 0

    store = Watching(dock.store)
    dock.ferry(store=store)
    verified(dock)


def test_several_threads_send_different_parts(dock: Dock) -> None:
    dock.tune("worker", part_threads=3)
    asked = ferry(dock, dock.store)
    verified(dock)
    assert asked.calls.count(PUT) == PARTS


class Crowded:
    """A store that takes a part when two are there, and looks whether a third comes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._came = self._here = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_part(self, *part: Any) -> str:
        with self._changed:
            self._came, self._here = self._came + 1, self._here + 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._here >= 2 or self._came == PARTS, 30)
            self._changed.wait_for(lambda: self._here > 2, 0.2)
            self.most = max(self.most, self._here)
            self._here -= 1
        etag: str = self._store.put_part(*part)
        return etag


def test_no_more_parts_are_in_flight_than_fit_in_memory(dock: Dock) -> None:
    dock.tune("worker", max_bytes_in_flight=3 * PART - 1)
    store = Crowded(dock.store)
    dock.ferry(store=store, part_concurrency=Concurrency(8, 8))
    verified(dock)
    assert store.most == 2


def test_a_part_larger_than_may_be_in_memory_goes_alone(dock: Dock) -> None:
    dock.tune("worker", max_bytes_in_flight=1)
    ferry(dock, dock.store, part_concurrency=Concurrency(8, 8))
    verified(dock)


def test_the_kind_of_an_open_outcome_is_told_after_it_was_looked_into(dock: Dock) -> None:
    store: ObjectStore = dock.store
    for _ in range(2):
        store = failing(store, COMPLETE)
    result = dock.ferry(store=store)["f"]
    assert result.failure is not None
    assert (result.failure.kind, result.state) == (Kind.TRANSIENT, State.FAILED)

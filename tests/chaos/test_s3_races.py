"""Do workers who get in one another's way still end with one good object and one marker?

Numbers are those of research's 25 tests (docs/proof.md).
"""

import os
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from labferry.errors import LabferryError
from labferry.manifest import read_entry, split_lines
from labferry.ports import Leadership, Ledger
from labferry.s3.checksum import crc64nvme
from labferry.states import Event, State
from tests.dock import RUN, Meddling
from tests.faults import Answer, DropAfter, DropBefore, EditReply, EditRequest, FlipByte, rule
from tests.memory_store import Breaking, Died
from tests.quay import ABORT, CREATE, LIST, PART, PART_PUT, PUT, SINGLE_MAX, Quay
from workers.complete import Completer

BODY = os.urandom(2 * PART + 1)
PARTS = 3
WORKERS = 16


def side_by_side(count: int, work: Callable[[], object]) -> list[BaseException]:
    """Let threads do the same at the same moment; return what they raised."""
    raised: list[BaseException] = []
    start = threading.Barrier(count)

    def run() -> None:
        start.wait()
        try:
            work()
        except Exception as error:  # noqa: BLE001  the test looks at what it was
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


# -- 9: no leases


@pytest.mark.parametrize("body", [b"small", os.urandom(SINGLE_MAX + 1)], ids=["small", "large"])
def test_sixteen_workers_under_one_lease_leave_one_good_object_and_nothing_else(
    quay: Quay, body: bytes
) -> None:
    """Test 9: each believes that the file is its own. No answer is lost on the way: what a server
    makes after its client gave up is another test's."""
    quay.dock.tune("store", complete_timeout_s=2)
    quay.write("f", body)
    claims = quay.dock.claim()
    assert side_by_side(WORKERS, lambda: quay.dock.ferry(claims, store=quay.direct)) == []
    quay.finish()
    quay.verified("f")
    assert quay.dock.state("f") is State.VERIFIED


# -- 10: who was paused and comes back


PAUSED = {
    "before a part": ("put_part", 2),
    "before Create": ("create_upload", 1),
    "before Complete": ("complete_upload", 1),
    "before the last look": ("find_object", 2),
}


@pytest.mark.parametrize(("method", "nth"), PAUSED.values(), ids=PAUSED)
def test_a_worker_that_was_paused_while_another_finished_changes_nothing_and_leaves_nothing(
    quay: Quay, method: str, nth: int
) -> None:
    """Test 10: its own clock has not told it yet that the lease is over."""
    quay.write("f", BODY)
    etags: list[str] = []

    def overtake() -> None:
        quay.dock.lapse()
        assert quay.dock.ferry()["f"].state is State.VERIFIED
        found = quay.direct.find_object(quay.dock.key("f"))
        assert found is not None
        etags.append(found.etag + found.attempt_token)

    store = Meddling(quay.dock.store, method, overtake, nth=nth)
    assert quay.ferry(store=store) == {}
    quay.verified("f")
    found = quay.direct.find_object(quay.dock.key("f"))
    assert found is not None
    assert etags == [found.etag + found.attempt_token]
    assert quay.dock.record("f").attempt == 0


def test_a_small_file_put_by_a_worker_that_was_paused_is_refused_and_changes_nothing(
    quay: Quay,
) -> None:
    """Test 10."""
    quay.write("f", b"small")

    def overtake() -> None:
        quay.dock.lapse()
        assert quay.dock.ferry()["f"].state is State.VERIFIED

    assert quay.ferry(store=Meddling(quay.dock.store, "put_fast", overtake)) == {}
    quay.verified("f")
    assert [one.answered for one in quay.proxy.asked(PUT)] == [200, 412]


def test_an_upload_that_its_successor_could_not_end_is_ended_by_who_began_it(quay: Quay) -> None:
    """Test 10: the record names it no longer, so nobody goes on with it."""
    quay.write("f", BODY)
    left: list[str] = []

    def overtake() -> None:
        quay.dock.lapse()
        quay.dock.write("f", b"changed" + BODY)
        assert quay.ferry(rule(DropBefore(), on=ABORT))["f"].state is State.DISCOVERED
        quay.dock.settle("f")
        assert quay.ferry(rule(DropBefore(), on=ABORT))["f"].state is State.VERIFIED
        left.extend(quay.direct.find_uploads(quay.dock.key("f")))
        quay.proxy.script()

    assert quay.dock.ferry(store=Meddling(quay.dock.store, "put_part", overtake, nth=2)) == {}
    assert len(left) == 1
    quay.verified("f")


# -- 16: an upload ended from outside


@pytest.mark.parametrize("nth", [1, 2, PARTS])
def test_an_upload_that_somebody_ends_is_begun_anew_with_the_same_parts(
    quay: Quay, nth: int
) -> None:
    """Test 16: a lifecycle rule, or an operator."""
    quay.write("f", BODY)
    key = quay.dock.key("f")

    def end() -> None:
        (upload_id,) = quay.direct.find_uploads(key)
        quay.direct.abort_upload(key, upload_id)

    quay.ferry(store=Meddling(quay.dock.store, "put_part", end, nth=nth))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(CREATE) == 2
    assert [one.part for one in quay.proxy.asked(PART_PUT)][-PARTS:] == [1, 2, 3]


@pytest.mark.parametrize("method", ["complete_upload", "list_parts"])
def test_an_upload_that_somebody_ends_before_it_is_completed_or_resumed_is_begun_anew(
    quay: Quay, method: str
) -> None:
    """Test 16."""
    quay.write("f", BODY)
    key = quay.dock.key("f")
    if method == "list_parts":
        with pytest.raises(Died):
            quay.dock.ferry(store=Breaking(quay.dock.store, 2, method="put_part"))
        quay.dock.lapse()

    def end() -> None:
        for upload_id in quay.direct.find_uploads(key):
            quay.direct.abort_upload(key, upload_id)

    quay.ferry(store=Meddling(quay.dock.store, method, end))
    quay.verified("f")
    assert quay.dock.record("f").attempt == 0


# -- 24: the marker


def sealed(quay: Quay, *names: str) -> None:
    for name in names:
        quay.write(name, name.encode())
    quay.finish()
    quay.verified(*names)
    assert quay.dock.ledger.seal(RUN, [], len(names))


def completer(quay: Quay, ledger: Ledger | None = None, **options: Any) -> Completer:
    return Completer(
        ledger=ledger or quay.dock.ledger,
        store=quay.dock.store,
        layout=quay.dock.layout,
        **options,
    )


class EverybodysLock(Leadership):
    """A lock that everybody gets."""

    def keep(self) -> bool:
        return True

    def extend(self) -> bool:
        return True

    def release(self) -> None:
        """Nothing was locked."""


class NoLock:
    """A ledger whose locks everybody gets."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def leadership(self, name: str, *, keep_s: float) -> Leadership:
        return EverybodysLock()


def marker_is_one(quay: Quay, generation: int = 1) -> None:
    """Demand one marker and one manifest that names every file, by asking the server itself."""
    layout, ledger = quay.dock.layout, quay.dock.ledger
    below = layout.marker(RUN, generation).rpartition("/")[0] + "/"
    keys = {one.key for one in quay.direct.list_objects(below)}
    assert keys == {layout.marker(RUN, generation), layout.manifest(RUN, generation)}
    assert ledger.markers(RUN) == {generation}
    _, *entries = split_lines(quay.direct.read(layout.manifest(RUN, generation)))
    named = {read_entry(line).path for line in entries}
    assert named == {path for path, one in ledger.records(RUN) if one.state is State.VERIFIED}


def test_sixteen_completers_without_a_lock_write_one_marker(quay: Quay) -> None:
    """Test 24."""
    sealed(quay, "a", "b", "c")
    quay.proxy.script()
    ledger = NoLock(quay.dock.ledger)
    assert side_by_side(WORKERS, lambda: completer(quay, ledger).complete(RUN)) == []
    marker_is_one(quay)
    created = [one for one in quay.proxy.asked(PUT) if one.upstream == [200]]
    assert len(created) == 2


LOST = {
    "dropped": DropAfter(),
    "empty": Answer(applied=True),
    "500": Answer(500, "InternalError", applied=True),
    "412": Answer(412, "PreconditionFailed", applied=True),
}


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_a_lost_answer_to_manifest_or_marker_is_read_back_and_no_failure(
    quay: Quay, fault: Any
) -> None:
    """Test 24."""
    sealed(quay, "a")
    quay.proxy.script(rule(fault, on=PUT))
    assert completer(quay).complete(RUN)
    marker_is_one(quay)
    assert quay.proxy.count(PUT) == 2


def test_sixteen_completers_whose_every_other_answer_is_lost_write_one_marker(quay: Quay) -> None:
    """Test 24."""
    sealed(quay, "a", "b")
    ledger = NoLock(quay.dock.ledger)
    quay.proxy.script(rule(*LOST.values(), on=PUT, chance=0.5))
    raised = side_by_side(WORKERS, lambda: completer(quay, ledger).complete(RUN))
    assert all(isinstance(error, LabferryError) for error in raised)
    quay.proxy.script()
    assert completer(quay).complete(RUN)
    marker_is_one(quay)


@pytest.mark.parametrize("state", [Event.QUARANTINE, Event.FAIL])
def test_a_run_with_a_file_that_is_not_verified_gets_no_marker(quay: Quay, state: Event) -> None:
    """Test 24: sealed, and then one file fails."""
    quay.write("a", b"a")
    quay.write("b", b"b")
    assert quay.dock.ledger.seal(RUN, [], 2)
    denied = state is Event.QUARANTINE
    answer = Answer(400, "EntityTooLarge") if denied else Answer(500, "InternalError")
    quay.ferry(rule(answer, on=PUT, key="*/b"))
    quay.proxy.script()
    assert not completer(quay).complete(RUN)
    assert quay.proxy.count(PUT) + quay.proxy.count(LIST) == 0
    assert quay.dock.ledger.markers(RUN) == set()


def test_a_listing_that_lies_is_no_ground_for_a_marker(quay: Quay) -> None:
    """Tests 14 and 24: a page that says it goes on, and never does."""
    sealed(quay, "a", "b")
    more = b"<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
    goes_on = EditReply(body=lambda body: body.replace(b"<IsTruncated>false</IsTruncated>", more))
    quay.proxy.script(rule(goes_on, on=LIST))
    with pytest.raises(LabferryError):
        completer(quay).complete(RUN)
    assert quay.proxy.count(LIST) <= 3
    assert quay.dock.ledger.markers(RUN) == set()
    assert {quay.dock.state(name) for name in ("a", "b")} == {State.VERIFIED}
    quay.proxy.script()
    assert completer(quay).complete(RUN)
    marker_is_one(quay)


def test_a_file_that_a_listing_leaves_out_is_asked_for_by_name(quay: Quay) -> None:
    """Tests 14 and 24: it is lost only if it is not there, and then there is no marker."""
    sealed(quay, "a", "b")
    shorter = EditReply(body=lambda body: re.sub(rb"<Contents>.*?</Contents>", b"", body, count=1))
    quay.proxy.script(rule(shorter, on=LIST))
    assert completer(quay).complete(RUN)
    marker_is_one(quay)


def test_a_file_that_is_neither_listed_nor_there_is_lost_and_there_is_no_marker(
    quay: Quay,
) -> None:
    """Test 24."""
    sealed(quay, "a", "b")
    quay.direct.delete(quay.dock.key("a"))
    assert not completer(quay).complete(RUN)
    assert quay.dock.codes("a") == [(Event.LOSE, "object_missing")]
    assert quay.dock.state("b") is State.VERIFIED
    assert quay.dock.ledger.markers(RUN) == set()


CONDITIONS: dict[str, str | None] = {"If-None-Match": None}
CHECKSUMS: dict[str, str | None] = {"x-amz-checksum-crc64nvme": None}


def test_where_conditions_are_ignored_another_manifest_is_not_overwritten(quay: Quay) -> None:
    """Test 24."""
    sealed(quay, "a")
    manifest = quay.dock.layout.manifest(RUN, 1)
    quay.direct.put_absent(manifest, b"anothers", crc64nvme(b"anothers"), "anothers")
    quay.proxy.script(rule(EditRequest(CONDITIONS), on=PUT))
    with pytest.raises(LabferryError):
        completer(quay).complete(RUN)
    assert b"".join(quay.direct.read(manifest)) == b"anothers"
    assert quay.dock.ledger.markers(RUN) == set()


@pytest.mark.parametrize("nth", [1, 2], ids=["manifest", "marker"])
def test_where_checksums_are_ignored_a_damaged_manifest_or_marker_completes_no_run(
    quay: Quay, nth: int
) -> None:
    """Tests 12 and 24."""
    sealed(quay, "a")

    def flipped(body: bytes) -> bytes:
        return body[:-2] + bytes([body[-2] ^ 1]) + body[-1:]

    quay.proxy.script(rule(EditRequest(CHECKSUMS, flipped), on=PUT, nth=nth))
    with pytest.raises(LabferryError):
        completer(quay).complete(RUN)
    assert quay.dock.ledger.markers(RUN) == set()


def test_a_marker_damaged_on_the_way_is_refused_and_written_by_the_next_completer(
    quay: Quay,
) -> None:
    """Tests 11 and 24."""
    sealed(quay, "a")
    quay.proxy.script(rule(FlipByte(3), on=PUT, nth=2))
    with pytest.raises(LabferryError):
        completer(quay).complete(RUN)
    assert quay.dock.ledger.markers(RUN) == set()
    assert completer(quay).complete(RUN)
    marker_is_one(quay)

"""Does `labferry reconcile` see what is wrong, end what is nobody's, and nothing that is live?"""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from labferry.audit import Act, read_line
from labferry.bucket_runs import runs_in_sight
from labferry.errors import StoreError
from labferry.identity import RunKey
from labferry.records import Completion, Fingerprint, Note, Step
from labferry.s3.checksum import crc64nvme
from labferry.states import Event, State
from ops.drift import Comparison, Drift, Kind
from ops.orphans import OrphanSearch, Uploads
from tests.dock import RUN
from tests.faults import Answer, EditReply, rule
from tests.memory_store import Breaking, Died
from tests.quay import ABORT, COMPLETE, LIST, LIST_UPLOADS, PART, Quay
from workers.complete import Completer

BODY = os.urandom(PART + 1)
ACT = Act(actor="ada@lab", reason="LIMS-7: cleaning up", what="reconcile --abort-orphans")
OF_2010 = EditReply(
    body=lambda body: re.sub(rb"(<Initiated>).*?(<)", rb"\g<1>2010-11-10T23:00:09Z\2", body)
)
NO_UPLOADS = Answer(
    body=b"<ListMultipartUploadsResult><Bucket>b</Bucket></ListMultipartUploadsResult>"
)
#: MinIO: a prefix that is no key lists nothing.
EXACT_KEYS = rule(NO_UPLOADS, on=LIST_UPLOADS, key="*/")


def look(quay: Quay, run: RunKey = RUN) -> Drift:
    dock = quay.dock
    return Comparison(
        ledger=dock.ledger,
        store=dock.store,
        layout=dock.layout,
        roots={RUN.instrument: dock.root},
    ).look(run)


def wrong(drift: Drift) -> dict[Kind, list[str]]:
    return {kind: names.first for kind, names in drift.found.items() if names}


def search(quay: Quay, act: Act | None = None, *, instruments: Any = ("scope",)) -> Uploads:
    dock = quay.dock
    one = OrphanSearch(
        ledger=dock.ledger, store=dock.store, layout=dock.layout, instruments=instruments
    )
    return one.look(dock.ledger.runs(), None, act)


def half_sent(quay: Quay, name: str) -> str:
    """Let a worker die after the first part; return its upload, which is on record."""
    quay.write(name, BODY)
    with pytest.raises(Died):
        quay.dock.ferry(store=Breaking(quay.dock.store, 2, method="put_part"))
    upload = quay.dock.ledger.find_upload(RUN.file(name))
    assert upload is not None
    return upload.upload_id


def stray(quay: Quay, name: str) -> str:
    """Leave an upload open that is on no record."""
    upload_id = quay.direct.create_upload(quay.dock.key(name), "a dead attempt")
    quay.direct.put_part(quay.dock.key(name), upload_id, 1, b"x", crc64nvme(b"x"))
    return upload_id


@pytest.fixture(params=["dated 2010", "exact keys alone"])
def lying(quay: Quay, request: pytest.FixtureRequest) -> Iterator[Quay]:
    """A server whose listing of uploads lies in one of the known ways."""
    is_dated = request.param == "dated 2010"
    quay.proxy.script(rule(OF_2010, on=LIST_UPLOADS) if is_dated else EXACT_KEYS)
    yield quay
    quay.proxy.script()


def test_nothing_is_wrong_where_all_agree(quay: Quay) -> None:
    for name in ("a", "d/ü%25", "large"):
        quay.write(name, BODY if name == "large" else name.encode())
    quay.ferry()
    assert wrong(look(quay)) == {}
    assert search(quay).orphans.count == 0


def test_what_is_gone_other_or_unknown_is_reported_by_name(quay: Quay) -> None:
    dock = quay.dock
    for name in ("gone", "other", "late", "good"):
        quay.write(name, name.encode())
    quay.ferry()
    quay.direct.delete(dock.key("gone"))
    quay.direct.delete(dock.key("other"))
    quay.direct.put_absent(dock.key("other"), b"else", crc64nvme(b"else"), "another")
    quay.direct.put_absent(dock.key("strange"), b"x", crc64nvme(b"x"), "another")
    quay.write("vanished", b"never sent")
    dock.source("vanished").unlink()
    marker = dock.layout.marker(RUN, 1)
    quay.direct.put_document(marker, b"{}")
    asked = quay.proxy.count()
    assert wrong(look(quay)) == {
        Kind.MISSING: [dock.key("gone")],
        Kind.DIFFERENT: [dock.key("other")],
        Kind.UNKNOWN: [dock.key("strange")],
        Kind.SOURCELESS: ["vanished"],
        Kind.UNKNOWN_MARKER: [marker],
    }
    written = {"PutObject", "DeleteObject", ABORT, COMPLETE, "CreateMultipartUpload"}
    assert not written & set(quay.proxy.operations[asked:])
    assert dock.state("gone") is State.VERIFIED


def test_a_name_that_no_key_can_hold_is_not_said_to_be_gone(quay: Quay) -> None:
    note = Note(event=Event.REFUSE, kind="permanent", code="bad_name", message="too long")
    gone = Note(event=Event.REFUSE, kind="permanent", code="ENAMETOOLONG", message="too long")
    quay.dock.run.mkdir(parents=True, exist_ok=True)
    ledger = quay.dock.ledger
    ledger.discover(RUN, [(path, Fingerprint(1, 2, 3, 4)) for path in ("made~0123", "other")])
    steps = [Step(path="made~0123", note=note), Step(path="other", note=gone)]
    ledger.move(RUN, Event.REFUSE, steps)
    assert wrong(look(quay)) == {Kind.SOURCELESS: ["other"]}


def test_a_marker_that_was_removed_is_reported(quay: Quay) -> None:
    quay.write("a", b"a")
    quay.ferry()
    done = Completion(
        generation=1,
        file_count=1,
        manifest_key="m",
        manifest_digest="d",
        marker_key="c",
        event="{}",
    )
    quay.dock.ledger.complete(RUN, done)
    assert wrong(look(quay)) == {Kind.LOST_MARKER: [quay.dock.layout.marker(RUN, 1)]}


def test_a_share_that_is_not_here_is_not_taken_for_a_source_that_is_gone(quay: Quay) -> None:
    quay.write("a", b"a")
    quay.ferry()
    quay.dock.run.rename(quay.dock.root.parent / "elsewhere")
    drift = look(quay)
    assert wrong(drift) == {}
    assert not drift.is_source_seen


def test_a_run_that_is_over_needs_no_source(quay: Quay) -> None:
    """It may have been deleted by right, and a host without shares can say that all is well."""
    quay.write("a", b"a")
    quay.ferry()
    ledger = quay.dock.ledger
    assert ledger.seal(RUN, (), 0)
    Completer(ledger=ledger, store=quay.dock.store, layout=quay.dock.layout).complete(RUN)
    quay.dock.run.rename(quay.dock.root.parent / "elsewhere")
    drift = look(quay)
    assert wrong(drift) == {}
    assert drift.is_source_seen


def test_what_a_listing_leaves_out_is_asked_for_before_it_is_called_missing(quay: Quay) -> None:
    quay.write("a", b"a")
    quay.ferry()
    empty = b"<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated></ListBucketResult>"
    quay.proxy.script(rule(Answer(body=empty), on=LIST))
    assert wrong(look(quay)) == {}


def test_a_run_of_which_the_bucket_alone_knows_is_looked_at(quay: Quay) -> None:
    other = RunKey("scope", "lost run")
    key = quay.dock.layout.raw(other.file("a"))
    quay.direct.put_absent(key, b"x", crc64nvme(b"x"), "lost")
    strange: list[str] = []
    quay.direct.put_absent(f"{quay.dock.layout.prefix}/raw/sc ope/r/a", b"x", crc64nvme(b"x"), "x")
    runs = runs_in_sight(quay.dock.store, quay.dock.layout, strange)
    assert runs == [other]
    assert len(strange) == 1
    assert wrong(look(quay, other)) == {Kind.UNKNOWN: [key]}


def test_what_nobody_owns_is_found_and_ended_and_what_is_live_is_not(lying: Quay) -> None:
    """Issue 4, point 7: `Initiated` lies, or prefixes list nothing."""
    dock = lying.dock
    lying.write("done", BODY)
    dock.ferry()
    parked = half_sent(lying, "parked")
    dock.lapse()
    orphans = {stray(lying, "done"), stray(lying, "parked")}
    lying.write("live", BODY)
    claims = dock.ledger.claim(RUN, 0, ["live"], 1)
    with pytest.raises(Died):
        dock.ferry(claims, store=Breaking(dock.store, 2, method="put_part"))
    live = {*lying.uploads("live"), stray(lying, "live")}  # one is not on record yet
    aborts = lying.proxy.count(ABORT)

    found = search(lying)
    assert (found.owned, found.orphans.count, found.aborted, found.foreign) == (3, 2, 0, 0)
    assert lying.proxy.count(ABORT) == aborts
    assert search(lying, ACT).remaining == 0
    assert (lying.uploads("done"), lying.uploads("parked")) == ([], [parked])
    assert set(lying.uploads("live")) == live
    acts = [read_line(line).act for line in dock.ledger.audit(RUN)]
    assert {act.selector.split()[-1] for act in acts} == orphans
    assert {act.reason for act in acts} == {ACT.reason}
    assert search(lying).orphans.count == 0

    lying.proxy.script()
    dock.lapse()
    dock.finish()
    for name in ("done", "parked", "live"):
        lying.verified(name)


def test_what_a_closed_run_left_open_is_nobodys(quay: Quay) -> None:
    """A file that was given up has its plan on record still."""
    upload_id = half_sent(quay, "given up")
    quay.dock.lapse()
    quay.dock.ledger.act(RUN, Event.CLOSE, [Step(path="given up")], ACT)
    assert search(quay).orphans.first == [f"{quay.dock.key('given up')} {upload_id}"]
    assert search(quay, ACT).aborted == 1
    assert quay.uploads("given up") == []


def test_uploads_of_an_instrument_that_is_not_known_here_are_left(quay: Quay) -> None:
    """Another site may use the same bucket, with a ledger of its own."""
    key = quay.dock.layout.raw(RunKey("theirs", "run").file("f"))
    upload_id = quay.direct.create_upload(key, "another site's")
    found = search(quay, ACT)
    assert (found.foreign, found.orphans.count) == (1, 0)
    assert quay.direct.find_uploads(key) == [upload_id]
    assert search(quay, ACT, instruments=("theirs",)).aborted == 1


def test_an_upload_that_cannot_be_ended_is_reported_and_stops_no_other(quay: Quay) -> None:
    quay.write("a", b"small")
    quay.ferry()
    stray(quay, "a")
    stray(quay, "b")
    quay.proxy.script(rule(Answer(403, "AccessDenied"), on=ABORT, key="*/a"))
    found = search(quay, ACT)
    assert (found.orphans.count, found.aborted, found.left.count) == (2, 1, 1)
    assert quay.uploads("b") == []


def test_where_uploads_cannot_be_listed_that_is_said(quay: Quay) -> None:
    quay.proxy.script(rule(Answer(501, "NotImplemented"), on=LIST_UPLOADS))
    with pytest.raises(StoreError):
        search(quay)

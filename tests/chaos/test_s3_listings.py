"""Does a listing that lies neither loop for ever, nor lose a part, nor end a live upload?

Numbers are those of research's 25 tests (docs/proof.md).
"""

import os
import re
from collections.abc import Callable

import pytest

from labferry.s3.checksum import crc64nvme
from labferry.states import Event, State
from labferry.stored import ServerPart
from tests.dock import RUN
from tests.faults import Answer, EditReply, RepeatAnswer, Rule, rule
from tests.memory_store import Breaking, Died
from tests.quay import (
    ABORT,
    COMPLETE,
    CREATE,
    LIST_PARTS,
    LIST_UPLOADS,
    PART,
    PART_PUT,
    Quay,
)

BODY = os.urandom(2 * PART + 1)
PARTS = 3


def half_sent(quay: Quay, name: str = "f", parts: int = 2) -> str:
    """Let a worker die after so many parts; return its upload id."""
    quay.write(name, BODY)
    with pytest.raises(Died):
        quay.dock.ferry(store=Breaking(quay.dock.store, parts + 1, method="put_part"))
    quay.dock.lapse()
    upload = quay.dock.ledger.find_upload(RUN.file(name))
    assert upload is not None
    return upload.upload_id


def truncated(marker: bytes | None) -> Callable[[bytes], bytes]:
    """Say that the listing goes on, and where."""

    def edit(body: bytes) -> bytes:
        body = re.sub(rb"<NextPartNumberMarker>.*?</NextPartNumberMarker>", b"", body)
        cursor = b"" if marker is None else b"<NextPartNumberMarker>%s</NextPartNumberMarker>"
        more = b"<IsTruncated>true</IsTruncated>" + (cursor % marker if marker else cursor)
        return re.sub(rb"<IsTruncated>false</IsTruncated>", more, body)

    return edit


class Counting:
    """Says that there is one more page, again and again."""

    def __init__(self) -> None:
        self.marker = 0

    def __call__(self, body: bytes) -> bytes:
        self.marker += 1
        return truncated(b"%d" % self.marker)(body)


# -- 14: the parts of an upload


def test_a_part_that_is_listed_twice_is_one_part(quay: Quay) -> None:
    """Test 14: SeaweedFS lists every attempt at a part."""
    upload_id = half_sent(quay)
    key, first = quay.dock.key("f"), BODY[:PART]
    quay.direct.put_part(key, upload_id, 1, first, crc64nvme(first))
    quay.ferry()
    quay.verified("f")
    assert quay.proxy.count(CREATE) == 0


def test_parts_that_nobody_recorded_are_sent_again(quay: Quay) -> None:
    """Test 14."""
    upload_id = half_sent(quay, parts=1)
    key, foreign = quay.dock.key("f"), os.urandom(PART)
    for number in (1, 3):
        quay.direct.put_part(key, upload_id, number, foreign, crc64nvme(foreign))
    listed = quay.direct.list_parts(key, upload_id)
    assert ServerPart(3, _etag(quay, key, upload_id, 3), PART) in listed
    quay.ferry()
    quay.verified("f")
    assert 3 in {one.part for one in quay.proxy.asked(PART_PUT)}


def _etag(quay: Quay, key: str, upload_id: str, number: int) -> str:
    listed = quay.direct.list_parts(key, upload_id)
    return next(part.etag for part in listed if part.number == number)


LYING = {
    "no cursor": lambda: EditReply(body=truncated(None)),
    "a cursor that does not grow": lambda: EditReply(body=truncated(b"1")),
    "a cursor of nothing": lambda: EditReply(body=truncated(b"0")),
    "pages without end": lambda: EditReply(body=Counting()),
    "HTML": lambda: Answer(body=b"<html></html>"),
    "nothing": Answer,
}


@pytest.mark.parametrize("make", LYING.values(), ids=LYING)
def test_a_listing_of_parts_that_lies_costs_one_attempt_and_no_endless_loop(
    quay: Quay, make: Callable[[], EditReply]
) -> None:
    """Test 14: and the parts on record are not sent again when it is honest again."""
    quay.dock.tune("store", max_parts=10)
    upload_id = half_sent(quay)
    quay.ferry(rule(make(), on=LIST_PARTS))
    assert [event for event, _ in quay.dock.codes("f")] == [Event.FAIL]
    assert quay.dock.record("f").attempt == 1
    assert 1 <= quay.proxy.count(LIST_PARTS) <= 50
    assert quay.proxy.count(PART_PUT) + quay.proxy.count(ABORT) == 0
    assert quay.uploads("f") == [upload_id]
    quay.finish()
    quay.verified("f")
    assert quay.proxy.count(PART_PUT) == PARTS - 2
    assert quay.proxy.count(CREATE) == 0


def test_an_empty_listing_of_an_upload_that_was_completed_is_no_reason_to_send_again(
    quay: Quay,
) -> None:
    """Test 14: some servers list a finished upload as one without parts. HEAD comes first."""
    quay.dock.tune("store", complete_timeout_s=0.05)
    quay.write("f", BODY)
    with pytest.raises(Died):
        quay.dock.ferry(store=Breaking(quay.dock.store, 1, "after", method="complete_upload"))
    empty = EditReply(body=lambda body: re.sub(rb"<Part>.*?</Part>", b"", body))
    quay.finish(rule(empty, on=LIST_PARTS))
    quay.verified("f")
    assert quay.proxy.count(PART_PUT) + quay.proxy.count(COMPLETE) == 0


# -- 15: the uploads of a key


def entry(key: str, upload_id: str, initiated: str = "2010-11-10T23:00:09.000Z") -> bytes:
    text = (
        f"<Upload><Key>{key}</Key><UploadId>{upload_id}</UploadId>"
        f"<Initiated>{initiated}</Initiated></Upload>"
    )
    return text.encode()


def with_entries(*entries: bytes) -> EditReply:
    added = b"".join(entries)
    return EditReply(
        body=lambda body: body.replace(
            b"</ListMultipartUploadsResult>", added + b"</ListMultipartUploadsResult>"
        )
    )


def test_uploads_of_other_keys_below_the_same_prefix_are_left_alone(quay: Quay) -> None:
    """Test 15: `f` lists `f2` as well, some servers an entry without a key, or dates of 2010."""
    other = half_sent(quay, "f2")
    claims = quay.dock.claim()  # f2 is somebody's
    quay.write("f", BODY)
    lying = with_entries(entry("", "u0"), entry(quay.dock.key("f") + "!", "u1"))
    dated = EditReply(
        body=lambda body: re.sub(
            rb"<Initiated>.*?</Initiated>", b"<Initiated>2010-11-10T23:00:09.000Z</Initiated>", body
        )
    )
    quay.ferry(rule(lying, on=LIST_UPLOADS, nth=1), rule(dated, on=LIST_UPLOADS))
    quay.verified("f")
    assert quay.proxy.count(ABORT) == 0
    assert quay.uploads("f2") == [other]
    quay.ferry(claims=claims)
    quay.verified("f2")
    assert quay.proxy.count(PART_PUT) == PARTS - 2


def test_the_upload_on_record_is_kept_however_old_it_is_said_to_be(quay: Quay) -> None:
    """Test 15."""
    upload_id = half_sent(quay)
    dated = EditReply(
        body=lambda body: re.sub(rb"(<Initiated>).*?(<)", rb"\g<1>2010-11-10T23:00:09Z\2", body)
    )
    quay.ferry(rule(dated, on=LIST_UPLOADS))
    quay.verified("f")
    assert quay.proxy.count(ABORT) == 0
    assert upload_id not in quay.uploads("f")


CANNOT_LIST = [(403, "AccessDenied"), (501, "NotImplemented"), (405, "MethodNotAllowed")]


@pytest.mark.parametrize(("status", "code"), CANNOT_LIST)
def test_where_uploads_cannot_be_listed_files_go_up_all_the_same(
    quay: Quay, status: int, code: str
) -> None:
    """Test 15."""
    quay.write("f", BODY)
    quay.ferry(rule(Answer(status, code), on=LIST_UPLOADS))
    quay.verified("f")


def uploads_page(more: str) -> Rule:
    body = f"<ListMultipartUploadsResult><Bucket>b</Bucket>{more}</ListMultipartUploadsResult>"
    return rule(Answer(body=body.encode()), on=LIST_UPLOADS)


@pytest.mark.parametrize(
    "more",
    [
        "<IsTruncated>true</IsTruncated>",
        "<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
        "<NextUploadIdMarker>u</NextUploadIdMarker>",
    ],
    ids=["no cursor", "the same cursor"],
)
def test_a_listing_of_uploads_that_lies_costs_one_attempt_and_no_endless_loop(
    quay: Quay, more: str
) -> None:
    """Test 15."""
    quay.write("f", BODY)
    quay.ferry(uploads_page(more))
    assert quay.dock.state("f") is State.FAILED
    assert 1 <= quay.proxy.count(LIST_UPLOADS) <= 3
    quay.finish()
    quay.verified("f")


def test_a_listing_of_uploads_that_was_of_another_moment_ends_no_upload_in_use(quay: Quay) -> None:
    """Test 15: some servers list an ended upload for a while, or answer from a cache."""
    upload_id = half_sent(quay)
    quay.proxy.script(rule(RepeatAnswer(), on=LIST_UPLOADS))
    quay.dock.store.find_uploads(quay.dock.key("f"))
    quay.dock.ferry()
    quay.verified("f")
    assert quay.proxy.count(ABORT) <= 1
    assert upload_id not in quay.uploads("f")

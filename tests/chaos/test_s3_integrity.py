"""Are bytes that were damaged, or that a server does not vouch for, never called verified?

Numbers are those of research's 25 tests (docs/proof.md).
"""

import os
import re
from dataclasses import replace

import pytest

from labferry.records import Level, Proof
from labferry.s3.checksum import crc64nvme
from labferry.s3.probe import prove
from labferry.s3.store import open_store
from labferry.states import Event, State
from tests.dock import PROVEN
from tests.faults import (
    Answer,
    DropAfter,
    DropBefore,
    EditReply,
    EditRequest,
    FlipByte,
    Rule,
    rule,
)
from tests.quay import ABORT, COMPLETE, CREATE, GET, HEAD, PART_PUT, PUT, SINGLE_MAX, Quay, behind

BODY = os.urandom(SINGLE_MAX + 1)
WRONG = "AAAAAAAAAAA="

CHECKSUMS: dict[str, str | None] = dict.fromkeys(
    (
        "Content-MD5",
        "x-amz-checksum-algorithm",
        "x-amz-checksum-crc64nvme",
        "x-amz-checksum-type",
        "x-amz-sdk-checksum-algorithm",
    )
)


def without_checksums(body: bytes) -> bytes:
    return re.sub(rb"<Checksum\w+>.*?</Checksum\w+>", b"", body)


def flipped(body: bytes) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])


#: A server that is told no checksum checks none, and has none to show.
CREDULOUS = [
    rule(EditRequest(CHECKSUMS, without_checksums), on=COMPLETE),
    rule(EditRequest(CHECKSUMS), on=f"{PUT} {PART_PUT} {CREATE}"),
]


def level(quay: Quay, name: str = "f") -> Level:
    evidence = quay.dock.record(name).evidence
    assert evidence is not None
    return evidence.level


# -- 11: a wrong byte on the wire


@pytest.mark.parametrize(("name", "body", "sent"), [(PUT, b"small", 2), (PART_PUT, BODY, 2)])
def test_a_body_damaged_once_on_the_way_is_refused_and_sent_again(
    quay: Quay, name: str, body: bytes, sent: int
) -> None:
    """Test 11."""
    quay.write("f", body)
    quay.ferry(rule(FlipByte(-1), on=name, nth=1))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(name) == sent
    assert quay.proxy.log[[one.fault for one in quay.proxy.log].index("FlipByte")].answered == 400


@pytest.mark.parametrize(
    ("name", "body", "lost"),
    [(PUT, b"small", [1]), (PART_PUT, BODY, [1]), (PART_PUT, BODY, [1, 2])],
)
def test_a_body_damaged_after_an_answer_was_lost_is_sent_again_all_the_same(
    quay: Quay, name: str, body: bytes, lost: list[int]
) -> None:
    """Test 11: what counts is how often it was damaged, not how often it was sent."""
    quay.write("f", body)
    flip = rule(FlipByte(-1), on=name, nth=lost[-1] + 1)
    quay.ferry(rule(DropBefore(), on=name, nth=lost), flip)
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(name) == len(lost) + 2


@pytest.mark.parametrize(("name", "body"), [(PUT, b"small"), (PART_PUT, BODY)])
def test_a_body_damaged_twice_is_a_dead_letter_and_no_object(
    quay: Quay, name: str, body: bytes
) -> None:
    """Test 11."""
    quay.write("f", body)
    quay.ferry(rule(FlipByte(-1), on=name, nth=[1, 2]))
    assert quay.dock.codes("f") == [(Event.QUARANTINE, "BadDigest")]
    assert quay.proxy.count(name) == 2
    quay.absent("f")


COMPLETE_EDITS = {
    "of the whole": EditRequest({"x-amz-checksum-crc64nvme": WRONG}),
    "of a part": EditRequest(
        body=lambda body: re.sub(rb"(<ChecksumCRC64NVME>).*?(<)", rb"\1AAAAAAAAAAA=\2", body)
    ),
}


@pytest.mark.parametrize("edit", COMPLETE_EDITS.values(), ids=COMPLETE_EDITS)
def test_a_complete_with_a_wrong_checksum_is_refused_and_the_file_sent_anew_once(
    quay: Quay, edit: EditRequest
) -> None:
    """Test 11."""
    quay.write("f", BODY)
    quay.ferry(rule(edit, on=COMPLETE, nth=1))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.asked(COMPLETE)[0].answered == 400
    assert quay.proxy.count(CREATE) == 2

    quay.write("g", BODY)
    quay.ferry(rule(edit, on=COMPLETE))
    assert quay.dock.codes("g") == [(Event.QUARANTINE, "BadDigest")]
    assert quay.proxy.count(COMPLETE) == 2
    quay.absent("g")
    assert quay.uploads("g") == []


def test_a_complete_with_a_wrong_checksum_after_a_conflict_is_not_yet_a_dead_letter(
    quay: Quay,
) -> None:
    """Test 11."""
    quay.write("f", BODY)
    conflict = rule(Answer(409, "ConditionalRequestConflict"), on=COMPLETE, nth=1)
    quay.ferry(conflict, rule(COMPLETE_EDITS["of the whole"], on=COMPLETE, nth=2))
    quay.verified("f")
    quay.untouched("f")
    assert quay.proxy.count(COMPLETE) == 3


# -- 12: a server that does not verify


def probed(quay: Quay, *rules: Rule) -> Proof:
    """Take the endpoint's proof through these rules."""
    quay.proxy.script(*rules)
    store = open_store(behind(quay.proxy, quay.dock.settings.store))
    return prove(store, quay.dock.layout, now_ms=0)


def test_a_server_that_verifies_nothing_is_seen_through(quay: Quay) -> None:
    """Test 12: and the real one is not."""
    assert probed(quay) == PROVEN
    proof = probed(quay, *CREDULOUS)
    assert proof == replace(
        PROVEN,
        refuses_wrong_checksum=False,
        attests_checksum=False,
        full_object=False,
        content_md5=False,
    )


@pytest.mark.parametrize("body", [b"small", BODY], ids=["small", "large"])
def test_on_a_server_that_verifies_nothing_every_object_is_read_back(
    quay: Quay, body: bytes
) -> None:
    """Test 12."""
    proof = probed(quay, *CREDULOUS)
    quay.write("f", body)
    quay.ferry(*CREDULOUS, proof=proof)
    quay.verified("f")
    assert level(quay) is Level.D
    assert quay.proxy.count(GET) == 1


@pytest.mark.parametrize(("name", "body"), [(PUT, b"small"), (PART_PUT, BODY)])
def test_on_such_a_server_a_damaged_byte_is_found_by_reading_back(
    quay: Quay, name: str, body: bytes
) -> None:
    """Test 12."""
    proof = probed(quay, *CREDULOUS)
    quay.write("f", body)
    quay.ferry(rule(EditRequest(CHECKSUMS, flipped), on=name, nth=1), *CREDULOUS, proof=proof)
    assert quay.dock.codes("f") == [(Event.QUARANTINE, "checksum_mismatch")]
    assert quay.dock.state("f") is State.QUARANTINED
    # It is kept as it is, for whoever looks into it.
    assert quay.direct.find_object(quay.dock.key("f")) is not None


@pytest.mark.parametrize("body", [b"small", BODY], ids=["small", "large"])
def test_a_server_that_obeys_no_condition_is_seen_through_and_asked_first(
    quay: Quay, body: bytes
) -> None:
    """Test 12: If-None-Match is accepted and ignored."""
    ignored: dict[str, str | None] = {"If-None-Match": None}
    ignores = rule(EditRequest(ignored), on=f"{PUT} {COMPLETE}")
    proof = probed(quay, ignores)
    assert not proof.conditional_put
    assert not proof.conditional_complete
    quay.write("f", body)
    quay.direct.put_absent(quay.dock.key("f"), b"raw", crc64nvme(b"raw"), "anothers")
    quay.ferry(ignores, proof=proof)
    assert quay.dock.codes("f") == [(Event.QUARANTINE, "object_conflict")]
    assert b"".join(quay.direct.read(quay.dock.key("f"))) == b"raw"
    assert quay.proxy.count(PUT) + quay.proxy.count(COMPLETE) == 0
    quay.write("g", body)
    quay.ferry(ignores, proof=proof)
    quay.verified("g")


# -- 13: checksum headers stripped, ETags that are no MD5

SILENT: dict[str, str | None] = {"x-amz-checksum-crc64nvme": None, "x-amz-checksum-type": None}
KMS: dict[str, str | None] = {"ETag": '"5f3e5c0d9b7a1e2f4c6d8a0b2e4f6a8c"'}


def test_a_server_that_shows_no_checksum_and_keyed_etags_attests_nothing(quay: Quay) -> None:
    """Test 13."""
    proof = probed(quay, rule(EditReply(SILENT | KMS), on=f"{HEAD} {PUT}"))
    assert (proof.attests_checksum, proof.full_object, proof.content_md5) == (False, False, False)
    assert proof.refuses_wrong_checksum


@pytest.mark.parametrize(("body", "name"), [(b"small", PUT), (BODY, COMPLETE)])
@pytest.mark.parametrize("proof", [PROVEN, replace(PROVEN, attests_checksum=False)])
def test_where_head_shows_no_checksum_and_the_etag_is_no_md5_the_object_is_read_back(
    quay: Quay, body: bytes, name: str, proof: Proof
) -> None:
    """Test 13: no level C, no false mismatch; also where the proof was of another day."""
    quay.write("f", body)
    quay.ferry(
        rule(DropAfter(), on=name, nth=1), rule(EditReply(SILENT | KMS), on=HEAD), proof=proof
    )
    assert quay.dock.state("f") is State.VERIFIED
    assert level(quay) is Level.D
    assert quay.proxy.count(GET) == 1
    assert quay.proxy.count(name) == 1
    assert quay.proxy.count(ABORT) == 0
    quay.untouched("f")


@pytest.mark.parametrize("body", [b"small", BODY], ids=["small", "large"])
def test_an_object_read_back_over_a_line_that_damages_it_is_not_verified(
    quay: Quay, body: bytes
) -> None:
    """Test 13: what was read back differs; whether the object or the line is bad, a person sees."""
    quay.write("f", body)
    silent = replace(PROVEN, refuses_wrong_checksum=False, content_md5=False)
    quay.ferry(rule(EditReply(body=flipped), on=GET), proof=silent)
    assert quay.dock.codes("f") == [(Event.QUARANTINE, "checksum_mismatch")]

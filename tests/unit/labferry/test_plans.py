"""Are multipart plans and proofs read as they were written?"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labferry.errors import MalformedMessage
from labferry.ledger.plans import pack_part, pack_plan, pack_proof, unpack_plan, unpack_proof
from labferry.records import Fingerprint, Part, Proof, Upload

numbers = st.integers(0, 2**64 - 1)
texts = st.text(max_size=30)
parts = st.builds(Part, crc64=numbers, size=numbers, etag=texts)
uploads = st.builds(
    Upload,
    attempt_token=texts,
    part_size=numbers,
    fingerprint=st.builds(Fingerprint, numbers, numbers, numbers, numbers),
    upload_id=texts,
    complete_sent_ms=numbers,
    parts=st.dictionaries(st.integers(1, 10_000), parts, max_size=5),
)


def as_kept(upload: Upload) -> dict[bytes, bytes]:
    """Return the fields of the plan's hash as the server gives them."""
    flat = pack_plan(upload)
    for number, part in upload.parts.items():
        flat += pack_part(number, part)
    raw = [str(item).encode() for item in flat]
    return dict(zip(raw[::2], raw[1::2], strict=True))


@settings(deadline=None, max_examples=200)
@given(uploads)
def test_a_plan_is_read_as_it_was_written(upload: Upload) -> None:
    assert unpack_plan(as_kept(upload)) == upload


@pytest.mark.parametrize(
    "changes",
    [
        {b"plan": b""},
        {b"plan": b"[]"},
        {b"plan": b"7"},
        {b"plan": b'{"version": 2}'},
        {b"plan": b'{"version": 1}'},
        {b"part:x": b"1 2 e"},
        {b"part:1": b"1 2"},
        {b"part:1": b"\xff 2 e"},
    ],
)
def test_fields_that_are_no_plan_are_said_to_be_none(changes: dict[bytes, bytes]) -> None:
    upload = Upload(attempt_token="t", part_size=1, fingerprint=Fingerprint(1, 2, 3, 4))
    with pytest.raises(MalformedMessage, match="a multipart plan"):
        unpack_plan(as_kept(upload) | changes)


def test_parts_without_a_plan_are_said_to_be_none() -> None:
    with pytest.raises(MalformedMessage):
        unpack_plan({b"part:1": b"1 2 e"})


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=6, max_size=6), numbers)
def test_a_proof_is_read_as_it_was_written(facts: list[bool], proven_ms: int) -> None:
    names = ("refuses_wrong_checksum", "attests_checksum", "full_object", "conditional_put",
             "conditional_complete", "content_md5")  # fmt: skip
    proof = Proof(**dict(zip(names, facts, strict=True)), proven_ms=proven_ms)
    assert unpack_proof(pack_proof(proof).encode()) == proof


@pytest.mark.parametrize("value", [b"", b"[]", b"7", b"{}", b'{"version": 2}', b'{"version": 1}'])
def test_a_proof_that_cannot_be_read_is_taken_again(value: bytes) -> None:
    assert unpack_proof(value) is None

"""Is a record read as it lies in the ledger? The writer here follows layout.py's drawing."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labferry.errors import MalformedMessage
from labferry.ledger.layout import (
    PLACE_OF,
    letters,
    pack_evidence,
    pack_fingerprint,
    pack_lane,
    unpack_lane,
    unpack_record,
    unpack_seen,
)
from labferry.records import Evidence, FileRecord, Fingerprint, Lane, Level
from labferry.states import LEASED, State

EPOCH_MS = 1_704_067_200_000
DATES = ("discovered_ms", "changed_ms", "settled_ms", "claimed_ms", "verified_ms")

bytes_ = st.integers(0, 255)
words = st.integers(0, 2**32 - 1)
instants = st.integers(EPOCH_MS + 1, EPOCH_MS + 2**40 - 1)
fingerprints = st.builds(
    Fingerprint,
    size=st.integers(0, 2**64 - 1),
    mtime_ns=st.integers(-(2**63), 2**63 - 1),
    inode=st.integers(0, 2**64 - 1),
    ctime_ns=st.integers(-(2**63), 2**63 - 1),
)
etags = st.text(max_size=60) | st.from_regex(r"[0-9a-fA-F]{32}(-\d+)?", fullmatch=True)
proofs = st.builds(
    Evidence,
    level=st.sampled_from(Level),
    crc64=st.integers(0, 2**64 - 1),
    etag=etags,
    version_id=st.text(max_size=40),
)


@st.composite
def records(draw: st.DrawFn) -> FileRecord:
    """A record as the ledger may hold it: instants in the order of a life, the later ones unset."""
    dates = {name: draw(instants) for name in DATES[: draw(st.integers(2, 5))]}
    evidence = draw(proofs) if "verified_ms" in dates else None
    return FileRecord(
        state=draw(st.sampled_from(State)),
        attempt=draw(bytes_),
        lost=draw(bytes_),
        rounds=draw(bytes_),
        series=draw(bytes_),
        token=draw(words),
        holder=draw(words),
        fingerprint=draw(fingerprints),
        lane=draw(st.sampled_from(Lane)),
        evidence=evidence,
        **{name: dates.get(name, 0) for name in DATES},
    )


def drawn(record: FileRecord) -> bytes:
    """Write a record as the drawing says."""
    value = record.state.wire.encode()
    value += bytes([record.attempt, record.lost, record.rounds, record.series])
    value += {Lane.SMALL: b"s", Lane.LARGE: b"l", None: b""}[record.lane]
    value += struct.pack("<II", record.token, record.holder)
    value += struct.pack("<QqQq", *record.fingerprint)
    for name in DATES:
        if at_ms := getattr(record, name):
            value += (at_ms - EPOCH_MS).to_bytes(5, "little")
    return value + pack_evidence(record.evidence)


@settings(deadline=None, max_examples=500)
@given(records())
def test_a_record_is_read_as_it_was_written(record: FileRecord) -> None:
    assert unpack_record(drawn(record)) == record


@settings(deadline=None)
@given(records())
def test_a_look_tells_the_same_as_the_record(record: FileRecord) -> None:
    seen = unpack_seen(drawn(record))
    assert seen == (record.state, record.fingerprint, record.changed_ms)


@settings(deadline=None)
@given(records())
def test_counters_and_instants_lie_where_scripts_are_told(record: FileRecord) -> None:
    value = drawn(record)
    for name, place in PLACE_OF.items():
        width = 5 if name.endswith("_ms") else 1
        number = int.from_bytes(value[place - 1 : place - 1 + width], "little")
        expected = getattr(record, name)
        if width == 1:
            assert number == expected
        elif expected:
            assert number + EPOCH_MS == expected


@settings(deadline=None, max_examples=500)
@given(st.binary(max_size=120) | records().map(drawn).flatmap(
    lambda value: st.integers(0, len(value)).map(lambda end: value[:end])
))  # fmt: skip
def test_bytes_that_are_no_record_are_said_to_be_none(value: bytes) -> None:
    for unpack in (unpack_record, unpack_seen):
        try:
            unpack(value)
        except MalformedMessage as error:
            assert "ledger record" in str(error)


def test_evidence_that_is_cut_off_is_not_believed() -> None:
    evidence = Evidence(level=Level.A, crc64=1, etag="d41d8cd98f00b204e9800998ecf8427e")
    record = replace(_any_record(), verified_ms=EPOCH_MS + 5, evidence=evidence)
    whole = drawn(record)
    assert unpack_record(whole) == record
    for end in range(len(whole) - 25, len(whole)):
        with pytest.raises(MalformedMessage):
            unpack_record(whole[:end])


def _any_record() -> FileRecord:
    return FileRecord(
        state=State.VERIFIED,
        attempt=0,
        lost=0,
        rounds=0,
        series=0,
        token=1,
        holder=1,
        fingerprint=Fingerprint(1, 2, 3, 4),
        lane=Lane.SMALL,
        discovered_ms=EPOCH_MS + 1,
        changed_ms=EPOCH_MS + 2,
        settled_ms=EPOCH_MS + 3,
        claimed_ms=EPOCH_MS + 4,
        verified_ms=0,
    )


@settings(deadline=None, max_examples=300)
@given(proofs)
def test_a_plain_md5_takes_half_its_length(evidence: Evidence) -> None:
    packed = pack_evidence(replace(evidence, version_id=""))
    is_md5 = len(evidence.etag) == 32 and set(evidence.etag) <= set("0123456789abcdef")
    assert len(packed) == 10 + (16 if is_md5 else len(evidence.etag.encode()))


def test_no_evidence_takes_no_bytes() -> None:
    assert pack_evidence(None) == b""


@pytest.mark.parametrize("lane", list(Lane))
def test_a_lane_has_a_letter(lane: Lane) -> None:
    assert unpack_lane(pack_lane(lane)) is lane
    assert len(pack_lane(lane)) == 1
    assert pack_lane(None) == b""


def test_a_fingerprint_takes_32_bytes() -> None:
    assert len(pack_fingerprint(2**64 - 1, -1, 2**64 - 1, -(2**63))) == 32


def test_scripts_are_given_letters_of_states() -> None:
    assert sorted(letters(LEASED)) == ["p", "u"]

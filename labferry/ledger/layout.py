"""How does a record lie in the ledger?

One hash a run holds all its files: field = path, value = a packed record, little-endian. The Lua
scripts read and write these places (counted from 1 there):

    1 state letter | 2 attempt | 3 lost | 4 rounds | 5 series (bytes) | 6 lane letter
    7 token (4) | 11 holder (4)
    15 size (8) | 23 mtime_ns (8) | 31 inode (8) | 39 ctime_ns (8)      the fingerprint
    47 discovered | 52 changed | 57 settled | 62 claimed | 67 verified      ms since 2024 (5)
    72 evidence, once verified: level letter, CRC64NVME (8), ETag, version id

A token is the instant of its claim without the lowest byte, in units of 256 ms, or one more than
the token before it where that is more (decision 0020).

A record ends with the last of its dates, and an ETag that is a plain MD5 takes 16 bytes: with the
path, a file in flight stays below 200 bytes. Source: Valkey 9 keeps field and value of a hash in
one piece of memory up to 128 bytes together.
"""

import struct
from collections.abc import Iterable

from labferry.errors import MalformedMessage
from labferry.records import Evidence, FileRecord, Fingerprint, Lane, Level, Seen
from labferry.states import STATE_OF_WIRE, State

_HEAD = struct.Struct("<c4BcIIQqQqIBIBIBIBIB")
_FINGERPRINT = struct.Struct("<QqQq")
#: The date of its change is what is left of the last field without its lowest three bytes.
_SEEN = struct.Struct("<c13xQqQq2xQ")
_EVIDENCE = struct.Struct("<cQB")
_LANES = {Lane.SMALL: b"s", Lane.LARGE: b"l"}
_LANE_OF = {letter: lane for lane, letter in _LANES.items()}
_LEVELS = {level.encode(): level for level in Level}
_STATES = {letter.encode(): state for letter, state in STATE_OF_WIRE.items()}
_MD5_HEX = 32
#: 2024-01-01 in Unix milliseconds; record.lua has it too.
_EPOCH_MS = 1_704_067_200_000
#: Bytes of the shortest record, which ends with the date of its change.
_SHORTEST = 56
_DATE_BYTES = 5
#: Makes a named tuple of a tuple, without the call in Python that the class's own name is: a look
#: at a run that is known makes two of them a file.
_as = tuple.__new__

#: Where a counter or an instant of a record lies, counted from 1.
PLACE_OF = {
    "attempt": 2,
    "lost": 3,
    "rounds": 4,
    "series": 5,
    "discovered_ms": 47,
    "changed_ms": 52,
    "settled_ms": 57,
    "claimed_ms": 62,
    "verified_ms": 67,
}


def letters(states: Iterable[State]) -> str:
    """Return the letters of states, as scripts are given them."""
    return "".join(state.wire for state in states)


pack_fingerprint = _FINGERPRINT.pack


def pack_lane(lane: Lane | None) -> bytes:
    """Return the lane's letter, or b'' ."""
    return _LANES[lane] if lane else b""


def unpack_lane(letter: bytes) -> Lane:
    """Return the lane behind a letter."""
    return _LANE_OF[letter]


def pack_evidence(evidence: Evidence | None) -> bytes:
    """Return the evidence as a record ends with it, or b'' ."""
    if evidence is None:
        return b""
    etag = _pack_md5(evidence.etag) or evidence.etag.encode()
    length = 0 if len(etag) < len(evidence.etag) else len(etag) + 1
    head = _EVIDENCE.pack(evidence.level.encode(), evidence.crc64, length)
    return head + etag + evidence.version_id.encode()


def _pack_md5(etag: str) -> bytes:
    """Return the bytes of an ETag that is 32 lower-case hex digits, else b'' ."""
    try:
        raw = bytes.fromhex(etag) if len(etag) == _MD5_HEX else b""
    except ValueError:
        return b""
    return raw if raw.hex() == etag else b""


def _unpack_evidence(tail: bytes) -> Evidence | None:
    if not tail:
        return None
    level, crc64, length = _EVIDENCE.unpack_from(tail)
    start = _EVIDENCE.size
    end = start + (length - 1 if length else _MD5_HEX // 2)
    if len(tail) < end:
        raise ValueError("its evidence is cut off")
    etag = tail[start:end].decode() if length else tail[start:end].hex()
    return Evidence(level=_LEVELS[level], crc64=crc64, etag=etag, version_id=tail[end:].decode())


def pack_record(record: FileRecord) -> bytes:
    """Return the record as scripts draw it: it ends with the last of its dates, or its evidence."""
    dates = (
        record.discovered_ms, record.changed_ms, record.settled_ms, record.claimed_ms,
        record.verified_ms,
    )  # fmt: skip
    head = _HEAD.pack(
        record.state.wire.encode(), record.attempt, record.lost, record.rounds, record.series,
        pack_lane(record.lane or Lane.SMALL), record.token, record.holder, *record.fingerprint,
        *(half for at_ms in dates for half in _since(at_ms)),
    )  # fmt: skip
    if record.evidence is not None:
        return head + pack_evidence(record.evidence)
    last = max(number for number, at_ms in enumerate(dates) if at_ms or number == 1)
    return head[: _SHORTEST + (last - 1) * _DATE_BYTES]


def _since(at_ms: int) -> tuple[int, int]:
    since = at_ms - _EPOCH_MS if at_ms else 0
    return since & 0xFFFFFFFF, since >> 32


def unpack_seen(value: bytes) -> Seen:
    """Return what a scan compares. Raises: MalformedMessage."""
    try:
        state, size, mtime, inode, ctime, changed = _SEEN.unpack_from(value)
        found, since = _as(Fingerprint, (size, mtime, inode, ctime)), changed >> 24
        return _as(Seen, (_STATES[state], found, since + _EPOCH_MS if since else 0))
    except (struct.error, KeyError) as error:
        raise MalformedMessage(what="a ledger record", why=str(error)) from error


def unpack_record(value: bytes) -> FileRecord:
    """Return the record. Raises: MalformedMessage."""
    try:
        return _unpack_record(value)
    except (struct.error, KeyError, ValueError) as error:
        raise MalformedMessage(what="a ledger record", why=str(error)) from error


def _unpack_record(value: bytes) -> FileRecord:
    if len(value) < _SHORTEST:
        raise ValueError(f"it has {len(value)} bytes")
    fields = _HEAD.unpack(value[: _HEAD.size].ljust(_HEAD.size, b"\0"))
    return FileRecord(
        state=_STATES[fields[0]],
        attempt=fields[1],
        lost=fields[2],
        rounds=fields[3],
        series=fields[4],
        lane=_LANE_OF[fields[5]],
        token=fields[6],
        holder=fields[7],
        fingerprint=_as(Fingerprint, fields[8:12]),
        discovered_ms=_instant(*fields[12:14]),
        changed_ms=_instant(*fields[14:16]),
        settled_ms=_instant(*fields[16:18]),
        claimed_ms=_instant(*fields[18:20]),
        verified_ms=_instant(*fields[20:22]),
        evidence=_unpack_evidence(value[_HEAD.size :]),
    )


def _instant(low: int, high: int) -> int:
    since = low | high << 32
    return since + _EPOCH_MS if since else 0

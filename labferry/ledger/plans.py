"""How do a multipart plan and an endpoint's proof lie in the ledger?"""

from dataclasses import asdict
from typing import Any

from labferry.errors import MalformedMessage
from labferry.ledger.server import Argument
from labferry.records import Fingerprint, Part, Proof, Upload
from labferry.versioned import read_record, read_versioned, write_versioned

_VERSION = 1


def pack_plan(upload: Upload) -> list[Argument]:
    """Return the plan's fields and values, without parts."""
    plan = {
        "attempt_token": upload.attempt_token,
        "part_size": upload.part_size,
        "fingerprint": list(upload.fingerprint),
        "upload_id": upload.upload_id,
        "complete_sent_ms": upload.complete_sent_ms,
    }
    return ["plan", write_versioned(_VERSION, plan)]


def pack_part(number: int, part: Part) -> tuple[Argument, Argument]:
    """Return a part's field and value."""
    return f"part:{number}", f"{part.crc64:x} {part.size} {part.etag}"


def unpack_plan(fields: dict[bytes, bytes]) -> Upload:
    """Read a plan with its parts. Raises: MalformedMessage."""
    text = fields.pop(b"plan", b"")

    def make(plan: dict[str, Any]) -> Upload:
        return Upload(
            attempt_token=plan["attempt_token"],
            part_size=plan["part_size"],
            fingerprint=Fingerprint(*plan["fingerprint"]),
            upload_id=plan["upload_id"],
            complete_sent_ms=plan["complete_sent_ms"],
            parts=dict(_unpack_part(name, value) for name, value in fields.items()),
        )

    return read_versioned(text, _VERSION, "a multipart plan", make)


def _unpack_part(name: bytes, value: bytes) -> tuple[int, Part]:
    crc64, size, etag = value.decode().split(" ", 2)
    return int(name.partition(b":")[2]), Part(int(crc64, 16), int(size), etag)


def pack_proof(proof: Proof) -> str:
    """Return the proof as JSON."""
    return write_versioned(_VERSION, asdict(proof))


def unpack_proof(value: bytes) -> Proof | None:
    """Read a proof; None for one that cannot be read or of another version: it is taken again."""
    try:
        return read_record(value, _VERSION, "a proof", Proof)
    except MalformedMessage:
        return None

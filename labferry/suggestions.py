"""What can a person do about a dead letter? By its code, else by its kind."""

from labferry.failures import Kind

_READ = "Let the account that labferry runs under read the file, then requeue it."
_REACHABLE = "See whether the server and the network are well, then requeue it."

_OF_CODE = {
    "AccessDenied": "Allow the workers s3:PutObject on this key (and the use of its KMS key), then "
    "requeue it.",
    "EACCES": _READ,
    "EPERM": _READ,
    "ENAMETOOLONG": "Shorten the path at the source; then discard this one.",
    "bad_name": "Rename it at the source, where the next scan finds it; then discard this one.",
    "KeyTooLongError": "Shorten its path at the source; then discard this one.",
    "source_refused": "Only regular files are moved. Put a file in its place and requeue it, or "
    "discard it.",
    "object_conflict": "Another object stands under its key, and labferry never overwrites. "
    "Compare the two; move the object away and requeue the file, or discard it.",
    "sidecar_mismatch": "Compare the file and the list with where they came from. Copy the "
    "damaged one anew, then requeue the file.",
    "checksum_mismatch": "Keep the source. Check memory and network of the worker, move the "
    "object away if there is one, then requeue it.",
    "changed_after_verified": "The object holds what was verified. Find out who changed the "
    "source; replay it to keep what is there now as another edition, or discard it: the object "
    "stays as it is.",
    "object_missing": "It was verified, and its object is gone. Find out who removed it, then "
    "replay it: it is uploaded again.",
    "object_replaced": "It was verified, and another object stands there now. Find out who wrote "
    "it; move it away, then replay the file.",
    "lease_expired": "Its workers died under it. Look at their logs and at the host's memory, then "
    "requeue it alone.",
    "EntityTooLarge": "The endpoint takes no object as large. Check [store] single_put_max_bytes "
    "and part_size_bytes, then requeue it.",
    "InvalidObjectState": "The object is archived. Restore it or move it away, then requeue.",
}

_OF_KIND = {
    Kind.TRANSIENT: f"It failed as often as it may. {_REACHABLE}",
    Kind.AMBIGUOUS: f"Its outcome stayed open. {_REACHABLE}",
    Kind.THROTTLED: "The endpoint asks for less. Requeue it when there is less to do.",
    Kind.ENVIRONMENT: "Mend what the message says, then requeue it.",
    Kind.SOURCE: "Something still writes to it. Requeue it once the source is at rest.",
    Kind.PERMANENT: "Mend what the message says, then requeue it; as it is, it would fail again.",
    Kind.WORKER_LOST: "Its workers died under it. Look at their logs, then requeue it alone.",
    Kind.UNKNOWN: "labferry does not know this error: please report it. Requeue it once.",
}


def suggestion(kind: str, code: str) -> str:
    """Return what a person can do."""
    known = kind if kind in set(Kind) else Kind.UNKNOWN
    return _OF_CODE.get(code) or _OF_KIND[Kind(known)]

"""May a run's folder be deleted, by a statement of `labferry safe-to-delete`?

    python3 check_statement.py STATEMENT FOLDER [--key-file FILE | --unsigned] [--max-age-h 24]

For clean-up jobs: exit 0 means that the statement is whole, signed and young enough, and that every
file in the folder is one it names, unchanged since. Anything else ends with 4 and the reason. It
needs Python 3.7 or later alone, and deletes nothing:

    python3 check_statement.py s.jsonl /data/seq/r1 --key-file /etc/key && rm -r /data/seq/r1
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import re
import stat
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

VERSION = 1
REFUSED = 4
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class Refusal(Exception):
    """Why the folder may not be deleted."""


def read_statement(path: Path, key: bytes | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the first line and the files of a statement that is whole and, with a key, signed."""
    *lines, last = path.read_bytes().splitlines(keepends=True) or [b"{}"]
    end = json.loads(last)
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    if not lines or end.get("sha256") != digest:
        raise Refusal("the statement is cut off or was changed")
    if key is not None:
        expected = hmac.digest(key, digest.encode(), "sha256").hex()
        if not hmac.compare_digest(str(end.get("hmac_sha256")), expected):
            raise Refusal("the statement is not signed with this key")
    header = json.loads(lines[0])
    if header.get("labferry_statement") != VERSION or header.get("verdict") != "safe":
        raise Refusal("it is no statement that a run is safe to delete")
    return header, [json.loads(line) for line in lines[1:]]


def check_age(header: dict[str, Any], longest: timedelta, now: datetime) -> None:
    """Refuse a statement that is too old, or from the future."""
    age = now - datetime.fromisoformat(header["at"].replace("Z", "+00:00"))
    if not timedelta(minutes=-5) <= age <= longest:
        raise Refusal(f"the statement is of {header['at']}: ask labferry again")


def check_folder(folder: bytes, named: list[dict[str, Any]]) -> int:
    """Refuse a folder with anything in it that is not named, or not as it was; return the files."""
    if not os.path.isdir(folder):  # noqa: PTH112  bytes
        raise Refusal(f"{os.fsdecode(folder)} is no folder")
    known = {_decoded(one["path"]): one for one in named}
    count = 0
    for path in _files(folder):
        one = known.get(path[len(folder) + 1 :])
        if one is None:
            raise Refusal(f"{os.fsdecode(path)} is not in the statement")
        found = os.lstat(path)
        is_same = (found.st_size, found.st_mtime_ns) == (one.get("size"), one.get("mtime_ns"))
        if not one.get("left_out") and not (stat.S_ISREG(found.st_mode) and is_same):
            raise Refusal(f"{os.fsdecode(path)} changed since the statement")
        count += 1
    if not count:
        raise Refusal("there is no file in it: is the share mounted?")
    return count


def _files(folder: bytes) -> list[bytes]:
    found = []

    def refuse(error: OSError) -> None:
        raise Refusal(f"{error.filename!r} cannot be read: {error.strerror}")

    for above, folders, files in os.walk(folder, onerror=refuse):
        found += [os.path.join(above, name) for name in files]  # noqa: PTH118  bytes
        links = [name for name in folders if os.path.islink(os.path.join(above, name))]  # noqa: PTH114, PTH118
        found += [os.path.join(above, name) for name in links]  # noqa: PTH118
    return found


def _decoded(path: str) -> bytes:
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), path.encode())


def main(arguments: list[str] | None = None, now: datetime | None = None) -> int:
    """Check a statement against a folder."""
    parser = argparse.ArgumentParser(description="May a run's folder be deleted?")
    parser.add_argument("statement", type=Path)
    parser.add_argument("folder", type=Path)
    signed = parser.add_mutually_exclusive_group(required=True)
    signed.add_argument("--key-file", type=Path, help="the key that labferry signs with")
    signed.add_argument("--unsigned", action="store_true", help="take one that is not signed")
    parser.add_argument("--max-age-h", type=float, default=24, help="hours a statement holds")
    given = parser.parse_args(arguments)
    try:
        key = given.key_file.read_bytes().strip() if given.key_file else None
        header, named = read_statement(given.statement, key)
        check_age(header, timedelta(hours=given.max_age_h), now or datetime.now(timezone.utc))  # noqa: TID251
        count = check_folder(os.fsencode(given.folder.resolve()), named)
    except (Refusal, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"refused: {error}", file=sys.stderr)
        return REFUSED
    print(f"{header['run']}: {count} files, all in the bucket and unchanged.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

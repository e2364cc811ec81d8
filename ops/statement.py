"""What does a statement hold that the source of a run may be deleted, to be checked later?

JSON lines: what it is about, then each file, then a line with the SHA-256 of all before it and its
signature. `ops/check_statement.py` reads them and needs nothing of labferry.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator

from labferry.errors import SettingsError

VERSION = 1


def statement_lines(
    header: dict[str, object], files: Iterable[dict[str, object]], key: str
) -> Iterator[str]:
    """Yield the lines of a statement; without a key it is not signed."""
    digest = hashlib.sha256()
    for fields in _all(header, files):
        line = json.dumps(fields, sort_keys=True, ensure_ascii=True) + "\n"
        digest.update(line.encode())
        yield line
    yield json.dumps(_end(digest.hexdigest(), key), sort_keys=True) + "\n"


def _all(
    header: dict[str, object], files: Iterable[dict[str, object]]
) -> Iterator[dict[str, object]]:
    yield {"labferry_statement": VERSION, **header}
    yield from files


def _end(sha256: str, key: str) -> dict[str, object]:
    signed = hmac.digest(key.encode(), sha256.encode(), "sha256").hex() if key else None
    return {"sha256": sha256, "hmac_sha256": signed}


def check_key(key: str) -> None:
    """Refuse a key that could be guessed. Raises: SettingsError."""
    least = 16
    if key and len(key) < least:
        raise SettingsError(
            field="statements.key",
            why=f"it has fewer than {least} characters",
            step="Set LABFERRY_STATEMENTS__KEY to the output of `openssl rand -hex 32`.",
        )

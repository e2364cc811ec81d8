"""Where are the records of a run that is over, once the ledger has put them away?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An object of JSON lines, gzipped: how many files it has, and the SHA-256 of the object."""

    key: str
    sha256: str
    files: int

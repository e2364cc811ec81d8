"""How does an operator's word about a run lie in the ledger? As JSON, with a version."""

from collections.abc import Iterable
from dataclasses import asdict

from labferry.audit import Act
from labferry.identity import RunKey
from labferry.versioned import read_record, write_versioned
from labferry.word import Word

_VERSION = 1


def pack_word(act: Act, at_ms: int) -> str:
    """Return who said it, why and when."""
    word = Word(actor=act.actor, reason=act.reason, at_ms=at_ms)
    return write_versioned(_VERSION, asdict(word))


def names_of_hold(run: RunKey) -> list[str]:
    """Return the names under which a run may be held."""
    return [str(run), run.instrument]


def first_word(values: Iterable[bytes | None]) -> Word | None:
    """Read the first word that was said. Raises: MalformedMessage."""
    return unpack_word(next(filter(None, values), None))


def unpack_word(value: bytes | None) -> Word | None:
    """Read a word; None where there is none. Raises: MalformedMessage."""
    if value is None:
        return None
    return read_record(value, _VERSION, "an operator's word", Word)

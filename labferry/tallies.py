"""What is counted of each instrument for as long as the ledger lives, for rates and alerts?

Pure. What stands now (backlog, dead letters, breakers) is never counted here: it is read from the
ledger's own records when somebody asks.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from labferry.failure_table import ANSWERS, ERRNOS, OWN

#: Upper bounds of the histogram of times to verified, in seconds.
BOUNDS_S = (10, 30, 60, 300, 900, 3600, 14_400, 86_400)
#: The bound of what took longer than all of them.
BEYOND = "+Inf"
#: Codes of labferry's own that stand in no table.
_OWN_CODES = frozenset({"lease_expired", "shutdown", "ledger_unavailable"})
KNOWN_CODES = _OWN_CODES.union(
    *(row.codes for row in (*ANSWERS, *ERRNOS, *(row for _, row in OWN)))
)
OTHER = "other"


class What(StrEnum):
    """What is counted."""

    CLAIM = "claim"  # files a worker began to work on
    ATTEMPT = "attempt"  # attempts, by the state in which they left the file, and by code
    VERIFIED_BYTES = "verified_bytes"  # sizes of files that were verified
    SENT_BYTES = "sent_bytes"  # bytes that the object store took, whatever came of them
    LEASE_LOST = "lease_lost"  # leases a worker lost while it was at work
    LEASE_EXPIRED = "lease_expired"  # leases the sweep found lapsed: their worker was lost
    DELIVERY_DROPPED = "delivery_dropped"  # messages of which no file was left to do
    WAIT = "wait"  # times to verified, by the bound they stay within
    WAITED_MS = "waited_ms"  # their sum


#: What shows that an instrument's work goes on.
MOVES = frozenset({What.CLAIM, What.ATTEMPT, What.SENT_BYTES})


class Tally(NamedTuple):
    """One counter. `code` is bounded: of a failure's codes by `code_label`, of waits by a bound."""

    instrument: str
    what: What
    state: str = ""
    code: str = ""

    @property
    def field(self) -> str:
        """Return the name of its field in the ledger."""
        return "/".join(self)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a field's name. Raises: ValueError."""
        instrument, what, state, code = text.split("/")
        return cls(instrument, What(what), state, code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallies:
    """All counters; `moved_ms` is when a worker began, sent or ended something of it last."""

    counts: dict[Tally, int] = field(default_factory=dict)
    moved_ms: dict[str, int] = field(default_factory=dict)


def code_label(code: str) -> str:
    """Return a failure's code, or `other`: a server may answer with any text at all."""
    return code if code in KNOWN_CODES else OTHER

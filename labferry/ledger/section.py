"""What does every section of the ledger work with?"""

from labferry.ledger.server import Server
from labferry.settings import LedgerSettings

#: No call takes longer, with its time-outs and its one repetition.
LONGEST_CALL_MS = 60_000


class Section:
    """One group of the Ledger port's calls, on one server."""

    def __init__(self, server: Server, settings: LedgerSettings) -> None:
        self._server = server
        self._ttl_ms = int(settings.lease_ttl_s * 1000)
        self._resend_ms = int(settings.resend_s * 1000)

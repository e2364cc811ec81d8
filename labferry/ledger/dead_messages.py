"""Which messages could not be decoded?"""

from labferry.ledger.keys import DEAD_MESSAGES
from labferry.ledger.section import Section


class DeadMessages(Section):
    """The part of the ledger that keeps messages nobody can handle; never trimmed."""

    def bury(self, message: str) -> None:
        """Keep a message that cannot be handled, with the reason in it."""
        self._server.ask(self._server.client.rpush, DEAD_MESSAGES, message)

    def dead_messages(self) -> list[str]:
        """Return what was buried, oldest first."""
        lines = self._server.ask(self._server.client.lrange, DEAD_MESSAGES, 0, -1)
        return [line.decode() for line in lines]

"""Where is the durable record? In Redis or Valkey, 7 or later, AOF on and `noeviction`.

Each verb is one Lua script beside this module, so that state, counts, queues, leases and history
change together; `layout` draws a record, `keys` names the keys, `effects` says what an event
writes. Scripts are told states as arguments: the table of moves is in labferry/states.py alone.
"""

from labferry.ledger.alerts import AlertRecords
from labferry.ledger.archives import Archives
from labferry.ledger.batches import BatchRecords
from labferry.ledger.bundles import Bundles
from labferry.ledger.conditions import BreakerRecords
from labferry.ledger.dead_letters import DeadLetters
from labferry.ledger.dead_messages import DeadMessages
from labferry.ledger.files import Files
from labferry.ledger.keys import leader
from labferry.ledger.leadership import RedisLeadership
from labferry.ledger.leases import Leases
from labferry.ledger.limits import LimitRecords
from labferry.ledger.passes import PassRecords
from labferry.ledger.runs import Runs
from labferry.ledger.server import Server, to_ms
from labferry.ledger.tallies import TallyRecords
from labferry.ledger.turns import TurnRecords
from labferry.ledger.uploads import Uploads
from labferry.ports import Leadership
from labferry.settings import LedgerSettings


def open_ledger(settings: LedgerSettings) -> "RedisLedger":
    """Return the ledger that the settings name; nothing is asked of the server yet."""
    return RedisLedger(Server(settings.url), settings)


class RedisLedger(
    Runs, Files, Bundles, Leases, Uploads, BreakerRecords, AlertRecords, DeadLetters, DeadMessages,
    LimitRecords, TurnRecords, BatchRecords, TallyRecords, PassRecords, Archives,
):  # fmt: skip
    """The Ledger port on one server. Safe in threads; open one per process, after a fork."""

    def now_ms(self) -> int:
        """Return the server's clock."""
        return to_ms(self._server.ask(self._server.client.time))

    def leadership(self, name: str, *, keep_s: float) -> Leadership:
        """Return a lock of that name; nothing is acquired yet."""
        return RedisLeadership(self._server, leader(name), keep_s)

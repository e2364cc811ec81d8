"""Which limits did operators set, and how do all workers keep to one together?"""

from collections.abc import Mapping
from dataclasses import asdict

from labferry.audit import Act
from labferry.ledger.audit import Audit
from labferry.ledger.keys import LIMITS, RESERVED
from labferry.ledger.server import Argument
from labferry.limits import AHEAD_MOST_MS, Limit
from labferry.versioned import read_record, write_versioned

_VERSION = 1


class LimitRecords(Audit):
    """The part of the ledger by which all workers hold a limit together."""

    def limits(self) -> dict[str, Limit]:
        """Return what operators said, by name."""
        found = self._server.ask(self._server.client.hgetall, LIMITS)
        return {name.decode(): _unpack(value) for name, value in sorted(found.items())}

    def set_limit(self, name: str, limit: Limit | None, act: Act) -> None:
        """Record a limit, or take it off, and append the act."""
        word = write_versioned(_VERSION, asdict(limit)) if limit else ""
        self._append(None, act, "put_word", [LIMITS], [name, word])

    def reserve(self, rates: Mapping[str, int], size: int) -> float:
        """Take so many bytes of each limit; return in how many seconds they may be read."""
        args: list[Argument] = [size, AHEAD_MOST_MS]
        for name, bytes_per_s in sorted(rates.items()):
            args += [name, bytes_per_s]
        return int(self._server.script("reserve", [RESERVED], args)) / 1000


def _unpack(value: bytes) -> Limit:
    """Read a limit. Raises: MalformedMessage."""
    return read_record(value, _VERSION, "a limit", Limit)

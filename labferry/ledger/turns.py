"""What do all instruments have to send? One short-lived text, written by the sweep."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from labferry.ledger.keys import TURNS
from labferry.ledger.section import Section
from labferry.records import Lane
from labferry.turns import Turn
from labferry.versioned import read_versioned, write_versioned

_VERSION = 1
_KEEP_S = 30


class TurnRecords(Section):
    """The part of the ledger in which the sweep tells what all instruments have to send."""

    def tell_turns(self, turns: Mapping[str, Turn]) -> None:
        """Record what each instrument has to send."""
        kept = {name: asdict(turn) for name, turn in turns.items()}
        text = write_versioned(_VERSION, {"turns": kept})
        self._server.ask(self._server.client.set, TURNS, text, ex=_KEEP_S)

    def turns(self) -> dict[str, Turn]:
        """Return what was told last."""
        text = self._server.ask(self._server.client.get, TURNS)
        return _unpack(text) if text else {}


def _unpack(text: bytes) -> dict[str, Turn]:
    """Read turns. Raises: MalformedMessage."""
    return read_versioned(text, _VERSION, "what instruments have to send", _turns)


def _turns(found: dict[str, Any]) -> dict[str, Turn]:
    return {name: _turn(fields) for name, fields in found["turns"].items()}


def _turn(fields: Mapping[str, Any]) -> Turn:
    return Turn(
        rank=int(fields["rank"]),
        ready={Lane(lane): int(count) for lane, count in fields["ready"].items()},
        bundle_files=int(fields["bundle_files"]),
        moves=bool(fields["moves"]),
    )

"""Who looked at which share last, and why are its runs not done? One entry an instrument and host.

The short entry is written every few seconds, the long one of its runs when it changes.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from labferry.ledger.keys import PASSES, WAITING
from labferry.ledger.section import Section
from labferry.passes import Pass, Space, Waiting
from labferry.versioned import read_versioned, write_versioned

_VERSION = 1


class PassRecords(Section):
    """The part of the ledger that agents tell what they looked at."""

    def tell_pass(self, told: Pass) -> None:
        """Record a pass."""
        kept = {
            "at": told.at_ms,
            "due": told.due_ms,
            "away": told.away,
            "away_ms": told.away_ms,
            "arrived": told.arrived_ms,
            "space": asdict(told.space) if told.space else None,
        }
        name, text = _name(told.instrument, told.host), write_versioned(_VERSION, kept)
        self._server.ask(self._server.client.hset, PASSES, name, text)

    def tell_waiting(self, instrument: str, host: str, waiting: Sequence[Waiting]) -> None:
        """Record why runs are not done."""
        kept = {"runs": [asdict(one) for one in waiting]}
        name, text = _name(instrument, host), write_versioned(_VERSION, kept)
        self._server.ask(self._server.client.hset, WAITING, name, text)

    def passes(self) -> list[Pass]:
        """Return what was told last."""

        def fill(pipe: Any) -> None:
            pipe.hgetall(PASSES)
            pipe.hgetall(WAITING)

        passes, waiting = self._server.pipeline(fill)
        return [_unpack(name, passes[name], waiting.get(name)) for name in sorted(passes)]

    def forget_pass(self, instrument: str, host: str) -> None:
        """Forget what a host told of an instrument."""
        name = _name(instrument, host)

        def fill(pipe: Any) -> None:
            pipe.hdel(PASSES, name)
            pipe.hdel(WAITING, name)

        self._server.pipeline(fill)


def _name(instrument: str, host: str) -> str:
    return f"{instrument}@{host}"  # an instrument's name holds no @


def _unpack(name: bytes, told: bytes, waiting: bytes | None) -> Pass:
    """Read an entry; unknown extra fields are tolerated. Raises: MalformedMessage."""
    instrument, _, host = name.decode().partition("@")
    runs = () if waiting is None else read_versioned(waiting, _VERSION, "a pass", _runs)

    def make(found: dict[str, Any]) -> Pass:
        return Pass(
            instrument=instrument,
            host=host,
            at_ms=int(found["at"]),
            due_ms=int(found["due"]),
            away=str(found["away"]),
            away_ms=int(found.get("away_ms", 0)),
            arrived_ms=int(found.get("arrived", 0)),
            space=_space(found.get("space")),
            waiting=runs,
        )

    return read_versioned(told, _VERSION, "a pass", make)


def _runs(found: dict[str, Any]) -> tuple[Waiting, ...]:
    return tuple(_waiting(one) for one in found["runs"])


def _space(found: Any) -> Space | None:
    if found is None:
        return None
    return Space(
        free_bytes=int(found["free_bytes"]),
        total_bytes=int(found["total_bytes"]),
        fills_bytes_per_s=float(found["fills_bytes_per_s"]),
    )


def _waiting(found: Any) -> Waiting:
    return Waiting(
        run=str(found["run"]),
        lacks=tuple(map(str, found["lacks"])),
        stuck=tuple(map(str, found["stuck"])),
        since_ms={str(path): int(at_ms) for path, at_ms in found["since_ms"].items()},
    )

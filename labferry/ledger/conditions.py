"""What stands in the way, and how much may be asked? Records that are swapped, never written."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from labferry.breakers import Breaker, Conditions, Phase
from labferry.failures import Cause
from labferry.ledger.keys import ALERT_COUNTS, ALERT_LOG, ALERTS, BREAKERS, PACES
from labferry.ledger.section import Section
from labferry.ledger.server import Argument, Key, to_ms
from labferry.throttle import Pace
from labferry.versioned import known, read_versioned, write_versioned

_VERSION = 1
_Condition = TypeVar("_Condition", Breaker, Pace)


class BreakerRecords(Section):
    """The part of the ledger that holds breakers and paces."""

    def conditions(self) -> Conditions:
        """Return all breakers and paces on record."""

        def fill(pipe: Any) -> None:
            pipe.time()
            pipe.hgetall(BREAKERS)
            pipe.hgetall(PACES)

        now, breakers, paces = self._server.pipeline(fill)
        return unpack_conditions(to_ms(now), breakers, paces)

    def swap_breaker(
        self, seen: Breaker | None, new: Breaker | None, alert: tuple[str, str] | None = None
    ) -> bool:
        """Put a breaker in the place of the one that was seen."""
        return self._swap(BREAKERS, seen, new, alert or ("", ""))

    def swap_pace(self, seen: Pace | None, new: Pace | None) -> bool:
        """Put a pace in the place of the one that was seen."""
        return self._swap(PACES, seen, new, ("", ""))

    def _swap(
        self, key: Key, seen: _Condition | None, new: _Condition | None, alert: tuple[str, str]
    ) -> bool:
        one = new or seen
        if one is None:
            return True
        revision = seen.revision if seen else 0
        value = _pack(new, revision + 1) if new else ""
        args: list[Argument] = [one.name, revision, value, *alert]
        keys: list[Key] = [key, ALERTS, ALERT_COUNTS, ALERT_LOG]
        return bool(self._server.script("swap", keys, args))


def unpack_conditions(
    now_ms: int, breakers: Mapping[bytes, bytes], paces: Mapping[bytes, bytes]
) -> Conditions:
    """Read what is on record. Raises: MalformedMessage."""
    return Conditions(
        now_ms=now_ms,
        breakers=tuple(_unpack(Breaker, breakers[name]) for name in sorted(breakers)),
        paces=tuple(_unpack(Pace, paces[name]) for name in sorted(paces)),
    )


def _pack(condition: _Condition, revision: int) -> str:
    kept = {name: value for name, value in asdict(condition).items() if name != "revision"}
    return f"{revision} {write_versioned(_VERSION, kept)}"


def _unpack(kind: type[_Condition], value: bytes) -> _Condition:
    """Read a condition; unknown extra fields are tolerated. Raises: MalformedMessage."""
    revision, _, text = value.partition(b" ")
    is_breaker = kind is Breaker

    def make(found: dict[str, Any]) -> _Condition:
        read = known(kind, found) | {"revision": int(revision)}
        if is_breaker:
            read |= {"phase": Phase(read["phase"]), "cause": Cause(read["cause"])}
        return kind(**read)

    return read_versioned(text, _VERSION, f"a {kind.__name__.lower()}", make)

"""What stands in the way of many files now, whom did labferry tell, and what is to be done?"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from labferry.alerts import STEP_OF, Alert, Undelivered, concerns
from labferry.breakers import Breaker, Conditions, Phase, holds
from labferry.failures import Cause
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.throttle import Pace, share_of
from ops.deliveries import undelivered_events
from ops.shown import duration, instant

#: Alerts shown, the newest first, and for how long.
_ALERTS, _ALERTS_JSON = 5, 100
_SHOWN_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """What `labferry status` shows besides instruments and runs."""

    now_ms: int
    breakers: tuple[Breaker, ...] = ()
    slowed: tuple[tuple[Pace, float], ...] = ()
    alerts: tuple[Alert, ...] = ()
    undelivered: tuple[Undelivered, ...] = ()
    events: tuple[Undelivered, ...] = ()

    def of(self, runs: Collection[RunKey]) -> "Troubles":
        """Return it without the alerts that are about other runs."""
        told = (one for one in self.alerts if any(concerns(one, run) for run in runs))
        return replace(self, alerts=tuple(told))

    def to_json(self) -> dict[str, object]:
        """Return fields of the object of `labferry status --json`."""
        return {
            "breakers": [breaker_json(one) for one in self.breakers],
            "throttled": [
                {"endpoint": pace.name, "share": round(share, 3), "code": pace.code}
                for pace, share in self.slowed
            ],
            "alerts": [
                {"id": one.key, "at_ms": one.at_ms, "text": one.text, "files": one.count or None}
                for one in self.alerts[-_ALERTS_JSON:]
            ],
            "undelivered": [
                {"sink": one.sink, "alerts": one.waiting, "why": one.why or None}
                for one in self.undelivered
            ],
            "undelivered_events": [
                {"sink": one.sink, "events": one.waiting, "why": one.why or None}
                for one in self.events
            ],
        }


def read_troubles(ledger: Ledger, recovery_ms: int) -> Troubles:
    """Return what is in the way, and what was told."""
    conditions = ledger.conditions()
    slowed = ((one, share_of(one, conditions.now_ms, recovery_ms)) for one in conditions.paces)
    return Troubles(
        now_ms=conditions.now_ms,
        breakers=tuple(one for one in conditions.breakers if one.phase is not Phase.CLOSED),
        slowed=tuple((pace, share) for pace, share in slowed if share < 1),
        alerts=tuple(ledger.alerts()),
        undelivered=tuple(ledger.undelivered()),
        events=tuple(undelivered_events(ledger)),
    )


def breakers_before(conditions: Conditions, instrument: str) -> tuple[Breaker, ...]:
    """Return the breakers that hold files of an instrument, somewhere at least."""
    return tuple(
        one
        for one in conditions.breakers
        if holds(one)
        and (one.cause is not Cause.SHARE or one.name.startswith(f"{Cause.SHARE}:{instrument}@"))
    )


def breaker_json(breaker: Breaker) -> dict[str, object]:
    """Return a breaker as `--json` shows it."""
    return {
        "name": breaker.name,
        "cause": breaker.cause,
        "state": breaker.phase,
        "code": breaker.code,
        "message": breaker.message,
        "since_ms": breaker.since_ms,
        "next_probe_ms": breaker.next_ms or None,
        "opened": breaker.opened,
        "probes": breaker.probes,
        "step": STEP_OF[breaker.cause],
    }


def breaker_words(breaker: Breaker, now_ms: int) -> str:
    """Return since when a breaker is open, and what comes next."""
    lasts = duration(max(now_ms - breaker.since_ms, 0) / 1000)
    since = f"since {instant(breaker.since_ms)} ({lasts})"
    if breaker.phase is Phase.RAMP:
        return f"{since}; it passed again at {instant(breaker.at_ms)}, and all go on step by step"
    if breaker.cause is Cause.SHARE:
        return f"{since}; looked at again and again, and taken up once it is there"
    left_s = (breaker.next_ms - now_ms) / 1000
    if breaker.phase is Phase.PROBING:
        return f"{since}; one file is being tried"
    when = f"in {left_s:.0f} s" if left_s > 0 else "with the next file there is"
    return f"{since}; tried {breaker.probes} times in vain, again {when}"


def troubles_view(troubles: Troubles) -> RenderableType:
    """Return what is in the way now; nothing where nothing is."""
    return Group(*_parts(troubles))


def alerts_view(troubles: Troubles) -> RenderableType:
    """Return what was told, which may be long and settled; nothing where nothing was."""
    return Group(*_told(troubles))


def _parts(troubles: Troubles) -> Iterator[RenderableType]:
    if troubles.breakers:
        yield Text("IN THE WAY", style="bold")
        yield from _breakers(troubles.breakers, troubles.now_ms)
        yield Text()
    for pace, share in troubles.slowed:
        words = (
            f"The endpoint asks for less ({pace.code}): workers use {share:.0%} of their threads."
        )
        yield Text(words, style="yellow")
        yield Text()


def _told(troubles: Troubles) -> Iterator[RenderableType]:
    recent = [one for one in troubles.alerts if troubles.now_ms - one.at_ms < _SHOWN_MS]
    if recent or troubles.undelivered:
        yield Text("ALERTS of the last 24 hours", style="bold")
        yield _alerts(reversed(recent[-_ALERTS:]))
        for one in troubles.undelivered:
            why = f": {one.why}" if one.why else ""
            yield Text(f"  {one.waiting} not delivered yet to {one.sink}{why}", style="yellow")
        yield Text()
    for one in troubles.events:
        why = f": {one.why}" if one.why else ""
        yield Text(f"{one.waiting} events wait for {one.sink}{why}", style="yellow")
    if troubles.events:
        yield Text()


def _breakers(breakers: Iterable[Breaker], now_ms: int) -> Iterator[RenderableType]:
    for one in breakers:
        style = "bold red" if holds(one) else "green"
        yield Text.assemble((one.name, style), f": {one.message}")
        yield Text(f"  {breaker_words(one, now_ms)}", style="dim")
        if holds(one):
            yield Text(f"  {STEP_OF[one.cause]}")


def _alerts(alerts: Iterable[Alert]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for one in alerts:
        files = f" ({one.count:,} files)" if one.count > 1 else ""
        table.add_row(f"  {instant(one.at_ms)}", one.text + files)
    return table

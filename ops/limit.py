"""How fast may sources be read now, and how does an operator change that while all runs?"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, tzinfo

from rich.table import Table

from labferry.audit import Act
from labferry.bandwidth import plans_of, rates_in_force
from labferry.errors import NotFound, SettingsError
from labferry.ledger import open_ledger
from labferry.limits import OVERALL, Limit, Rate, find_rate, zone_of
from labferry.measures import find_age_s
from labferry.ports import Ledger
from labferry.settings import Settings
from ops.shown import instant, size, tell_change, terminal

#: How the limit of all instruments together is called on the command line.
ALL = "all"
_DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an operator wants of one limit; `rate` is as typed."""

    name: str
    rate: str
    until: str | None = None


def show_limits(settings: Settings, *, as_json: bool) -> None:
    """Print the rates in force, and what says so. Raises: LedgerUnavailable."""
    ledger = open_ledger(settings.ledger)
    rates = rates_in_force(ledger, plans_of(settings))
    now_ms = ledger.now_ms()
    said = {name: one for name, one in ledger.limits().items() if one.holds(now_ms)}
    if as_json:
        print(json.dumps({"limits": [_json(name, one, said) for name, one in rates.items()]}))
    else:
        terminal().print(_table(rates, said))


def _json(name: str, rate: Rate, said: Mapping[str, Limit]) -> dict[str, object]:
    return {
        "name": _shown(name),
        "bytes_per_s": rate.bytes_per_s,
        "why": rate.why,
        "said": asdict(said[name]) if name in said else None,
    }


def _table(rates: Mapping[str, Rate], said: Mapping[str, Limit]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("LIMIT", overflow="fold")
    table.add_column("A SECOND", justify="right")
    table.add_column("BY", overflow="fold")
    for name, rate in rates.items():
        ends = said[name].until_ms if name in said else 0
        why = f"{rate.why}, until {instant(ends)}" if ends else rate.why
        table.add_row(_shown(name), _rate(rate.bytes_per_s), why)
    return table


def set_limit(settings: Settings, asked: Asked, act: Act, *, dry_run: bool, as_json: bool) -> None:
    """Put a limit in force, by all workers within seconds, and the act on record; or say what
    would be.

    Raises: NotFound, SettingsError, LedgerUnavailable.
    """
    ledger = open_ledger(settings.ledger)
    name = OVERALL if asked.name == ALL else asked.name
    if name != OVERALL and name not in settings.instruments:
        known = ", ".join([ALL, *settings.instruments])
        raise NotFound(what=f"the instrument {name}", step=f"A limit is of one of: {known}.")
    limit = None if asked.rate == _DEFAULT else _limit(ledger, settings, asked, act)
    if not dry_run:
        ledger.set_limit(name, limit, act)
    if as_json and not dry_run:
        show_limits(settings, as_json=True)
        return
    facts = {"name": asked.name, "said": asdict(limit) if limit else None}
    tell_change(_sentence(asked.name, limit), facts, dry_run=dry_run, as_json=as_json)


def _sentence(name: str, limit: Limit | None) -> str:
    if limit is None:
        return f"{name}: as the settings say again."
    until = f" until {instant(limit.until_ms)}" if limit.until_ms else ""
    return f"{name}: {_rate(limit.bytes_per_s)} a second{until}, by all workers together."


def _limit(ledger: Ledger, settings: Settings, asked: Asked, act: Act) -> Limit:
    try:
        bytes_per_s = find_rate(asked.rate.lower(), asked.rate)
    except ValueError as error:
        step = f"`{_DEFAULT}` goes back to the settings."
        raise SettingsError(field="RATE", why=str(error), step=step) from error
    now_ms = ledger.now_ms()
    zone = zone_of(settings.limits.timezone)
    return Limit(
        bytes_per_s=bytes_per_s,
        actor=act.actor,
        reason=act.reason,
        at_ms=now_ms,
        until_ms=_until_ms(asked.until, now_ms, zone) if asked.until else 0,
    )


def _until_ms(text: str, now_ms: int, zone: tzinfo) -> int:
    """Return when a limit ends: after a span, or when the clock of the settings' zone shows it."""
    if (age_s := find_age_s(text)) is not None:
        return now_ms + int(age_s * 1000)
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    try:
        hour, minute = map(int, text.split(":"))
        at = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    except ValueError as error:
        raise SettingsError(
            field="--until",
            why=f"{text!r} cannot be read",
            step="Write a span such as 90m or 2h, or a time such as 18:00.",
        ) from error
    later = at if at > now else at + timedelta(days=1)
    return int(later.timestamp() * 1000)


def _shown(name: str) -> str:
    return ALL if name == OVERALL else name


def _rate(bytes_per_s: int | None) -> str:
    return "unlimited" if bytes_per_s is None else size(bytes_per_s)

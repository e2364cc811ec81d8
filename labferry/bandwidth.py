"""Which limit is in force now: of the settings, of an operator, or of an acquisition?"""

import logging
from collections.abc import Mapping

from labferry.errors import MalformedMessage
from labferry.limits import (
    OVERALL,
    Limit,
    Plan,
    Rate,
    is_acquiring,
    rate_of,
    read_schedule,
    zone_of,
)
from labferry.ports import Ledger
from labferry.settings import Settings
from labferry.telemetry import emit


def plans_of(settings: Settings) -> dict[str, Plan]:
    """Return the plan of all instruments together, and of each."""
    limits = settings.limits
    zone = zone_of(limits.timezone)
    overall = Plan(
        bytes_per_s=limits.bandwidth_bytes_per_s,
        schedule=read_schedule(limits.schedule),
        zone=zone,
    )
    plans = {
        name: Plan(
            bytes_per_s=one.bandwidth_bytes_per_s,
            schedule=read_schedule(one.schedule),
            zone=zone,
            acquiring_bytes_per_s=one.acquiring_bytes_per_s,
        )
        for name, one in settings.instruments.items()
    }
    return {OVERALL: overall, **plans}


def rates_in_force(ledger: Ledger, plans: Mapping[str, Plan]) -> dict[str, Rate]:
    """Return the rate of each plan now, by name. Raises: LedgerUnavailable."""
    now_ms, said = ledger.now_ms(), _said(ledger)
    arrived_ms = _arrivals(ledger) if any(map(_is_capped, plans.values())) else {}
    return {
        name: rate_of(
            plan,
            said.get(name),
            now_ms,
            acquiring=is_acquiring(arrived_ms.get(name, 0), now_ms),
        )
        for name, plan in plans.items()
    }


def _said(ledger: Ledger) -> Mapping[str, Limit]:
    """Return what operators said; nothing where another release wrote what this one cannot read:
    the limits of the settings hold then, and no file fails over it."""
    try:
        return ledger.limits()
    except MalformedMessage as error:
        emit("limit.unreadable", level=logging.WARNING, error=str(error))
        return {}


def _is_capped(plan: Plan) -> bool:
    return plan.acquiring_bytes_per_s is not None


def _arrivals(ledger: Ledger) -> dict[str, int]:
    """Return when something came or grew at each instrument's source last."""
    told = sorted(ledger.passes(), key=lambda one: one.arrived_ms)
    return {one.instrument: one.arrived_ms for one in told}

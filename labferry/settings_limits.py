"""What do the settings say of the rate at which sources are read?"""

from typing import Annotated

from pydantic import AfterValidator, Field

from labferry.limits import read_schedule, zone_of
from labferry.settings_trouble import Section


def _checked_schedule(rows: tuple[str, ...]) -> tuple[str, ...]:
    read_schedule(rows)
    return rows


def _checked_zone(name: str) -> str:
    zone_of(name)
    return name


Schedule = Annotated[tuple[str, ...], AfterValidator(_checked_schedule)]


class LimitSettings(Section):
    """[limits] how fast sources are read, by all workers together; see also [instruments.NAME]."""

    bandwidth_bytes_per_s: int | None = Field(None, ge=1, description="all instruments together")
    schedule: Schedule = Field(
        (), description="instead, in parts of the week: `mon-fri 08:00-18:00 50MB`, first wins"
    )
    timezone: Annotated[str, AfterValidator(_checked_zone)] = Field(
        "UTC", description="time zone of all schedules, such as Europe/Berlin"
    )

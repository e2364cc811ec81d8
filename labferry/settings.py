"""Which settings are there, and are they sound?

Read from `labferry.toml` (`--config`, else LABFERRY_CONFIG, else ./labferry.toml where it exists)
and from LABFERRY_SECTION__FIELD, which wins. Secrets come only from the environment or the AWS
chain. The one module that reads settings from the environment.
"""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings.exceptions import SettingsError as UndecodedVariable

from labferry.broker_address import check_broker
from labferry.cluster_nodes import is_cluster, read_nodes
from labferry.errors import BadName, SettingsError
from labferry.identity import check_instrument
from labferry.messages import MAX_PATHS
from labferry.passes import Space
from labferry.profiles import Profile, load_profile, own_folder
from labferry.records import Lane
from labferry.sentinels import is_sentinel, read_sentinels
from labferry.settings_environment import Environment, refuse_unknown_sections
from labferry.settings_events import EventSettings, StatementSettings
from labferry.settings_faults import name_fault, name_instrument_fault
from labferry.settings_limits import LimitSettings, Schedule
from labferry.settings_trouble import AlertSettings, BreakerSettings, RetrySettings, Section
from labferry.settings_watching import FlowerSettings, LogSettings, MonitorSettings, TraceSettings
from labferry.store_address import Bucket, Endpoint, Prefix
from labferry.turns import rank_of

MIB = 1024 * 1024


class StoreSettings(Section):
    """[store] the bucket."""

    bucket: Bucket = Field(description="bucket that holds the runs; never created")
    endpoint_url: Endpoint | None = Field(None, description="S3 endpoint; unset means AWS")
    region: str = Field("us-east-1", description="region that requests are signed for")
    prefix: Prefix = Field("", description="what every object key begins with")
    evidence_minimum: Literal["A", "B", "C", "D"] = Field(
        "D", description="weakest evidence that counts as verified (docs/evidence.md)"
    )
    single_put_max_bytes: int = Field(
        32 * MIB, ge=0, le=5 * 1024 * MIB, description="larger files go up in parts"
    )
    part_size_bytes: int = Field(
        16 * MIB, ge=5 * MIB, le=512 * MIB, description="size of a part, at least"
    )
    max_parts: int = Field(10_000, ge=1, le=10_000, description="most parts the endpoint takes")
    connect_timeout_s: float = Field(10, gt=0, description="longest wait for a connection")
    read_timeout_s: float = Field(60, gt=0, description="longest wait for an answer")
    complete_timeout_s: float = Field(300, gt=0, description="longest wait for a Complete")

    @property
    def endpoint(self) -> str:
        """Return what names endpoint and bucket, for proofs and breakers."""
        base = self.endpoint_url or f"https://s3.{self.region}.amazonaws.com"
        return f"{base.rstrip('/')}/{self.bucket}"

    def lane(self, size: int) -> Lane:
        """Return the lane of a file of this size in bytes."""
        return Lane.SMALL if size <= self.single_put_max_bytes else Lane.LARGE


class LedgerSettings(Section):
    """[ledger] the durable record, Redis or Valkey 7 or later."""

    url: str = Field(
        "redis://127.0.0.1:6379/1",
        pattern=r"^(redis|rediss|unix|sentinel|rediss?\+cluster)://",
        description="ledger's database, sentinels that know it, or a cluster (docs/hosts.md)",
    )
    lease_ttl_s: float = Field(
        60, gt=0, description="a lease ends this long after its last renewal"
    )
    heartbeat_s: float = Field(15, gt=0, description="time between renewals of a lease")
    resend_s: float = Field(
        60, gt=0, description="an unclaimed message is sent again after this, doubling up to 1 h"
    )
    sweep_interval_s: float = Field(2, gt=0, description="time between two sweeps")
    keep_records_s: float = Field(
        7 * 86_400,
        ge=0,
        description="a complete run's records rest so long before they leave for the bucket",
    )

    @model_validator(mode="after")
    def _relations(self) -> "LedgerSettings":
        if self.heartbeat_s * 3 > self.lease_ttl_s:
            raise ValueError("heartbeat_s must be at most a third of lease_ttl_s")
        if is_sentinel(self.url):
            read_sentinels(self.url)
        if is_cluster(self.url):
            read_nodes(self.url)
        return self


class BrokerSettings(Section):
    """[broker] where wake-ups are published, and how many at a time."""

    url: str = Field(
        "redis://127.0.0.1:6379/0", description="broker, as Celery writes it, or sentinels"
    )
    window_messages: int = Field(256, ge=1, description="unclaimed messages an instrument may have")
    bundle_max_files: int = Field(
        500, ge=1, le=MAX_PATHS, description="files in one message, at most"
    )
    bundle_max_bytes: int = Field(64 * MIB, ge=1, description="bytes in one message, at most")

    @model_validator(mode="after")
    def _relations(self) -> "BrokerSettings":
        check_broker(self.url)
        return self


class WorkerSettings(Section):
    """[worker] how much one worker does at a time."""

    small_processes: int = Field(2, ge=1, description="processes of the small lane")
    small_threads: int = Field(
        16, ge=1, le=256, description="uploads at a time in each of them, at first"
    )
    small_threads_most: int = Field(
        256, ge=1, le=1024, description="uploads at a time, as far as more are faster"
    )
    large_processes: int = Field(2, ge=1, description="processes of the large lane, a file each")
    part_threads: int = Field(2, ge=1, le=32, description="parts at a time of one file, at first")
    max_bytes_in_flight: int = Field(
        128 * MIB, ge=1, description="bytes of files in memory, a process: caps parts at a time"
    )
    soft_shutdown_s: float = Field(20, ge=0, description="time for short uploads to end at a stop")


def _checked_root(root: Path) -> Path:
    if not root.is_absolute() or "\0" in str(root):
        raise ValueError("it should be the whole path of a folder, from / on")
    return root


class InstrumentSettings(BaseModel):
    """[instruments.NAME] one instrument's share; any field of its profile can be set here too."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    root: Annotated[Path, AfterValidator(_checked_root)] = Field(
        description="folder that holds the run folders"
    )
    profile: str = Field("generic", description="what a run is and when it is done")
    bandwidth_bytes_per_s: int | None = Field(
        None, ge=1, description="its files are read no faster, by all workers together"
    )
    schedule: Schedule = Field((), description="instead, in parts of the week, as in [limits]")
    acquiring_bytes_per_s: int | None = Field(
        None, ge=1, description="at most, while something comes or grows at the source"
    )
    max_concurrency: int | None = Field(
        None, ge=1, description="its files under way at a time, by all workers together, at most"
    )
    priority: int = Field(
        0, ge=-100, le=100, description="files of a higher one go first; the others go on slowly"
    )
    urgent_left_s: float = Field(
        12 * 3600, ge=0, description="goes before all once its share is full within this time"
    )
    _own_profiles: Path | None = PrivateAttr(None)
    _resolved: Profile | None = PrivateAttr(None)

    def resolved(self) -> Profile:
        """Return the profile with this instrument's own fields over it. Raises: SettingsError."""
        if self._resolved is None:
            own = self.model_extra or {}
            self._resolved = load_profile(self.profile, own, self._own_profiles)
        return self._resolved

    def look_in(self, folder: Path | None) -> None:
        """Name the folder of a facility's own profiles."""
        self._own_profiles = folder


class Settings(BaseSettings):
    """All settings."""

    model_config = SettingsConfigDict(
        env_prefix="LABFERRY_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    store: StoreSettings
    ledger: LedgerSettings = LedgerSettings()
    broker: BrokerSettings = BrokerSettings()
    retry: RetrySettings = RetrySettings()
    breakers: BreakerSettings = BreakerSettings()
    alerts: AlertSettings = AlertSettings()
    events: EventSettings = EventSettings()
    statements: StatementSettings = StatementSettings()
    worker: WorkerSettings = WorkerSettings()
    limits: LimitSettings = LimitSettings()
    flower: FlowerSettings = FlowerSettings()
    monitor: MonitorSettings = MonitorSettings()
    logs: LogSettings = LogSettings()
    traces: TraceSettings = TraceSettings()
    instruments: dict[str, InstrumentSettings] = Field(min_length=1)

    def rank(self, instrument: str, space: Space | None) -> int:
        """Return whose files go first, by priority and by the room on the instrument's share."""
        found = self.instruments.get(instrument)
        return rank_of(found.priority, space, found.urgent_left_s) if found else 0

    def cap(self, instrument: str) -> int | None:
        """Return how many files of an instrument may be under way at a time; None for no cap."""
        found = self.instruments.get(instrument)
        return found.max_concurrency if found else None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment over file; nothing else."""
        file = TomlConfigSettingsSource(settings_cls)
        return Environment(settings_cls, file), file


def config_path(given: Path | None) -> Path | None:
    """Return the configuration file in force, or None where there is none.

    Raises: SettingsError when a named one is not there.
    """
    variable = os.environ.get("LABFERRY_CONFIG")
    named = given or (Path(variable) if variable else None)
    if named is None:
        return Path("labferry.toml") if Path("labferry.toml").exists() else None
    if not named.is_file():
        raise SettingsError(
            field="--config" if given else "LABFERRY_CONFIG",
            why=f"{named} is not a file",
            step="Write one with `labferry init`, or name one that is there.",
        )
    return named


def load_settings(given: Path | None = None) -> Settings:
    """Read and check all settings. Raises: SettingsError, which names the field."""
    path = config_path(given)
    refuse_unknown_sections(os.environ, tuple(Settings.model_fields))

    class _FromFile(Settings):
        model_config = SettingsConfigDict(toml_file=path)

    try:
        settings: Settings = _FromFile()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(
            field=str(path), why=f"it cannot be read as TOML: {error}", step="Mend it."
        ) from error
    except UndecodedVariable as error:
        raise SettingsError(
            field="environment", why=str(error), step="Set one field, as LABFERRY_SECTION__FIELD."
        ) from error
    except ValidationError as error:
        raise name_fault(error, path) from error
    for name, instrument in settings.instruments.items():
        instrument.look_in(own_folder(path))
        _check_instrument(name, instrument, path)
    return settings


def _check_instrument(name: str, instrument: InstrumentSettings, path: Path | None) -> None:
    try:
        check_instrument(name)
        instrument.resolved()
    except (BadName, SettingsError) as error:
        raise name_instrument_fault(name, error, path) from error

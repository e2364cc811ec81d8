"""What do the settings say of trouble: what stands in the way of all files, and who is told?"""

from pydantic import BaseModel, ConfigDict, Field, model_validator

from labferry.breakers import Rules


class Section(BaseModel):
    """One section of labferry.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RetrySettings(Section):
    """[retry] the budget of a file and the waits between its attempts."""

    attempts: int = Field(8, ge=1, le=200, description="failed attempts before quarantine")
    elapsed_s: float = Field(86_400, gt=0, description="age since the first attempt, at most")
    base_s: float = Field(2, gt=0, description="ceiling of the first wait; doubles each time")
    cap_s: float = Field(600, gt=0, description="no wait is longer, but for Retry-After")
    floor_s: float = Field(0.5, ge=0, description="no wait is shorter")
    worker_losses: int = Field(3, ge=1, le=200, description="workers lost before quarantine")
    source_rounds: int = Field(
        20, ge=1, le=200, description="changes under upload before quarantine"
    )
    hold_s: float = Field(30, gt=0, description="wait of a file whose endpoint asks for less")

    @model_validator(mode="after")
    def _relations(self) -> "RetrySettings":
        if not self.floor_s <= self.base_s <= self.cap_s:
            raise ValueError("floor_s <= base_s <= cap_s must hold")
        return self


class BreakerSettings(Section):
    """[breakers] how files are held while something stands in the way of all of them."""

    probe_s: float = Field(10, gt=0, description="first wait until one file is tried; doubles")
    probe_cap_s: float = Field(300, gt=0, description="longest wait between two tries")
    ramp_s: float = Field(2, gt=0, description="the window doubles in this time, from 1 message")
    recovery_s: float = Field(30, gt=0, description="a halved pace doubles in this time")
    share_look_s: float = Field(2, gt=0, description="time between two looks at a share's root")

    @model_validator(mode="after")
    def _relations(self) -> "BreakerSettings":
        if self.probe_s > self.probe_cap_s:
            raise ValueError("probe_s must be at most probe_cap_s")
        return self

    def rules(self, lease_ttl_s: float) -> Rules:
        """Return these settings as breakers want them; a probe's permission is a lease, too."""
        return Rules(
            probe_ms=int(self.probe_s * 1000),
            cap_ms=int(self.probe_cap_s * 1000),
            lease_ms=int(lease_ttl_s * 1000),
            ramp_ms=int(self.ramp_s * 1000),
            recovery_ms=int(self.recovery_s * 1000),
        )


class AlertSettings(Section):
    """[alerts] who is told that something needs a person; every sweep has to have the same."""

    webhook_url: str | None = Field(
        None, pattern="^https?://", description="is sent each alert as JSON, by POST"
    )
    command: tuple[str, ...] = Field((), description="program and arguments; JSON on its input")
    sns_topic_arn: str | None = Field(
        None, pattern="^arn:[^:]+:sns:[^:]+:[^:]*:.+", description="topic that gets the JSON"
    )
    timeout_s: float = Field(10, gt=0, description="longest time one delivery may take")
    remind_s: float = Field(
        86_400, gt=0, description="dead letters that wait are told of again after this"
    )
    gather_s: float = Field(5, ge=0, description="an alert waits so long and counts what follows")

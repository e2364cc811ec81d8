"""What do the settings say of watching: Flower, metrics, the status page, named conditions?"""

import logging
from typing import Literal

from pydantic import Field, SecretStr

from labferry.settings_trouble import Section
from labferry.telemetry import Form, configure


class FlowerSettings(Section):
    """[flower] the live view of tasks, queues and workers."""

    address: str = Field("127.0.0.1", description="address it binds to")
    port: int = Field(5555, ge=0, le=65535, description="port it binds to")
    basic_auth: SecretStr = Field(
        SecretStr(""), description="user:password, needed off loopback; only in the environment"
    )
    url_prefix: str = Field("", description="path it is served under behind a proxy")
    max_tasks: int = Field(
        10_000, ge=100, description="newest tasks it keeps; about 5 KB and 3 us a page each"
    )
    silent_s: float = Field(
        60, gt=0, description="started again when it hears nothing so long while workers answer"
    )


class MonitorSettings(Section):
    """[monitor] the metrics, the status page, and from when on a condition is named."""

    address: str = Field("127.0.0.1", description="address it binds to")
    port: int = Field(9755, ge=0, le=65535, description="port it binds to")
    basic_auth: SecretStr = Field(
        SecretStr(""),
        description="user:password of the page, needed off loopback; only in the environment",
    )
    hung_s: float = Field(
        600, gt=0, description="hung: files could go, and none did, nor a part, for so long"
    )
    lagging_s: float = Field(
        3600, gt=0, description="lagging: a file that is at rest waits so long for a worker"
    )
    slow_share: float = Field(
        0.5, gt=0, le=1, description="slow: the endpoint allows less than this of the threads"
    )


class LogSettings(Section):
    """[logs] what programs say of what happens, on standard error."""

    level: Literal["debug", "info", "warning"] = Field(
        "info", description="debug has a line for each file, also for what goes well"
    )
    format: Form = Field("auto", description="json or plain; auto is plain on a terminal")

    def apply(self, program: str) -> None:
        """Let this process log as these settings say."""
        level = logging.getLevelNamesMapping()[self.level.upper()]
        configure(program, level=level, form=self.format)


class TraceSettings(Section):
    """[traces] where OpenTelemetry traces go; needs the extra `labferry[traces]`."""

    endpoint_url: str | None = Field(
        None, pattern="^https?://", description="OTLP over HTTP, such as http://host:4318/v1/traces"
    )

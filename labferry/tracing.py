"""Are tasks and requests traced? By OpenTelemetry's stock instrumentation, where it is asked for.

It is an extra (`labferry[traces]`), imported only then. A trace begins where a wake-up is published
and goes on in the worker that gets it, with botocore's calls below. Puts of small files and parts,
which go over plain connections, have no span of their own.
"""

from collections.abc import Callable
from typing import Any

from labferry import __version__
from labferry.errors import SettingsError


def start_tracing(program: str, endpoint_url: str | None) -> Callable[[], None]:
    """Trace this process from now on; return what tells the last spans. Call it after a fork.

    Raises: SettingsError where the extra is not installed.
    """
    if endpoint_url is None:
        return _tell_nothing
    try:
        return _start(program, endpoint_url)
    except ImportError as error:
        raise SettingsError(
            field="traces.endpoint_url",
            why=f"{error.name} is not installed",
            step="Install the extra, pip install 'labferry[traces]', or unset it.",
        ) from error


def _tell_nothing() -> None:
    pass


def _start(program: str, endpoint_url: str) -> Callable[[], None]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.botocore import BotocoreInstrumentor
    from opentelemetry.instrumentation.celery import CeleryInstrumentor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {"service.name": f"labferry-{program}", "service.version": __version__}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint_url)))
    for kind in (CeleryInstrumentor, BotocoreInstrumentor):
        instrumentor: Any = kind
        instrumentor().instrument(tracer_provider=provider)
    return provider.shutdown

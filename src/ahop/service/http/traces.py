"""A trace of each request, for who collects them; off unless `OTEL_EXPORTER_OTLP_ENDPOINT` says where to."""

import os
import time
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from ahop.errors import MissingPackageError

# The variable that all services which speak OTLP are told by.
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@runtime_checkable
class Tracer(Protocol):
    """Sends what happened, in the background."""

    def ended(self, route: str, seconds: float, headers: Mapping[bytes, bytes], facts: Mapping[str, Any]) -> None:
        """A request was answered just now."""

    def close(self) -> None:
        """Send what is left."""


class NoTracer:
    def ended(self, route: str, seconds: float, headers: Mapping[bytes, bytes], facts: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def tracer_of_environment() -> Tracer:
    """The tracer that the environment asks for, by the variables of OpenTelemetry."""
    return OtlpTracer() if os.environ.get(ENDPOINT) else NoTracer()


class OtlpTracer:
    """OTLP over HTTP. A span has the route, the status and counts; neither queries nor patterns nor keys."""

    def __init__(self) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise MissingPackageError(
                f"`{ENDPOINT}` is set, and traces need OpenTelemetry. `pip install 'ahop[otlp]'`, or unset it."
            ) from error
        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "ahop")})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("ahop.service")
        self._parent = TraceContextTextMapPropagator()

    def ended(self, route: str, seconds: float, headers: Mapping[bytes, bytes], facts: Mapping[str, Any]) -> None:
        given = {name: headers[name.encode()].decode("latin-1") for name in PARENT if name.encode() in headers}
        now = time.time_ns()
        span = self._tracer.start_span(route, self._parent.extract(given), start_time=now - int(1e9 * seconds))
        span.set_attributes(dict(facts))
        span.end(now)

    def close(self) -> None:
        self._provider.shutdown()


# The headers by which a caller says what trace its request belongs to.
PARENT = ("traceparent", "tracestate")

"""Where a server's spans go: to a collector, by OTLP over HTTP, in the background.

OpenTelemetry's own environment variables say where, how, and which calls are traced; its users know them. What is ours
is what the log shows while no collector can be reached: one line, and one when it is there again. The SDK's own are a
line for each try.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from duramen.tracing.otel_spans import TRACER_NAME, OtelTracing
from log_tier.model.errors import InvalidRequest

__all__ = ["AnnouncedExporter", "ServerTraces"]

logger = logging.getLogger(__name__)

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OURS: Final = "http/protobuf"

# The exporter and what it sends with log each try; the queue logs each span that it drops.
_TALKING: Final = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.common",
    "opentelemetry.exporter.http.transport",
    "opentelemetry.sdk._shared_internal",
)

# A server that stops sends what it still has, if the collector answers at all.
_LAST_SPANS_S: Final = 2.0


class AnnouncedExporter(SpanExporter):
    """An exporter whose failures make one line, until it succeeds again."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._failing = False
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            if self._failing:
                logger.warning("the collector of traces takes spans again; %d were lost", self._lost)
            self._failing, self._lost = False, 0
            return result
        self._lost += len(spans)
        if not self._failing:
            self._failing = True
            logger.warning(
                "the collector of traces does not take spans, and they are lost until it does: is "
                "OTEL_EXPORTER_OTLP_ENDPOINT where it listens for OTLP over HTTP? Calls are answered as before"
            )
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class ServerTraces:
    """A provider of a server's own, not the program's."""

    def __init__(self, role: str) -> None:
        """Raises `InvalidRequest` for a protocol that is not ours, and for variables that OpenTelemetry refuses."""
        for name in _PROTOCOLS:
            if (asked := os.environ.get(name, "").strip()) not in ("", _OURS):
                raise InvalidRequest(f"{name} is {asked!r}: traces are sent by {_OURS}, mostly to port 4318")
        for name in _TALKING:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._provider = _provider(role)
        except (ValueError, KeyError, OSError) as error:
            raise InvalidRequest(f"OpenTelemetry refuses what its variables, OTEL_…, say: {error}") from error
        self.tracing = OtelTracing(self._provider.get_tracer(TRACER_NAME))

    def close(self) -> None:
        """Send what is left, for two seconds at most. Blocks."""
        ending = threading.Thread(target=self._provider.shutdown, name="duramen-traces-end", daemon=True)
        ending.start()
        ending.join(_LAST_SPANS_S)


def _provider(role: str) -> TracerProvider:
    found = Resource.create({"duramen.role": role})
    if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        found = found.merge(Resource({SERVICE_NAME: "duramen"}))
    exporter = AnnouncedExporter(OTLPSpanExporter())
    provider = TracerProvider(resource=found, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider

"""This process as a program that has set up OpenTelemetry: its providers, which a process sets once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import AnyValue

from kit.traces.collector import Collector

__all__ = ["duration_metrics", "durations", "kept", "processed_by", "sampling", "sending_to"]


class _Switch(SpanProcessor, Sampler):
    """What the present test wants: where spans go, and whether roots are sampled."""

    def __init__(self) -> None:
        self.target: SpanProcessor | None = None
        self.on = True
        self.reader = InMemoryMetricReader()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.target is not None:
            self.target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        if self.target is not None:
            self.target.on_end(span)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Mapping[str, AnyValue] | None = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        return SamplingResult(Decision.RECORD_AND_SAMPLE if self.on else Decision.DROP, attributes)

    def get_description(self) -> str:
        return "the test's"


@cache
def _switch() -> _Switch:
    switch = _Switch()
    provider = TracerProvider(
        resource=Resource.create({"service.name": "program"}), sampler=ParentBased(switch), shutdown_on_exit=False
    )
    provider.add_span_processor(switch)
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([switch.reader], shutdown_on_exit=False))
    return switch


@contextmanager
def processed_by(processor: SpanProcessor) -> Iterator[None]:
    """Spans of this process go to `processor`."""
    switch = _switch()
    switch.target, before = processor, switch.target
    try:
        yield
    finally:
        switch.target = before


@contextmanager
def sending_to(collector: Collector) -> Iterator[None]:
    """Spans of this process go there."""
    with processed_by(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.endpoint}/v1/traces"))):
        yield


@contextmanager
def kept() -> Iterator[InMemorySpanExporter]:
    """Spans of this process stay in it, for a simulation, in which nothing is sent."""
    exporter = InMemorySpanExporter()
    with processed_by(SimpleSpanProcessor(exporter)):
        yield exporter


@contextmanager
def sampling(on: bool) -> Iterator[None]:
    """Are new traces of this process sampled?"""
    switch = _switch()
    switch.on, before = on, switch.on
    try:
        yield
    finally:
        switch.on = before


def duration_metrics(table: str) -> list[Metric]:
    """The metrics that have points of a table."""
    found = _switch().reader.get_metrics_data()
    return [
        metric
        for resource in (found.resource_metrics if found is not None else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if _points(metric, table)
    ]


def durations(table: str) -> list[HistogramDataPoint]:
    """The points of `db.client.operation.duration` of a table."""
    return [
        point
        for metric in duration_metrics(table)
        if metric.name == "db.client.operation.duration" and metric.unit == "s"
        for point in _points(metric, table)
    ]


def _points(metric: Metric, table: str) -> list[HistogramDataPoint]:
    return [
        point
        for point in metric.data.data_points
        if isinstance(point, HistogramDataPoint) and (point.attributes or {}).get("db.collection.name") == table
    ]

"""Spans of `log_tier.tracing` by OpenTelemetry's API: those of a program, by its own provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, Tracer

from duramen.tracing.harmless import harmless
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.tracing import span as seam

__all__ = ["TRACER_NAME", "OtelSpan", "start"]

TRACER_NAME: Final = "duramen"

_KINDS: Final = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


def _nothing() -> None:
    """What comes of a span that could not be changed."""


def _no_headers() -> tuple[tuple[str, str], ...]:
    return ()


def _no_span() -> trace.Span:
    return trace.INVALID_SPAN


def _started(tracer: Tracer, name: str, context: Context | None = None, **how: Any) -> trace.Span:
    return tracer.start_span(name, context, **how)


def _ended(span: trace.Span, noted: Mapping[str, seam.SpanValue], end_ns: int) -> None:
    if noted:
        span.set_attributes(noted)
    span.end(end_ns)


def _linked(span: trace.Span, other: SpanContext) -> None:
    span.add_link(other)


def _headers_of(span: trace.Span) -> tuple[tuple[str, str], ...]:
    """What W3C's propagator makes, which takes five times as long."""
    context = span.get_span_context()
    parent = ("traceparent", f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}")
    return (parent, ("tracestate", context.trace_state.to_header())) if context.trace_state else (parent,)


start: Final = harmless(_started, _no_span)
"""Begin a span by OpenTelemetry; one that is not recorded where that fails."""
_end: Final = harmless(_ended, _nothing)
_link: Final = harmless(_linked, _nothing)
_headers: Final = harmless(_headers_of, _no_headers)


class OtelSpan:
    """A recorded span. What OpenTelemetry raises is logged, and is no failure of the work.

    Its attributes are noted, and given to OpenTelemetry together when it ends: one by one they take as long as it.
    """

    __slots__ = (
        "_began_s",
        "_clock",
        "_failed",
        "_linked",
        "_noted",
        "_parts",
        "_requests",
        "_span",
        "_tracer",
        "is_client",
    )

    def __init__(
        self, span: trace.Span, tracer: Tracer, clock: Clock = SYSTEM_CLOCK, *, is_client: bool = False
    ) -> None:
        self._span = span
        self._tracer = tracer
        self._clock = clock
        self._failed = False
        self._parts = 0
        self._requests = 0
        self._linked: tuple[OtelSpan, ...] = ()
        self._noted: dict[str, seam.SpanValue] = {}
        self._began_s = clock.monotonic_s() if is_client else 0.0
        self.is_client = is_client

    @property
    def context(self) -> SpanContext:
        """What links name it by."""
        return self._span.get_span_context()

    @property
    def is_open(self) -> bool:
        return self._span.is_recording()

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return _headers(self._span)

    def _at(self, ago_s: float) -> int:
        return self._clock.wall_us() * 1000 - int(ago_s * 1e9)

    def child(
        self, name: str, *, kind: seam.SpanKind = "internal", links: Sequence[seam.Span] = (), ago_s: float = 0.0
    ) -> seam.Span:
        made = start(
            self._tracer,
            name,
            trace.set_span_in_context(self._span, Context()),
            kind=_KINDS[kind],
            links=[Link(other.context) for other in links if isinstance(other, OtelSpan)],
            start_time=self._at(ago_s),
        )
        return OtelSpan(made, self._tracer, self._clock)

    def link(self, other: seam.Span) -> None:
        if isinstance(other, OtelSpan) and other not in self._linked:  # it may be with it in several requests
            self._linked = (*self._linked, other)
            _link(self._span, other.context)

    def set(self, name: str, value: seam.SpanValue) -> None:
        self._noted[name] = value

    def place(self, partition: int, offset: int) -> None:
        if not self._parts:
            self._noted[seam.PARTITION] = partition
            self._noted[seam.OFFSET] = offset
        elif self._parts < seam.PARTS_MAX:
            self._span.add_event("part", {seam.PARTITION: partition, seam.OFFSET: offset})
        self._parts += 1

    def leaves(self) -> None:
        self._requests += 1
        if self._requests == 1:
            self._noted[seam.GATHERED] = round((self._clock.monotonic_s() - self._began_s) * 1000, 3)
        else:
            self._noted[seam.REQUESTS] = self._requests

    def lost(self, kind: str) -> None:
        self._span.add_event("request failed", {"error.type": kind})

    def fail(self, kind: str) -> None:
        if self._failed:
            return
        self._failed = True
        self._noted["error.type"] = kind
        self._span.set_status(Status(StatusCode.ERROR))

    def end(self, *, ago_s: float = 0.0) -> None:
        if self._span.is_recording():
            _end(self._span, self._noted, self._at(ago_s))

"""Operations of a client by OpenTelemetry's conventions for databases: a span each if it is sampled, and a duration.

The tracer and the meter are those of the program: whatever it has set up, or nothing at all. The span's parent is the
one that is current where the program makes the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import Token
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind

from duramen.tracing.otel_spans import TRACER_NAME, OtelSpan
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.errors import DuramenError
from log_tier.tracing.span import TRACED, Span

__all__ = ["OtelOperations"]

DURATION: Final = "db.client.operation.duration"

_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""Those of the conventions."""

# One key is no batch.
_BATCH_MIN: Final = 2


class OtelOperations:
    """The operations of one client."""

    def __init__(self, targets: Sequence[str]) -> None:
        """`targets`: host:port of its servers; none for an embedded database."""
        self._tracer = trace.get_tracer(TRACER_NAME)
        self._durations = metrics.get_meter(TRACER_NAME).create_histogram(
            DURATION,
            unit="s",
            description="Duration of database client operations.",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._of_all: dict[str, str | int] = {"db.system.name": "duramen"}
        if targets:
            host, _, port = targets[0].rpartition(":")
            self._of_all |= {"server.address": host.strip("[]"), "server.port": int(port)}

    def begin(self, name: str, table: str) -> OtelOperation:
        """Begin an operation; its span, if it is sampled, is below the one that is current here."""
        attributes = {**self._of_all, "db.collection.name": table, "db.operation.name": name}
        span = self._tracer.start_span(f"{name} {table}", kind=SpanKind.CLIENT, attributes=attributes)
        traced = OtelSpan(span, self._tracer) if span.is_recording() else None
        return OtelOperation(self._durations, attributes, traced)


class OtelOperation:
    """One call."""

    __slots__ = ("_attributes", "_began_s", "_callers", "_durations", "_span", "_token")

    def __init__(self, durations: metrics.Histogram, attributes: dict[str, str | int], span: Span | None) -> None:
        self._durations = durations
        self._attributes = attributes
        self._span = span
        self._callers: tuple[Span, ...] = () if span is None else (span,)
        self._token: Token[tuple[Span, ...]] | None = None
        self._began_s = SYSTEM_CLOCK.monotonic_s()

    def __enter__(self) -> OtelOperation:
        self._token = TRACED.set(self._callers)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None:
        assert self._token is not None, "an operation ends once, and after it began"
        TRACED.reset(self._token)
        self._token = None
        self.finish(error)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Requests that begin inside are this operation's."""
        before = TRACED.set(self._callers)
        try:
            yield
        finally:
            TRACED.reset(before)

    def counted(self, records: int) -> None:
        """The operation was about so many keys."""
        if self._span is not None and records >= _BATCH_MIN:
            self._span.set("db.operation.batch.size", records)

    def finish(self, error: BaseException | None) -> None:
        """Count its duration and end its span."""
        took_s = SYSTEM_CLOCK.monotonic_s() - self._began_s
        if error is None:
            self._durations.record(took_s, self._attributes)
        else:
            kind = error.code if isinstance(error, DuramenError) else type(error).__qualname__
            self._durations.record(took_s, {**self._attributes, "error.type": kind})
            if self._span is not None:
                self._span.fail(kind)
        if self._span is not None:
            self._span.end()

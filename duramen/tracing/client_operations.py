"""Operations of a client by OpenTelemetry's conventions for databases: a span each if it is sampled, and a duration.

The tracer and the meter are those of the program: whatever it has set up, or nothing at all. The span's parent is the
one that is current where the program makes the call.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from math import log
from random import random
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.context import get_current
from opentelemetry.metrics._internal import _ProxyMeterProvider
from opentelemetry.trace import INVALID_SPAN, Link, SpanKind

from duramen.tracing.harmless import harmless
from duramen.tracing.otel_spans import TRACER_NAME, OtelSpan, start
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.errors import DeadlineExceeded, Disconnected, DuramenError, WriteUnknown
from log_tier.tracing.span import TRACED, Span

__all__ = ["OtelOperations"]

DURATION: Final = "db.client.operation.duration"

_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""Those of the conventions."""

# One record is no batch, and none is an empty one.
_NO_BATCH: Final = 1


_UNANSWERED: Final = (DeadlineExceeded, Disconnected, WriteUnknown)
"""No server, or an embedded database, has answered: there is no status of a response."""


class OtelOperations:
    """The operations of one client."""

    def __init__(self, targets: Sequence[str], share: float = 1.0) -> None:
        """`targets`: host:port of its servers; none for an embedded database. `share`: of the calls that are part of no
        span, so many are offered to the tracer, wherever no durations are counted.
        """
        self._share = share
        self._counts = not isinstance(metrics.get_meter_provider(), (metrics.NoOpMeterProvider, _ProxyMeterProvider))
        """Has the program set up what durations are counted for? To count one takes 6 µs."""
        self._left = self._gap()
        """So many calls are none before one is. What two threads take from it at once may be counted as one."""
        self._outside = None if self._counts else contextvars.Context().run(get_current)
        """OpenTelemetry's context where the program has begun nothing; None: every call counts."""
        self._tracer = trace.get_tracer(TRACER_NAME)
        self._durations = metrics.get_meter(TRACER_NAME).create_histogram(
            DURATION,
            unit="s",
            description="Duration of database client operations.",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._record = harmless(self._durations.record, _nothing)
        self._of_all: dict[str, str | int] = {"db.system.name": "duramen"}
        if targets:
            host, _, port = targets[0].rpartition(":")
            self._of_all |= {"server.address": host.strip("[]"), "server.port": int(port)}

    def _gap(self) -> int:
        """How many calls are none until the next one is: as if a share was drawn for each, by one draw for all."""
        return int(log(1.0 - random()) / log(1.0 - self._share)) if self._share < 1.0 else 0

    def skips(self) -> bool:
        left = self._left
        if left > 0 and get_current() is self._outside:
            self._left = left - 1
            return True
        return False

    def current(self) -> object | None:
        current = trace.get_current_span()
        return current if current is not INVALID_SPAN and current.is_recording() else None

    def begin(self, name: str, table: str) -> OtelOperation | None:
        """An operation; its span, if it is sampled, is below the one that is current where it is entered."""
        tracer = self._tracer if self._is_offered() else None
        if tracer is None and not self._counts:
            return None
        attributes = {**self._of_all, "db.collection.name": table, "db.operation.name": name}
        return OtelOperation(self._record if self._counts else None, attributes, tracer)

    def _is_offered(self) -> bool:
        """May this call have a span? What is part of a span that is not recorded has none."""
        current = trace.get_current_span()
        if current is not INVALID_SPAN:
            return current.is_recording() or self._share >= 1.0
        if self._left > 0:
            self._left -= 1
            return False
        self._left = self._gap()
        return True


class OtelOperation:
    """One call."""

    __slots__ = ("_attributes", "_began_s", "_callers", "_links", "_record", "_span", "_token", "_tracer")

    def __init__(
        self,
        record: Callable[[float, Mapping[str, str | int]], None] | None,
        attributes: dict[str, str | int],
        tracer: trace.Tracer | None,
    ) -> None:
        """`tracer`: it decides whether there is a span; None: there is none. `record`: counts a duration; None: it is
        not counted.
        """
        self._record = record
        self._attributes = attributes
        self._tracer = tracer
        self._span: Span | None = None
        self._callers: tuple[Span, ...] = ()
        self._links: list[Link] = []
        self._token: Token[tuple[Span, ...]] | None = None
        self._began_s: float | None = None

    def _begin(self) -> None:
        self._began_s = SYSTEM_CLOCK.monotonic_s()
        if self._tracer is not None:
            name = f"{self._attributes['db.operation.name']} {self._attributes['db.collection.name']}"
            span = start(self._tracer, name, kind=SpanKind.CLIENT, attributes=self._attributes, links=self._links)
            if span.is_recording():
                self._span = OtelSpan(span, self._tracer, is_client=True)
                self._callers = (self._span,)

    def __enter__(self) -> OtelOperation:
        self._begin()
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
        if self._began_s is None:
            self._begin()
        before = TRACED.set(self._callers)
        try:
            yield
        finally:
            TRACED.reset(before)

    def came_of(self, origins: Sequence[object]) -> None:
        above = trace.get_current_span()
        self._links = [
            Link(each.get_span_context()) for each in origins if isinstance(each, trace.Span) and each is not above
        ]

    def counted(self, records: int) -> None:
        """The operation wrote so many records."""
        if self._span is not None and records != _NO_BATCH:
            self._span.set("db.operation.batch.size", records)

    def returned(self, rows: int) -> None:
        """The operation has read so many keys that are there."""
        if self._span is not None:
            self._span.set("db.response.returned_rows", rows)

    def finish(self, error: BaseException | None) -> None:
        """Count its duration and end its span."""
        attributes = self._attributes
        if error is not None:
            kind = error.code if isinstance(error, DuramenError) else type(error).__qualname__
            attributes = {**attributes, "error.type": kind}
            if isinstance(error, DuramenError) and not isinstance(error, _UNANSWERED):
                attributes["db.response.status_code"] = kind
                if self._span is not None:
                    self._span.set("db.response.status_code", kind)
            if self._span is not None:
                self._span.fail(kind)
        if self._record is not None and self._began_s is not None:
            self._record(SYSTEM_CLOCK.monotonic_s() - self._began_s, attributes)
        if self._span is not None:
            self._span.end()


def _nothing() -> None:
    """What comes of a duration that could not be counted."""

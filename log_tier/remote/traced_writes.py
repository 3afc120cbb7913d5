"""Which batches of a read were written by calls that are traced, as messages: followers get their `traceparent`.

Records have no place for it, and need none: who follows the log at its end reads what was written a moment ago, and the
log still knows by whom. A log that was started since has forgotten it, and the trace ends at the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from log_tier.proto import log_pb2
from log_tier.tracing.span import CALLERS_MAX, Span, Tracing
from log_tier.tracing.written import TracedWrite

__all__ = ["messages_of", "writes_of"]


def messages_of(writes: Iterable[TracedWrite]) -> list[log_pb2.TracedWrite]:
    """What a reply of a read carries."""
    return [
        log_pb2.TracedWrite(
            first=first, last=last, callers=[log_pb2.TraceParent(**dict(caller.headers)) for caller in callers]
        )
        for first, last, callers in writes
    ]


def writes_of(messages: Sequence[log_pb2.TracedWrite], tracing: Tracing) -> tuple[TracedWrite, ...]:
    """The same at the follower. A call that wrote several batches is one span."""
    spans: dict[tuple[str, str], Span | None] = {}
    writes: list[TracedWrite] = []
    for message in messages:
        callers: list[Span] = []
        for caller in message.callers[:CALLERS_MAX]:
            named = (caller.traceparent, caller.tracestate)
            if named not in spans:
                spans[named] = tracing.elsewhere(*named)
            span = spans[named]
            if span is not None:
                callers.append(span)
        if callers:
            writes.append(TracedWrite(message.first, message.last, tuple(callers)))
    return tuple(writes)

"""The spans of what an index did for its callers, and where the parts of a request were done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from log_tier.tracing.passing import record_part
from log_tier.tracing.span import CALLERS_MAX, PARTITION, WAITED_FOR, Span
from log_tier.tracing.written import TracedWrite

__all__ = ["begin_followed", "end_followed", "place_all", "trace_read", "trace_wait"]


def place_all(callers: Iterable[Span], places: Iterable[tuple[int, int]]) -> None:
    """The parts of a request are done at these places, each a partition's number and an offset."""
    places = list(places)
    for caller in callers:
        for place in places:
            caller.place(*place)


def trace_read(callers: Iterable[Span], began_ago_s: float, places: Iterable[tuple[int, int]]) -> None:
    """A read of indexes; `places`: up to which offsets they had followed the log."""
    places = list(places)
    for caller in callers:
        span = caller.child("index read", ago_s=began_ago_s)
        place_all((span,), places)
        span.end()


def trace_wait(
    callers: Iterable[Span], began_ago_s: float, place: tuple[int, int], applies: Sequence[Span] = ()
) -> None:
    """A wait until an index had applied what a call needs: `place`, the first of its parts that had to wait. `applies`:
    the spans of what it waited for, to which it has links.
    """
    partition, offset = place
    for caller in callers:
        record_part(caller, "index wait", began_ago_s, {PARTITION: partition, WAITED_FOR: offset}, links=applies)


def begin_followed(name: str, writes: Iterable[TracedWrite], partition: int) -> tuple[TracedWrite, ...]:
    """Who follows the log begins to do something with a run of batches that has `writes`: a span for each call that
    wrote them, below that call, for up to `CALLERS_MAX`. The same places, with these spans, for `end_followed`. Where
    that never comes, they are never sent.
    """
    spans: dict[Span, Span] = {}
    followed: list[TracedWrite] = []
    for first, last, callers in writes:
        of_write: list[Span] = []
        for caller in callers:
            span = spans.get(caller)
            if span is None:
                if len(spans) == CALLERS_MAX:
                    continue
                span = spans[caller] = caller.child(name)
            span.place(partition, first)
            of_write.append(span)
        followed.append(TracedWrite(first, last, tuple(of_write)))
    return tuple(followed)


def end_followed(followed: Iterable[TracedWrite]) -> None:
    """It is done."""
    for write in followed:
        for span in write.callers:
            span.end()  # the second time for a call that wrote several: it takes nothing more

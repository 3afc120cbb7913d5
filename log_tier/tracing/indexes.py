"""The spans of what an index did for its callers, and where the parts of a request were done."""

from __future__ import annotations

from collections.abc import Iterable

from log_tier.tracing.passing import record_part
from log_tier.tracing.span import PARTITION, WAITED_FOR, Span

__all__ = ["place_all", "trace_read", "trace_wait"]


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


def trace_wait(callers: Iterable[Span], began_ago_s: float, place: tuple[int, int]) -> None:
    """A wait until an index had applied what a call needs: `place`, the first of its parts that had to wait."""
    partition, offset = place
    for caller in callers:
        record_part(caller, "index wait", began_ago_s, {PARTITION: partition, WAITED_FOR: offset})

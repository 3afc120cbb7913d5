"""The span of an append to a log that is elsewhere, of which only the whole time is known here."""

from __future__ import annotations

from collections.abc import Iterable

from log_tier.tracing.indexes import place_all
from log_tier.tracing.span import Span

__all__ = ["trace_append"]


def trace_append(
    callers: Iterable[Span], began_ago_s: float, places: Iterable[tuple[int, int]], failed: str = ""
) -> None:
    """`places`: where batches were written; `failed`: the code of the first that was not."""
    places = list(places)
    for caller in callers:
        span = caller.child("log append", ago_s=began_ago_s)
        place_all((span,), places)
        if failed:
            span.fail(failed)
        span.end()

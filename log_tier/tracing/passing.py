"""What parts do for callers that are traced. They call this only if there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from log_tier.tracing.span import CALLERS_MAX, Span, SpanKind, SpanValue

__all__ = ["begin_shared", "joined", "record_part"]


_NONE: Final[Mapping[str, SpanValue]] = MappingProxyType({})


def joined(callers: tuple[Span, ...], more: tuple[Span, ...]) -> tuple[Span, ...]:
    """The callers of work that is done together, up to `CALLERS_MAX`."""
    return callers if len(callers) >= CALLERS_MAX else (*callers, *more)[:CALLERS_MAX]


def begin_shared(callers: Sequence[Span], name: str, *, kind: SpanKind = "internal", ago_s: float = 0.0) -> Span | None:
    """One span for work that is done once for all callers: below the first, with links to the others, which link to it.

    None if all callers have ended: then they do not wait for it.
    """
    waiting = [caller for caller in callers if caller.is_open]
    if not waiting:
        return None
    span = waiting[0].child(name, kind=kind, links=waiting[1:], ago_s=ago_s)
    for other in waiting[1:]:
        other.link(span)
    return span


def record_part(
    span: Span, name: str, began_ago_s: float, attributes: Mapping[str, SpanValue] = _NONE, *, ended_ago_s: float = 0.0
) -> None:
    """A part of the work that is over, below `span`."""
    part = span.child(name, ago_s=began_ago_s)
    for key, value in attributes.items():
        part.set(key, value)
    part.end(ago_s=ended_ago_s)

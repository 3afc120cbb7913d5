"""What parts do for callers that are traced. They call this only if there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from log_tier.tracing.span import CALLERS_MAX, Span, SpanValue

__all__ = ["Asking", "begin_asking", "joined", "record_part"]


_NONE: Final[Mapping[str, SpanValue]] = MappingProxyType({})


def joined(callers: tuple[Span, ...], more: tuple[Span, ...]) -> tuple[Span, ...]:
    """The callers of work that is done together, each once, up to `CALLERS_MAX`. A call may have several parts."""
    for caller in more:
        if len(callers) < CALLERS_MAX and caller not in callers:
            callers = (*callers, caller)
    return callers


class Asking(NamedTuple):
    """One request to another process, on behalf of callers that are traced."""

    span: Span
    is_own: bool
    """Has the request a span of its own? Else `span` is that of the first caller, a call of a client."""

    def failed(self, kind: str) -> None:
        """It was answered with an error of this code."""
        if self.is_own:
            self.span.fail(kind)
        else:
            self.span.lost(kind)

    def end(self) -> None:
        """It was answered, or given up."""
        if self.is_own:
            self.span.end()


def begin_asking(callers: Sequence[Span], name: str, target: str) -> Asking | None:
    """A request of this name to `target`, host:port. Its span is below that of the first caller, with links to the
    others', which link to it. Where the callers are calls of a client, that of the first is its span, and the others'
    link to that: such spans are made by the program's OpenTelemetry, and each of them costs more than the request.

    None if all callers have ended: then they do not wait for it.
    """
    waiting = [caller for caller in callers if caller.is_open]
    if not waiting:
        return None
    first = waiting[0]
    if first.is_client:
        for caller in waiting:
            caller.leaves()
            if caller is not first:
                caller.link(first)
        return Asking(first, False)
    span = first.child(name, kind="client", links=waiting[1:])
    host, _, port = target.rpartition(":")
    span.set("server.address", host.strip("[]"))
    if port.isdigit():
        span.set("server.port", int(port))
    for other in waiting[1:]:
        other.link(span)
    return Asking(span, True)


def record_part(
    span: Span,
    name: str,
    began_ago_s: float,
    attributes: Mapping[str, SpanValue] = _NONE,
    *,
    ended_ago_s: float = 0.0,
    links: Sequence[Span] = (),
) -> None:
    """A part of the work that is over, below `span`."""
    part = span.child(name, links=links, ago_s=began_ago_s)
    for key, value in attributes.items():
        part.set(key, value)
    part.end(ago_s=ended_ago_s)

"""The seam: a span that is recorded, and the spans of the callers of the present task."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal, Protocol

__all__ = [
    "CALLERS_MAX",
    "GATHERED",
    "OFFSET",
    "PARTITION",
    "PARTS_MAX",
    "REQUESTS",
    "TRACED",
    "TRACING",
    "WAITED_FOR",
    "Span",
    "SpanKind",
    "SpanValue",
    "Tracing",
]

SpanKind = Literal["internal", "client"]
SpanValue = str | int | float | bool | Sequence[int]

CALLERS_MAX: Final = 64
"""Callers that one batch, request or commit follows. Where every call is traced, a commit has hundreds; OpenTelemetry
keeps 128 links of a span."""


PARTITION: Final = "duramen.partition"
"""The number of a partition of the table."""
OFFSET: Final = "duramen.offset"
"""Where a record was written, or up to where a read has seen the log."""
GATHERED: Final = "duramen.gathered_ms"
"""How long a call of a client waited until its first request left, with others' calls."""
REQUESTS: Final = "duramen.requests"
"""How many requests a call of a client was, where it was several."""
WAITED_FOR: Final = "duramen.waited_for_offset"
"""The offset that an index had not applied yet, and for which the call waited."""
PARTS_MAX: Final = 32
"""Parts of one request that a span lists."""


class Span(Protocol):
    """A span that is recorded. Safe from any thread. What is not sampled has none.

    Times are given as what lies between them and now, in seconds: a part knows its own clock, and no other.
    """

    @property
    def is_open(self) -> bool:
        """Has it not ended?"""
        ...

    @property
    def is_client(self) -> bool:
        """Is it a call of a client? Then its requests are parts of it, and have no spans of their own at this end."""
        ...

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What a call to another process carries, so that its spans go below this one."""
        ...

    def child(self, name: str, *, kind: SpanKind = "internal", links: Sequence[Span] = (), ago_s: float = 0.0) -> Span:
        """A span below this one, which began `ago_s` before now. Also of one that has ended."""
        ...

    def link(self, other: Span) -> None:
        """This work is connected with `other`, maybe of another trace."""
        ...

    def set(self, name: str, value: SpanValue) -> None:
        """An attribute."""
        ...

    def place(self, partition: int, offset: int) -> None:
        """A part of the work is done: written at this offset, or read at it. Attributes of the first part, an event of
        each further one, up to `PARTS_MAX`.
        """
        ...

    def leaves(self) -> None:
        """A request of this call of a client leaves: `GATHERED` of the first one, and `REQUESTS`."""
        ...

    def lost(self, kind: str) -> None:
        """A request of this call of a client failed, and may be sent again. `kind`: as of `fail`. An event."""
        ...

    def fail(self, kind: str) -> None:
        """The work failed. `kind`: a code of few values. The first one stays."""
        ...

    def end(self, *, ago_s: float = 0.0) -> None:
        """It ended `ago_s` before now."""
        ...


class Tracing(Protocol):
    """Begins the spans of a server."""

    def serve(self, method: str, metadata: Any) -> Span | None:
        """The span of a call that has come, by its full name and its metadata; None: it is not traced.

        Raises nothing, whatever the metadata holds.
        """
        ...

    def elsewhere(self, traceparent: str, tracestate: str) -> Span | None:
        """The span of a call that another server answers, or answered: what is done here because of it goes below. It
        has ended. None: it is not traced.

        Raises nothing, whatever the headers hold.
        """
        ...

    def command(self, name: str, table: str) -> Span | None:
        """The span of work that comes without a context, by the Redis protocol: the first one of its trace, for a share
        that the server draws. None: it is not traced. Some 0.1 µs.
        """
        ...


TRACED: Final[ContextVar[tuple[Span, ...]]] = ContextVar("traced", default=())
"""The callers of what the present task does, as far as they are traced."""

TRACING: Final[ContextVar[Tracing | None]] = ContextVar("tracing", default=None)
"""What traces the calls of the servers that are made in the present context; None: nothing does."""

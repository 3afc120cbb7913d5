"""The seam between the calls of a server and what wants to know which of them took long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

__all__ = ["CallEnd", "SlowCallSink"]

CallEnd = Literal["done", "failed", "unanswered"]
"""How a call ended; `unanswered`: its caller went away, or the server stopped."""


class SlowCallSink(Protocol):
    """Learns of single calls, and of messages of streams, that took long."""

    @property
    def least_s(self) -> float:
        """A call that takes so long does."""
        ...

    @property
    def now_s(self) -> Callable[[], float]:
        """The clock by which calls are measured."""
        ...

    def measures(self, method: str) -> bool:
        """Does it want to know of the calls of a method, or of the messages of a stream, by its full name?"""
        ...

    def measures_later(self, method: str) -> bool:
        """Of a stream that is measured: its later messages too? They do not wait for anybody else's work."""
        ...

    def called(self, method: str, request: Any, peer: str, began_s: float, outcome: CallEnd) -> None:
        """A call has ended that took long, or a message of a stream was made. Called in its task."""
        ...

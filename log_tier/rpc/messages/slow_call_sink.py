"""The seam between the calls of a server and what wants to know which of them took long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

__all__ = ["CallEnd", "SlowCallSink"]

CallEnd = Literal["done", "failed", "unanswered"]
"""How a call ended; `unanswered`: its caller went away, or the server stopped."""


class SlowCallSink(Protocol):
    """Learns of single calls that took long."""

    @property
    def least_s(self) -> float:
        """A call that takes so long does."""
        ...

    @property
    def now_s(self) -> Callable[[], float]:
        """The clock by which calls are measured."""
        ...

    def measures(self, method: str) -> bool:
        """Does it want to know of the calls of a method, by its full name?"""
        ...

    def called(self, method: str, request: Any, peer: str, began_s: float, outcome: CallEnd) -> None:
        """A call has ended that took long. Called in its task."""
        ...

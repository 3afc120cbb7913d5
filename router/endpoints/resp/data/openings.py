"""How many files of indexes a turn of an event loop opens, for all connections together. Pure.

To open the file of an index takes up to 1 ms, and a table may have 1,024 of them. A read that would open more than its
turn has time for goes the slow way, which opens files in threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["OPENED_MAX", "Openings"]

OPENED_MAX: Final = 4
"""Files that are opened in one turn of an event loop."""


class Openings:
    """What is left of this turn's files. Belongs to one event loop."""

    __slots__ = ("_call_soon", "_left")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """`call_soon`: the loop's."""
        self._call_soon = call_soon
        self._left = OPENED_MAX

    def take(self, count: int = 1) -> bool:
        """May so many more be opened? Counts them, or none."""
        if count > self._left:
            return False
        if self._left == OPENED_MAX and count:
            self._call_soon(self._refill)
        self._left -= count
        return True

    def _refill(self) -> None:
        self._left = OPENED_MAX

"""Is this disk quick enough that a commit may hold up the thread that asks for it? Pure.

A commit in the writer thread wakes two threads, which is 50 to 100 µs; where a sync takes no longer, an event loop that
has nothing else to write is better off to make the commit itself. While it does, it serves nobody, so this is only for
a disk that has lately been quick without exception: one slow commit, and the next ones go through the thread.
"""

from __future__ import annotations

from typing import Final

__all__ = ["QuickDisk"]

# A disk that is slow now and then holds up a loop once in so many commits at most.
_AGAIN_AFTER: Final = 64

# A disk of which nothing is known is slow.
_FIRST_AFTER: Final = 8


class QuickDisk:
    """The durations of recent commits."""

    __slots__ = ("_left", "_quick_s", "is_quick")

    def __init__(self, quick_s: float) -> None:
        """`quick_s`: how long a commit takes at most that counts as quick."""
        self._quick_s = quick_s
        self._left = _FIRST_AFTER
        self.is_quick = False
        """Have all commits of late been quick?"""

    def took(self, seconds: float) -> None:
        """A commit took so long."""
        if seconds > self._quick_s:
            self._left = _AGAIN_AFTER
        elif self._left:
            self._left -= 1
        self.is_quick = not self._left

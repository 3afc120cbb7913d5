"""Which partitions have their newest segment open for writing: the most recently written ones, up to a bound.

A partition that is written to needs an open file for the length of a commit and no longer. Keeping it open saves the
next commit an open (some 20 µs), so the most recently used ones stay. It belongs to the thread that holds the
committer's turn; while a log is being closed, several threads open and close files that nobody may shed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

__all__ = ["OpenFiles"]


class Releasable(Protocol):
    """Something that holds an open file, and may let go of it."""

    @property
    def is_in_commit(self) -> bool:
        """Whether the file is needed until the commit under way ends."""
        ...

    def release(self) -> None:
        """Close the file; the next write opens it again. Raises `LogStopped` where a sync failed."""
        ...


class OpenFiles:
    """The open files of a log, least recently used first. O(1) a use."""

    def __init__(self, files_max: int) -> None:
        self.files_max = files_max
        self._open: OrderedDict[Releasable, None] = OrderedDict()
        self.newest: Releasable | None = None
        """The last caller of `used`, if its file is open; it need not call again."""

    def __len__(self) -> int:
        return len(self._open)

    def used(self, owner: Releasable) -> None:
        """`owner` has its file open and uses it now."""
        self._open[owner] = None
        self._open.move_to_end(owner)
        self.newest = owner

    def closed(self, owner: Releasable) -> None:
        """`owner` has closed its file."""
        self._open.pop(owner, None)
        if self.newest is owner:
            self.newest = None

    def make_room(self, count: int = 1) -> None:
        """Close files until `count` more may be opened. A commit over more partitions than the bound goes beyond it."""
        if len(self._open) + count > self.files_max:
            self.shed(len(self._open) + count - self.files_max)

    def shed(self, count: int) -> int:
        """Close up to so many files that no commit needs; return how many that were."""
        idle = [owner for owner in list(self._open) if not owner.is_in_commit][:count]
        for owner in idle:
            owner.release()
        return len(idle)

"""Do the calls of a log come one at a time? Pure.

A caller that is alone gains nothing by the writer thread, which gathers the calls of many: its commit may be made in
its own thread (`committer.py`). Nobody says how many callers there are, so it is learned: while a commit is made in the
writer thread, other calls find something queued. In a caller's thread nothing shows, so now and then a commit goes
through the writer thread to see.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LoneCalls"]

# Two callers at a time meet in every fifth commit or so. When others come, so many commits or twice as many are not
# shared. A prime: where calls come in groups, the one that looks must not always be the last of its group.
_IN_A_ROW: Final = 61


class LoneCalls:
    """Counts the calls in a row that found nothing queued."""

    __slots__ = ("_in_a_row", "is_alone")

    def __init__(self) -> None:
        self._in_a_row = 0
        self.is_alone = False
        """Did the last call, like those before it, come alone, and is it not its turn to look?"""

    def came(self, *, queued: bool) -> None:
        """A call has come. `queued`: it found others that wait for a commit, or for the end of one."""
        self._in_a_row = 0 if queued else self._in_a_row + 1
        self.is_alone = self._in_a_row > _IN_A_ROW and self._in_a_row % _IN_A_ROW != 0

"""The syncs by which segments get, behind the commits, what only the journal has made stable."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Settling"]


def _nothing_under_way() -> None:
    """A log without a journal syncs each segment by itself."""


class Settling:
    """Of one log. A segment is sealed behind it: a replay looks at sealed segments no more, and after a failed sync the
    kernel calls pages clean that the disk does not have, so the sync of the sealing would prove nothing.
    """

    __slots__ = ("wait",)

    def __init__(self) -> None:
        self.wait: Callable[[], None] = _nothing_under_way
        """Waits until it is done, in any thread. Raises `OSError` where a sync failed."""

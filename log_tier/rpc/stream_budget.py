"""The bytes that a server holds for streams whose clients do not read: bounded together. Pure.

A stream that sends pages holds the one that it sends. A client that reads takes it within milliseconds; one that does
not read keeps it for as long as its call lives, and there may be thousands of those. So a page is as large as the
server's budget has room for:

    B1  A page of `FLOOR_BYTES` is always granted, as long as all pages together have less than `hard_bytes`: who reads
        goes on, whatever others leave unread.
    B2  A larger page gets at most a quarter of what is free below `soft_bytes`. So pages shrink as others stall, and
        all larger ones together stay below it.
    B3  Where the floors alone reach `hard_bytes`, a page is refused with `Overloaded`, and nobody else suffers.
    B4  A stream's page has at most a quarter of what its client has taken so far. What the network between them takes
        in, some 100 KiB, is no sign of a client that reads.
    B5  What a stream holds is given back with its next page, and when it ends, however it ends.
    B6  What cannot be cut, an entry or a batch larger than its page, is sent whole as long as all streams then have
        less than half of `hard_bytes`; else its own stream ends with `Overloaded`, and nobody else's. The other half
        is left to the floors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from log_tier.model.errors import Overloaded

__all__ = ["FLOOR_BYTES", "HARD_BYTES", "SOFT_BYTES", "HeldPage", "StreamBudget"]

FLOOR_BYTES: Final = 64 * 1024
"""The smallest page, and the first one of a stream. gRPC makes three more copies of what it sends."""

SOFT_BYTES: Final = 64 * 1024 * 1024
"""What pages larger than that may have together."""

HARD_BYTES: Final = 256 * 1024 * 1024
"""What all pages may have: the larger ones, and 4,096 of the smallest."""


class StreamBudget:
    """The pages of one server. Belongs to one event loop."""

    def __init__(self, soft_bytes: int = SOFT_BYTES, hard_bytes: int = HARD_BYTES) -> None:
        self._soft_bytes, self._hard_bytes = soft_bytes, hard_bytes
        self.held_bytes = 0
        """What all streams hold now."""

    @contextmanager
    def stream(self) -> Iterator[HeldPage]:
        """What one stream holds, inside the block."""
        page = HeldPage(self)
        try:
            yield page
        finally:
            page.hold(0)

    def grant(self, wanted: int) -> int:
        """How large the next page of a stream may be that holds nothing. Raises `Overloaded`."""
        if wanted <= FLOOR_BYTES or (room := (self._soft_bytes - self.held_bytes) // 4) <= FLOOR_BYTES:
            if self.held_bytes + FLOOR_BYTES > self._hard_bytes:
                raise self._overloaded()
            return min(wanted, FLOOR_BYTES)
        return min(wanted, room)

    def check_whole(self, size: int) -> None:
        """May a stream that holds nothing hold `size` bytes that cannot be cut? Raises `Overloaded`."""
        if self.held_bytes + size > (self._hard_bytes if size <= FLOOR_BYTES else self._hard_bytes // 2):
            raise self._overloaded()

    def _overloaded(self) -> Overloaded:
        return Overloaded(
            f"this server holds {self.held_bytes} bytes for streams that their clients do not read: read them, or end "
            "them, and ask again"
        )


class HeldPage:
    """The page that one stream holds."""

    __slots__ = ("_budget", "_bytes", "_granted", "_taken")

    def __init__(self, budget: StreamBudget) -> None:
        self._budget = budget
        self._bytes = 0
        self._granted = 0
        self._taken = 0
        """What the client has taken."""

    def hold(self, size: int) -> None:
        """The stream holds so many bytes now."""
        self._budget.held_bytes += size - self._bytes
        self._bytes = size

    def release(self) -> None:
        """The client has taken what the stream held."""
        self._taken += self._bytes
        self.hold(0)

    def hold_whole(self, size: int) -> None:
        """The stream holds this instead, which cannot be cut. Raises `Overloaded`."""
        self.hold(0)
        self._budget.check_whole(size)
        self.hold(size)

    def got(self, size: int) -> None:
        """What goes into the page that was granted has so many bytes. Raises `Overloaded` by B6."""
        if size > self._granted + FLOOR_BYTES:
            self.hold_whole(size)
        else:
            self.hold(size)

    def next_page(self, wanted: int) -> int:
        """Give the page back that was sent, and hold room for the next one; how large that may be. Raises
        `Overloaded`.
        """
        self.release()
        self._granted = self._budget.grant(min(wanted, max(FLOOR_BYTES, self._taken // 4)))
        self.hold(self._granted)
        return self._granted

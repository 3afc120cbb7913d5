"""The cursors of SCAN: a number of 64 bits for a position in key order, which is a key.

The endpoint remembers the last ten thousand positions of all connections under random numbers. An older cursor is
refused, and its walk begins again.
"""

from __future__ import annotations

import random
from collections import OrderedDict

from router.endpoints.resp.wire.limits import CURSORS_MAX
from router.endpoints.resp.wire.replies import Problem

__all__ = ["Cursors"]


class Cursors:
    """Positions of walks under the numbers that clients know them by."""

    def __init__(self, limit: int = CURSORS_MAX) -> None:
        self._limit = limit
        self._positions: OrderedDict[int, tuple[str, bytes]] = OrderedDict()

    def keep(self, table: str, position: bytes) -> int:
        """A number for a position in a table."""
        number = random.getrandbits(63) + 1
        self._positions[number] = (table, position)
        if len(self._positions) > self._limit:
            self._positions.popitem(last=False)
        return number

    def find(self, table: str, number: int) -> bytes:
        """The position; it stays, as a client may ask for a page twice. Raises `Problem`."""
        found = self._positions.get(number)
        if found is None or found[0] != table:
            raise Problem("ERR invalid cursor: it is not known here (any more), begin again with 0")
        self._positions.move_to_end(number)
        return found[1]

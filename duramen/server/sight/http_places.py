"""Places for connections of HTTP: those that are idle yield theirs to those that come. Pure.

A connection is idle from its beginning until a request has arrived whole, and while its reply leaves. So
clients that send nothing, or a byte from time to time, or take no reply, keep no probe out: a probe of Kubernetes that
is not answered would have a healthy server ended.

The place comes from the address with the most idle connections, and of these from the one that has been idle for
longest. A flood from one address then costs other addresses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["HttpPlaces"]

C = TypeVar("C", bound=Hashable)


class HttpPlaces(Generic[C]):
    """Who has a place. `enter` is O(addresses), all else O(1).

    Invariants: there are at most `places` connections; each idle one is in the line of its address once, in the order
    in which they became idle; no line is empty.
    """

    def __init__(self, places: int, end: Callable[[C], None]) -> None:
        """`end`: ends a connection that has lost its place."""
        self._places = places
        self._end = end
        self._address: dict[C, str] = {}
        self._idle: dict[str, dict[C, None]] = {}

    def __len__(self) -> int:
        return len(self._address)

    def enter(self, connection: C, address: str) -> bool:
        """Give an idle connection a place, if need be that of another one. False: none is idle."""
        if len(self._address) >= self._places:
            if not self._idle:
                return False
            most: dict[C, None] = max(self._idle.values(), key=len)
            longest = next(iter(most))
            self.leave(longest)
            self._end(longest)
        self._address[connection] = address
        self.rests(connection)
        return True

    def works(self, connection: C) -> None:
        """A request of this connection is being answered: it keeps its place. Idempotent."""
        address = self._address.get(connection, "")
        line = self._idle.get(address, {})
        line.pop(connection, None)
        if not line:
            self._idle.pop(address, None)

    def rests(self, connection: C) -> None:
        """A connection is idle from now on. One that has no place any more is not looked at."""
        if connection in self._address:
            self.works(connection)
            self._idle.setdefault(self._address[connection], {})[connection] = None

    def leave(self, connection: C) -> None:
        """A connection has ended. Idempotent."""
        self.works(connection)
        self._address.pop(connection, None)

    def check(self) -> None:
        """Assert every invariant. O(n)."""
        assert len(self._address) <= self._places, f"{len(self._address)} connections have {self._places} places"
        for address, line in self._idle.items():
            assert line, f"the line of {address} is empty"
            assert all(self._address[each] == address for each in line), f"not all in the line of {address} are its own"

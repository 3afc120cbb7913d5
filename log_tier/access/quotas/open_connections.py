"""How many connections each user has open at one server, at all of its endpoints, and the bound of its quota.

A connection of the Redis protocol is counted from the proof to its end (`join`, `leave`). gRPC tells a server of calls
and of no connection's end: there a connection is a peer, host and port, that has a stream open or has made a call in
the last `PEER_S` (`called`, `opened`, `closed`).

Users without a bound are counted as well, so that a quota that comes later knows what is there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from log_tier.concurrency.clocks import Clock
from log_tier.model.errors import Overloaded
from log_tier.trust.caller import Caller

__all__ = ["PEERS_MAX", "PEER_S", "OpenConnections"]

PEER_S: Final = 30.0
"""A connection of gRPC counts so long after its last call. A program that connects for each call has not ended those of
its calls before for gRPC; one that is idle for longer holds little."""

PEERS_MAX: Final = 65_536
"""As many connections as one address has ports. The one whose call is the longest ago is forgotten for a new one."""

_RETRY_MS: Final = 1000

# Forgotten for each new one: more than come.
_FORGOTTEN_AT_ONCE: Final = 16


class _Peer:
    __slots__ = ("last_s", "streams")

    def __init__(self, last_s: float) -> None:
        self.last_s = last_s
        self.streams = 0
        """That are open."""


class OpenConnections:
    """Counts the connections of users. Belongs to one event loop; O(1) for each call.

    Invariants: `_open[user]` is how often it has joined and not left, and its entries in `_peers`, and is no 0;
    `_peers` is in the order of the last calls.
    """

    def __init__(self, bound_of: Callable[[str], int], clock: Clock) -> None:
        """`bound_of`: how many connections a user may have open; 0: any number."""
        self._bound_of = bound_of
        self._clock = clock
        self._open: dict[str, int] = {}
        self._peers: OrderedDict[tuple[str, str], _Peer] = OrderedDict()

    def count(self, user: str) -> int:
        """How many are counted for a user now."""
        return self._open.get(user, 0)

    def join(self, user: str) -> None:
        """A connection is a user's from now on; `leave` has to follow. Empty: it is nobody's, and not counted.

        Raises `Overloaded`, and counts nothing.
        """
        if user:
            self._check(user, self._clock.monotonic_s())
            self._add(user)

    def leave(self, user: str) -> None:
        """A connection that joined is this user's no more."""
        if user:
            self._remove(user)

    def called(self, caller: Caller, peer: str) -> None:
        """A peer of gRPC makes a call. 0.5 µs for one that has made some. Raises `Overloaded`, and counts nothing."""
        if caller.proof in ("nothing", "server"):
            return
        now_s = self._clock.monotonic_s()
        place = (caller.name, peer)
        known = self._peers.get(place)
        if known is not None:
            known.last_s = now_s
            self._peers.move_to_end(place)
            return
        self._forget_idle(now_s, _FORGOTTEN_AT_ONCE)
        self._check(caller.name, now_s)
        if len(self._peers) >= PEERS_MAX:
            (user, _), _ = self._peers.popitem(last=False)
            self._remove(user)
        self._peers[place] = _Peer(now_s)
        self._add(caller.name)

    def opened(self, caller: Caller, peer: str) -> None:
        """A stream of a peer that has `called` is open: it is counted until `closed`."""
        if (known := self._peers.get((caller.name, peer))) is not None:
            known.streams += 1

    def closed(self, caller: Caller, peer: str) -> None:
        """The stream has ended."""
        if (known := self._peers.get((caller.name, peer))) is not None and known.streams:
            known.streams -= 1
            known.last_s = self._clock.monotonic_s()
            self._peers.move_to_end((caller.name, peer))

    def _check(self, user: str, now_s: float) -> None:
        most = self._bound_of(user)
        if not most or self.count(user) < most:
            return
        self._forget_idle(now_s, len(self._peers))
        if self.count(user) >= most:
            raise Overloaded(
                f"user:{user} has a quota of {most} open connections at this server, and has as many: end one of them "
                f"(one of gRPC counts until {PEER_S:g} s after its last call), or have an administrator raise it",
                wait_ms=_RETRY_MS,
            )

    def _forget_idle(self, now_s: float, most: int) -> None:
        """Count up to `most` peers no more that have made no call for a while."""
        for _ in range(most):
            place = next(iter(self._peers), None)
            if place is None or now_s - (peer := self._peers[place]).last_s < PEER_S:
                return
            if peer.streams:
                peer.last_s = now_s
                self._peers.move_to_end(place)
            else:
                del self._peers[place]
                self._remove(place[0])

    def _add(self, user: str) -> None:
        self._open[user] = self._open.get(user, 0) + 1

    def _remove(self, user: str) -> None:
        left = self._open[user] - 1
        assert left >= 0, f"user {user} has {left} connections"
        if left:
            self._open[user] = left
        else:
            del self._open[user]

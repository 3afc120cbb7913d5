"""How many streams of gRPC a server has open at once: all kinds of them together, and those of one connection.

Each costs some 12 KiB, whether its client reads or not, and nothing ends it but its client. So:

    S1  Of `most` streams, one connection has half at most: one client does not take what all others need.
    S2  Of services that answer everybody (health, reflection), `OPEN_TO_ALL_MAX` at most, and they count to no
        connection's half: who proves nothing takes no place of a user's stream.
    S3  What is over is refused at once, with `Overloaded`, and holds nothing. Nothing waits.

gRPC's own bound (`grpc.max_concurrent_streams`) makes a client's further calls wait, and says nothing to it: on a
connection it is therefore above what S1 allows.
"""

from __future__ import annotations

from typing import Final

from log_tier.model.errors import Overloaded

__all__ = ["CALLS_OF_CONNECTION_MAX", "LOG_STREAMS_MAX", "OPEN_TO_ALL_MAX", "STREAMS_MAX", "StreamBound"]

STREAMS_MAX: Final = 8192
"""Some 100 MiB. A client in Python holds two or three; a watch of another one is one."""

LOG_STREAMS_MAX: Final = 65_536
"""For a log: each replica of a cluster reads it by one."""

OPEN_TO_ALL_MAX: Final = 1024
"""Balancers and orchestrators watch a server's health by one stream each."""

CALLS_OF_CONNECTION_MAX: Final = 16_384
"""Calls of one connection under way that are no streams. More wait at their client."""


class StreamBound:
    """The streams that are open at one server. Belongs to one event loop; O(1) each."""

    def __init__(self, most: int = STREAMS_MAX) -> None:
        assert most > 0, f"a server that may have {most} streams answers none"
        self.most = most
        self.of_connection = max(1, most // 2)
        """What one connection may have."""
        self.open_to_all = 0
        """Streams of services that answer everybody."""
        self.refused = 0
        self._open = 0
        self._by_connection: dict[str, int] = {}

    def __len__(self) -> int:
        """How many are open."""
        return self._open + self.open_to_all

    def enter(self, connection: str, *, open_to_all: bool = False) -> None:
        """One more begins. `connection`: gRPC's name of its peer. `leave` must follow. Raises `Overloaded`."""
        if open_to_all:
            if self.open_to_all >= OPEN_TO_ALL_MAX:
                raise self._refusal(
                    f"{OPEN_TO_ALL_MAX} streams of health and reflection are open at this server, which is the most "
                    "that it has: ask once instead of watching, or end one of them",
                    OPEN_TO_ALL_MAX,
                )
            self.open_to_all += 1
            return
        of_connection = self._by_connection.get(connection, 0)
        if self._open >= self.most:
            raise self._refusal(
                f"{self.most} streams are open at this server, which is the most that it has: end some, or raise its "
                "setting streams_max",
                self.most,
            )
        if of_connection >= self.of_connection:
            raise self._refusal(
                f"{of_connection} streams are open over this connection, which may have half of the server's "
                f"{self.most}: end some, open another connection, or raise the server's setting streams_max",
                self.of_connection,
            )
        self._open += 1
        self._by_connection[connection] = of_connection + 1

    def leave(self, connection: str, *, open_to_all: bool = False) -> None:
        """One that had entered has ended."""
        if open_to_all:
            self.open_to_all -= 1
            return
        self._open -= 1
        left = self._by_connection[connection] - 1
        if left:
            self._by_connection[connection] = left
        else:
            del self._by_connection[connection]

    def _refusal(self, words: str, limit: int) -> Overloaded:
        self.refused += 1
        return Overloaded(words, limit=limit)

"""The bounds of the endpoint of HTTP."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HttpLimits"]


class HttpLimits(NamedTuple):
    """What clients may cost."""

    head_bytes_max: int = 16 << 10
    """Of a request; a browser's has 1 or 2 KiB of headers."""
    timeout_s: float = 10.0
    """For a whole request to arrive, be it the first or a later one of a connection, and for its reply to leave."""
    connections_max: int = 128
    """Ten scrapers and a few probes and people, several times over; each holds a descriptor and some 30 KiB."""
    streams_max: int = 64
    """Of the connections, streams of `/events`: the others are left to probes and scrapers."""
    stream_timeout_s: float = 5.0
    """For a piece of a stream to leave: a second brings one."""
    call_bytes_max: int = 64 << 10
    """Of the body of a call: its key may have 4 KiB, and a filter or a plan is a few lines."""
    calls_max: int = 16
    """Calls under way at once; a page that is open has two at most."""

    def within(self, connections: int) -> HttpLimits:
        """The same with at most so many connections."""
        most = min(self.connections_max, connections)
        return self._replace(connections_max=most, streams_max=min(self.streams_max, most // 2))

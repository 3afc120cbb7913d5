"""Work that is counted and has no duration of its own: values, for those who show them. Pure."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DeliveryCounts", "RespCounts"]


class DeliveryCounts(NamedTuple):
    """Of all subscriptions of a node."""

    open: int
    """Subscriptions that are open."""
    offsets: int
    """Offsets that were passed on since the node began."""


class RespCounts(NamedTuple):
    """Since the endpoint was opened, but for `connections` and `readers_running`."""

    connections: int
    """Open at the server: its own, and one for each connection of a reader process."""
    connections_taken: int
    connections_refused: int
    commands: int
    """Answered by the server itself."""
    direct_reads: int
    """Of them, those that were answered at once from an index of this process. A run of GETs is one."""
    readers: int = 0
    """Reader processes that there should be."""
    readers_running: int = 0
    reader_commands: int = 0
    """Answered by reader processes, all of them at once from an index."""
    reader_ends: int = 0
    """Reader processes that ended by themselves, and were started again."""

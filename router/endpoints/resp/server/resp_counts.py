"""What an endpoint of the Redis protocol has done so far, its reader processes included."""

from __future__ import annotations

from log_tier.measures.work_counts import RespCounts
from router.endpoints.resp.context import ServerContext

__all__ = ["resp_counts"]


def resp_counts(server: ServerContext, *, readers_running: int = 0, reader_ends: int = 0) -> RespCounts:
    """What it has done so far. O(connections), some 0.1 µs each."""
    pages = server.pages
    return RespCounts(
        connections=len(server.clients),
        connections_taken=server.connections_taken,
        connections_refused=server.connections_refused,
        commands=server.commands_done + sum([each.commands for each in server.clients.values()]),
        direct_reads=server.reads.direct,
        readers=0 if pages is None else pages.readers,
        readers_running=readers_running,
        reader_commands=0 if pages is None else pages.tally.total(),
        reader_ends=reader_ends,
    )

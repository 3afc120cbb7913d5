"""What the service uses: a connection to the data, and the gatherers that join many calls into few requests."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from log_tier.concurrency.tasks import every_step
from router.data.gather.read_coalescer import ReadCoalescer
from router.data.gather.seen_offsets import NoSession
from router.data.gather.write_coalescer import WriteCoalescer
from router.data.seam import Connection

__all__ = ["OpenPlane", "Plane"]


class Plane:
    """A server's way to the data. Belongs to the event loop that it was made in."""

    def __init__(self, connection: Connection) -> None:
        """`connection` stays its owner's. Callers carry what they have seen in their tokens: no session is kept."""
        self.connection = connection
        session = NoSession()
        # 63 random bits: a producer id is this server's alone.
        self.writes = WriteCoalescer(connection, session, secrets.randbits(63) | 1)
        self.reads = ReadCoalescer(connection, session)

    async def close(self) -> None:
        """Wait shortly for the writes under way; then end every call. Idempotent."""
        await every_step(self.writes.close, self.reads.close)


OpenPlane = Callable[[], Awaitable[Plane]]
"""Gives the plane, the same one each time; the first call may open it."""

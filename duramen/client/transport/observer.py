"""The seam at which a test sees every call of a client: what its tables ask for, and what they are answered.

An observer belongs to the context (`contextvars`) in which a client is made. It is asked once, when the client is
linked to its connection, and puts objects of its own in front of the gatherers and the connection. Without one, a
client costs nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

from log_tier.model.batch import Columns
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.table_ref import TableRef
from router.data.gather.pending_calls import CallOutcome, FutureCalls
from router.data.gather.write_gatherer import WriteGatherer
from router.data.requests import ReadResult
from router.data.seam import Connection

__all__ = ["CLIENT_OBSERVER", "ClientObserver", "ClientWays", "SubmitsReads", "SubmitsWrites"]


class SubmitsReads(Protocol):
    """Takes the reads of a client: `ReadCoalescer`, which documents it."""

    def submit(
        self,
        table: TableRef,
        partition: PartitionId,
        keys: Sequence[bytes],
        *,
        after: Offset | None,
        strong: bool,
        seen: bool,
        deadline: float,
        lag_max_ms: int = 0,
    ) -> asyncio.Future[ReadResult]: ...

    async def close(self) -> None: ...


class SubmitsWrites(Protocol):
    """Takes the writes of a client: `WriteCoalescer`, which documents it."""

    @property
    def gatherer(self) -> WriteGatherer[TableRef, FutureCalls]:
        """What makes batches of them and sends them."""
        ...

    def submit(
        self, table: TableRef, partition: PartitionId, records: Columns, *, outcomes: bool, deadline: float
    ) -> asyncio.Future[CallOutcome]: ...

    def repeat(
        self, table: TableRef, partition: PartitionId, records: Columns, data: bytes, *, deadline: float
    ) -> asyncio.Future[CallOutcome]: ...

    async def close(self) -> None: ...


class ClientWays(NamedTuple):
    """The ways of a client's tables to the data."""

    connection: Connection
    """For scans, watches, table administration, and writers of streams; the gatherers have their own."""
    reads: SubmitsReads
    writes: SubmitsWrites


class ClientObserver(Protocol):
    """Sees the calls of clients."""

    def observe(self, targets: Sequence[str], ways: ClientWays) -> ClientWays:
        """The ways that a new client of these servers takes; `ways` itself, where its calls are not observed."""
        ...


CLIENT_OBSERVER: Final[ContextVar[ClientObserver | None]] = ContextVar("client observer", default=None)
"""The observer of the clients that are made in the present context."""

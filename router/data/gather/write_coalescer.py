"""Writes of callers who each wait for a future: the gatherer as the Python client and the KV service use it."""

from __future__ import annotations

import asyncio
from typing import Final

from log_tier.model.batch import Columns
from log_tier.model.errors import DatabaseClosed
from log_tier.model.identifiers import PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.tracing.passing import joined
from log_tier.tracing.span import TRACED
from router.data.gather.acknowledged import Acknowledged
from router.data.gather.batch_builder import BatchBuilder
from router.data.gather.batch_progress import BatchProgress
from router.data.gather.columns_builder import ColumnsBuilder
from router.data.gather.pending_calls import CallOutcome, FutureCalls, place_when_done
from router.data.gather.rounds import Rules
from router.data.gather.seen_offsets import SeenOffsets
from router.data.gather.write_gatherer import WriteGatherer
from router.data.seam import DataPlane

__all__ = ["WRITE_RULES", "WriteCoalescer"]

# A second request costs some 0.4 ms of processor time at either end, and halves the batches. 256 callers on two cores
# make more calls in one request than in two; 512 and more fill one request while the server works on the other.
WRITE_RULES: Final = Rules(split_calls=512)


class WriteCoalescer:
    """Gathers the writes of one client. Belongs to one event loop."""

    def __init__(
        self,
        connection: DataPlane,
        session: SeenOffsets,
        producer_id: int,
        *,
        compress: bool = False,
        rules: Rules = WRITE_RULES,
        acknowledged: Acknowledged | None = None,
    ) -> None:
        """`acknowledged`: notes what has its place in the log."""
        self._session = session
        self._loop = asyncio.get_running_loop()
        self.gatherer: WriteGatherer[TableRef, FutureCalls] = WriteGatherer(
            connection,
            producer_id,
            rules,
            new=self._new_batch,
            closed=_closed,
            compress=compress,
            acknowledged=acknowledged,
        )

    def submit(
        self, table: TableRef, partition: PartitionId, records: Columns, *, outcomes: bool, deadline: float
    ) -> asyncio.Future[CallOutcome]:
        """Write records of one partition, in one batch. Keys and values have been checked.

        The future holds their offsets once they are on stable storage; with `outcomes`, once their verdict is known.
        It ends at the deadline (on the event loop's clock) at the latest, with `WriteUnknown` where a copy may be in
        the log. Raises `Overloaded` at once where too much waits, `LimitExceeded` where the records fit in no batch.
        """
        count = len(records.keys)
        size = _content_bytes(records)
        self.gatherer.rounds.check_size(count, size)
        batch = self.gatherer.rounds.batch_for(partition, table, size, count)
        start = batch.columns.add(records)
        if not (traced := TRACED.get()):
            return batch.callers.add(start, count, outcomes=outcomes, deadline=deadline)
        batch.traced = joined(batch.traced, traced)
        return place_when_done(traced, partition, batch.callers.add(start, count, outcomes=outcomes, deadline=deadline))

    def repeat(
        self, table: TableRef, partition: PartitionId, records: Columns, data: bytes, *, deadline: float
    ) -> asyncio.Future[CallOutcome]:
        """Send a batch again that was encoded and sent over another path, with an unknown outcome. See `submit`."""
        batch = self._new_batch(partition, table)
        batch.columns.add(records)
        batch.data = data
        batch.progress.unknown = batch.progress.repeated = True
        batch.content_bytes, batch.records, batch.calls = _content_bytes(records), len(records.keys), 1
        self.gatherer.send_again(batch)
        return batch.callers.add(0, batch.records, outcomes=False, deadline=deadline)

    def _new_batch(self, place: PartitionId, table: TableRef) -> BatchBuilder[FutureCalls]:
        progress = BatchProgress()
        callers = FutureCalls(table, place, self._session, progress.too_late, self._loop)
        return BatchBuilder(place, ColumnsBuilder(), progress, callers)

    async def close(self) -> None:
        """Wait shortly for what is under way, then give it up: callers get `DatabaseClosed` or `WriteUnknown`."""
        await self.gatherer.close()


def _content_bytes(records: Columns) -> int:
    return sum(map(len, records.keys)) + sum(map(len, records.values))


def _closed() -> DatabaseClosed:
    return DatabaseClosed("the database was closed before the write was sent; connect or open again")

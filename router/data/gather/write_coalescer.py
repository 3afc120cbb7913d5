"""Writes of callers who each wait for a future: the gatherer as the Python client and the KV service use it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from log_tier.model.batch import Columns
from log_tier.model.errors import DatabaseClosed, DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, partition_id
from log_tier.model.table_ref import TableRef
from router.data.gather.batch_builder import BatchBuilder
from router.data.gather.columns_builder import ColumnsBuilder
from router.data.gather.pending_calls import PendingCalls
from router.data.gather.progress import Progress
from router.data.gather.rounds import Rules
from router.data.gather.session import SeenOffsets
from router.data.gather.writes import WriteGatherer
from router.data.requests import WriteOutcome, WriteResult
from router.data.seam import DataPlane

__all__ = ["WRITE_RULES", "WriteCoalescer", "Written"]

WRITE_RULES: Final = Rules(split_calls=32)


class Written(NamedTuple):
    """What became of one call's records."""

    offset: Offset
    """Of its first record; of a repeated one, where its first copy took effect."""
    last: Offset
    """Of its last record."""
    results: Sequence[bytes | None] | None = None
    """What its updates gave, by record; None where there was none."""


class _Call(NamedTuple):
    future: asyncio.Future[Written]
    start: int
    """Its first record's place in the batch."""
    records: int
    deadline: float
    outcomes: bool
    """It waits for what became of its records, and not only for their place."""


class FutureCalls:
    """The callers of one batch: each ends at its own deadline at the latest. See `Callers`."""

    __slots__ = ("_loop", "_outcomes", "_partition", "_pending", "_session", "_table")

    def __init__(
        self,
        table: TableRef,
        partition: Partition,
        session: SeenOffsets,
        progress: Progress,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._table = table
        self._partition = partition
        self._session = session
        self._loop = loop
        self._pending: PendingCalls[_Call] = PendingCalls(loop, progress.too_late)
        self._outcomes = False
        """Somebody wants a verdict."""

    def add(self, start: int, records: int, *, outcomes: bool, deadline: float) -> asyncio.Future[Written]:
        """One more call, whose first record has the place `start` in the batch. O(1)."""
        future: asyncio.Future[Written] = self._loop.create_future()
        self._outcomes |= outcomes
        self._pending.add(_Call(future, start, records, deadline, outcomes))
        return future

    def want_verdict(self, *, repeated: bool) -> bool:
        """Of a batch that was sent before, the place comes with the verdict too: it may be the first copy's."""
        return self._outcomes or repeated

    @property
    def want_place(self) -> bool:
        """See `Callers`. Some may; these rules do not ask."""
        return True

    def last_deadline(self, now_s: float) -> float | None:
        """See `Callers`."""
        return self._pending.last_deadline()

    def placed(self, result: WriteResult, *, repeated: bool) -> bool:
        """Answer those who wait for nothing but the place, if this is the place that counts."""
        if repeated:
            return True
        last, waits = NOTHING, False
        for call in self._pending.calls:
            if call.outcomes:
                waits = True
            elif not call.future.done():
                first = Offset(result.base_offset + call.start)
                last = Offset(first + call.records - 1)
                call.future.set_result(Written(first, last))
        self._session.saw(self._table, self._partition, last)
        if not waits:
            self._pending.settle()
        return waits

    def judged(self, result: WriteResult) -> None:
        """Answer every call with the places that count, or with its rejection."""
        self._pending.settle()
        base = result.base_offset
        outcomes = {outcome.record: outcome for outcome in result.outcomes}
        last = NOTHING
        for call in self._pending.calls:
            last = Offset(base + call.start + call.records - 1)
            if call.future.done():
                continue  # its caller went away
            if not outcomes:
                call.future.set_result(Written(Offset(base + call.start), last))
            else:
                _answer_with_outcomes(call, base, outcomes)
        self._session.saw(self._table, self._partition, last)

    def fail(self, error: DuramenError) -> None:
        """Each caller gets a copy, for a traceback of its own."""
        self._pending.fail(error)


def _answer_with_outcomes(call: _Call, base: Offset, outcomes: dict[int, WriteOutcome]) -> None:
    places: list[Offset] = []
    results: list[bytes | None] = []
    for record in range(call.start, call.start + call.records):
        outcome = outcomes.get(record)
        if outcome is None:
            places.append(Offset(base + record))
            results.append(None)
            continue
        if outcome.rejected is not None:
            call.future.set_exception(outcome.rejected)
            return
        places.append(outcome.original if outcome.original > NOTHING else Offset(base + record))
        results.append(outcome.result)
    call.future.set_result(Written(places[0], places[-1], results))


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
    ) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self.gatherer: WriteGatherer[TableRef, FutureCalls] = WriteGatherer(
            connection, producer_id, rules, new=self._new_batch, closed=_closed, compress=compress
        )

    def submit(
        self, table: TableRef, partition: Partition, records: Columns, *, outcomes: bool, deadline: float
    ) -> asyncio.Future[Written]:
        """Write records of one partition, in one batch. Keys and values have been checked.

        The future holds their offsets once they are on stable storage; with `outcomes`, once their verdict is known.
        It ends at the deadline (on the event loop's clock) at the latest, with `WriteUnknown` where a copy may be in
        the log. Raises `Overloaded` at once where too much waits, `LimitExceeded` where the records fit in no batch.
        """
        count = len(records.keys)
        size = _content_bytes(records)
        self.gatherer.rounds.check_size(count, size)
        batch = self.gatherer.rounds.batch_for(partition_id(table.id, partition), table, size, count)
        start = batch.columns.add(records)
        return batch.callers.add(start, count, outcomes=outcomes, deadline=deadline)

    def repeat(
        self, table: TableRef, partition: Partition, records: Columns, data: bytes, *, deadline: float
    ) -> asyncio.Future[Written]:
        """Send a batch again that somebody else has encoded and sent, with what came of it unknown. See `submit`."""
        batch = self._new_batch(partition_id(table.id, partition), table)
        batch.columns.add(records)
        batch.data = data
        batch.progress.unknown = batch.progress.repeated = True
        batch.content_bytes, batch.records, batch.calls = _content_bytes(records), len(records.keys), 1
        self.gatherer.send_again(batch)
        return batch.callers.add(0, batch.records, outcomes=False, deadline=deadline)

    def _new_batch(self, place: PartitionId, table: TableRef) -> BatchBuilder[FutureCalls]:
        def callers(_: ColumnsBuilder, progress: Progress) -> FutureCalls:
            return FutureCalls(table, place.partition, self._session, progress, self._loop)

        return BatchBuilder(place, callers)

    async def close(self) -> None:
        """Give what is under way a moment to end, then give it up: callers get `DatabaseClosed` or `WriteUnknown`."""
        await self.gatherer.close()


def _content_bytes(records: Columns) -> int:
    return sum(map(len, records.keys)) + sum(map(len, records.values))


def _closed() -> DatabaseClosed:
    return DatabaseClosed("the database was closed before the write was sent; connect or open again")

"""Writes that leave together, once.

New writes gather while a request is under way and leave as one batch per partition. Each batch carries this client's
producer id and a sequence that rises with every record of that partition, and a batch that got no answer is sent again
**with the same bytes**: if the first copy had arrived, the second one is void. That needs the order of batches in a
partition to be kept, so a partition has one batch under way at a time. A request takes all partitions that wait; where
many calls wait, they leave as two requests with half of the partitions each, so that the client fills one while the
server syncs the other.

    W1  A partition's batches are sent in the order of their sequences, the next only when the fate of the one before
        it is known or given up.
    W2  A batch that was given up (its callers got `WriteUnknown`) is never sent again; a late copy of it that arrives
        after its successors is void.
    W3  A batch that is sent again is answered by its verdict, whatever the first try had come to: its callers are told
        the offset of the copy that counts, which is the key's version (decision 23).

A batch that must be sent again, because its server is away or its queue full, waits for that outside of the requests
under way, and holds up nobody but its own partition. One that is in the log, but of which no replica has said yet what
became of its conditions, holds up nobody at all: that is asked again beside the requests under way.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import TaskSet
from log_tier.model.batch import BATCH_RECORDS_MAX, Columns
from log_tier.model.errors import (
    DatabaseClosed,
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    LimitExceeded,
    Overloaded,
    ShuttingDown,
    WriteUnknown,
)
from log_tier.model.identifiers import Partition, TableId
from log_tier.model.table_ref import TableRef
from router.data.gather.batch_builder import BatchBuilder, Written
from router.data.gather.session import SeenOffsets
from router.data.outcomes import outcome_unknown
from router.data.requests import Connection, OutcomesPart, WriteResult

__all__ = ["WRITES_PENDING_BYTES_MAX", "WriteCoalescer"]

# Requests under way at once.
_IN_FLIGHT_MAX: Final = 2

# From this many waiting calls on, two requests cost less than the time in which one side would wait for the other.
_SPLIT_CALLS: Final = 32

# A batch's content; well below the format's limit, so that headers and columns fit beside it.
_BATCH_CONTENT_MAX: Final = 8 * 1024 * 1024

# What one request carries over all partitions: a message is held whole by both ends.
_REQUEST_CONTENT_MAX: Final = 16 * 1024 * 1024

# Content that waits in this client. Beyond it the program writes faster than the log can sync.
WRITES_PENDING_BYTES_MAX: Final = 256 * 1024 * 1024

_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5

# The connection's own answer at the deadline says more than ours, so it is asked for a moment earlier.
_MARGIN_S: Final = 0.01

# How long closing waits for what is under way: a put is over in milliseconds.
_CLOSE_PATIENCE_S: Final = 1.0

# Outcomes that are not known by then must not keep a request under way: a replica that keeps up knows them in a tenth.
_PATIENCE_S: Final = 0.02

# After these the same bytes may be sent again: nothing is known against them.
_REPEATABLE: Final = (Disconnected, ShuttingDown, Overloaded, WriteUnknown)

_Place = tuple[TableId, Partition]


class WriteCoalescer:
    """Gathers the writes of one client. Belongs to one event loop."""

    def __init__(
        self, connection: Connection, session: SeenOffsets, producer_id: int, *, compress: bool = False
    ) -> None:
        self._connection = connection
        self._session = session
        self._producer_id = producer_id
        self._compress = compress
        self._sequences: dict[_Place, int] = {}
        self._loop = asyncio.get_running_loop()
        self._drafts: dict[_Place, deque[BatchBuilder]] = {}
        self._under_way: set[_Place] = set()
        self._in_flight = 0
        self._scheduled = False
        self._closed = False
        self._pending_bytes = 0
        self._tasks = TaskSet()

    def submit(
        self, table: TableRef, partition: Partition, records: Columns, *, outcomes: bool, deadline: float
    ) -> asyncio.Future[Written]:
        """Write records of one partition, in one batch. Keys and values have been checked.

        The future holds their offsets once they are on stable storage; with `outcomes`, once their verdict is known.
        It ends at the deadline at the latest, with `WriteUnknown` where a copy may be in the log. Raises `Overloaded`
        at once where too much is waiting, `LimitExceeded` where the records fit in no batch.
        """
        if self._closed:
            raise _closed()
        count = len(records.keys)
        size = sum(map(len, records.keys)) + sum(map(len, records.values))
        if count > BATCH_RECORDS_MAX or (size > _BATCH_CONTENT_MAX and count > 1):
            raise LimitExceeded(
                f"{count} records of {size} bytes do not fit in one batch of {BATCH_RECORDS_MAX} records and "
                f"{_BATCH_CONTENT_MAX} bytes: use several",
                limit=_BATCH_CONTENT_MAX,
                size=size,
            )
        if self._pending_bytes + size > WRITES_PENDING_BYTES_MAX:
            raise Overloaded(
                f"{self._pending_bytes} bytes wait to be written in this client; write more slowly",
                limit=WRITES_PENDING_BYTES_MAX,
            )
        place = (table.id, partition)
        queue = self._drafts.get(place)
        if queue is None:
            queue = self._drafts[place] = deque()
        if (
            not queue
            or queue[-1].data
            or queue[-1].content_bytes + size > _BATCH_CONTENT_MAX
            or len(queue[-1].columns.keys) + count > BATCH_RECORDS_MAX
        ):
            queue.append(BatchBuilder(table, partition, self._loop))
        future = queue[-1].add(records, size, outcomes=outcomes, deadline=deadline)
        self._pending_bytes += size
        if place not in self._under_way:
            self._schedule()
        return future

    def repeat(
        self, table: TableRef, partition: Partition, records: Columns, data: bytes, *, deadline: float
    ) -> asyncio.Future[Written]:
        """Send a batch again that somebody else has encoded and sent, with what came of it unknown. See `submit`."""
        if self._closed:
            raise _closed()
        size = sum(map(len, records.keys)) + sum(map(len, records.values))
        draft = BatchBuilder(table, partition, self._loop)
        future = draft.add(records, size, outcomes=False, deadline=deadline)
        draft.data, draft.unknown, draft.repeated = data, True, True
        place = (table.id, partition)
        self._drafts.setdefault(place, deque()).appendleft(draft)
        self._pending_bytes += size
        if place not in self._under_way:
            self._schedule()
        return future

    def _schedule(self) -> None:
        # Not at once but at the end of this round of the loop: callers of the same round leave together, and those
        # that were just answered write again before their partition's next batch leaves.
        if not self._scheduled and self._in_flight < _IN_FLIGHT_MAX:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        free = [place for place in self._drafts if place not in self._under_way]
        if not free or self._closed:
            return
        if self._in_flight == 0 and sum(len(self._drafts[place][0].callers.calls) for place in free) >= _SPLIT_CALLS:
            self._launch([place for place in free if place[1] % 2 == 0])
            self._launch([place for place in free if place[1] % 2])
        elif self._in_flight < _IN_FLIGHT_MAX:
            self._launch(free)

    def _launch(self, places: list[_Place]) -> None:
        """Send the oldest draft of these partitions, as many as one request carries."""
        drafts: list[BatchBuilder] = []
        size = 0
        for place in places:
            queue = self._drafts[place]
            if drafts and size + queue[0].content_bytes > _REQUEST_CONTENT_MAX:
                break
            draft = queue.popleft()
            if not queue:
                del self._drafts[place]
            if self._encode(draft):
                size += draft.content_bytes
                drafts.append(draft)
        if drafts:
            self._under_way.update((draft.table.id, draft.partition) for draft in drafts)
            self._in_flight += 1
            self._tasks.start(self._send(drafts))

    def _encode(self, draft: BatchBuilder) -> bool:
        """Fix a draft's bytes; False where nobody waits for it any more, or where it cannot be a batch."""
        place = (draft.table.id, draft.partition)
        if draft.data:
            return True  # a repeated one
        if draft.callers.last_deadline() is not None:
            sequence = self._sequences.get(place, 0)
            try:
                draft.encode(producer_id=self._producer_id, sequence=sequence, compress=self._compress)
            except (DuramenError, struct.error) as error:
                draft.fail(error if isinstance(error, DuramenError) else DuramenError(f"not encodable: {error}"))
            else:
                self._sequences[place] = sequence + len(draft.columns.keys)
                return True
        self._pending_bytes -= draft.content_bytes
        self._schedule()
        return False

    def _settled(self, draft: BatchBuilder) -> None:
        """A draft's fate is known or given up: its partition is free."""
        self._pending_bytes -= draft.content_bytes
        self._under_way.discard((draft.table.id, draft.partition))

    async def _send(self, drafts: list[BatchBuilder]) -> None:
        """Send until every batch has its answer or nobody waits for it any more."""
        left, in_flight = drafts, True
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        try:
            while True:
                left = await self._try(left)
                self._in_flight -= in_flight
                in_flight = False
                self._schedule()
                if not left:
                    return
                await backoff.pause()
        except BaseException as error:
            # Closed meanwhile, or a bug of ours: nobody may wait for what will not come.
            reason = _closed() if isinstance(error, asyncio.CancelledError) else DuramenError(f"a bug: {error!r}")
            for draft in left:
                draft.unknown |= draft.under_way
                draft.fail(reason)
                self._settled(draft)
            self._in_flight -= in_flight
            self._schedule()
            raise

    async def _try(self, drafts: list[BatchBuilder]) -> list[BatchBuilder]:
        """Send once; return what is to be sent again."""
        deadlines = [draft.callers.last_deadline() for draft in drafts]
        for draft, deadline in zip(drafts, deadlines, strict=True):
            if deadline is None:
                self._settled(draft)
        drafts = [draft for draft, deadline in zip(drafts, deadlines, strict=True) if deadline is not None]
        if not drafts:
            return []
        remaining = max(deadline for deadline in deadlines if deadline is not None) - self._loop.time()
        for draft in drafts:
            draft.under_way = True
        results: Sequence[WriteResult | DuramenError]
        try:
            results = await self._connection.write(
                [draft.part(gathered=self._in_flight <= 1) for draft in drafts],
                timeout=remaining - min(_MARGIN_S, remaining / 10),
                patience=_PATIENCE_S,
            )
        except DuramenError as error:
            results = [error] * len(drafts)
        again: list[BatchBuilder] = []
        pending: list[tuple[BatchBuilder, OutcomesPart]] = []
        for draft, result in zip(drafts, results, strict=True):
            draft.under_way = False
            if isinstance(result, WriteResult) and result.pending:
                # Where nobody here had asked for outcomes, somebody on the way has sent it twice.
                draft.repeated |= not draft.outcomes
                self._session.saw(draft.table, draft.partition, draft.answer_plain(result))
                pending.append((draft, draft.question(result)))
                self._settled(draft)  # its place in the log is known, which is all that its successors need
                continue
            if isinstance(result, WriteResult):
                self._session.saw(draft.table, draft.partition, draft.answer(result))
                self._settled(draft)
                continue
            draft.unknown |= _may_be_written(result)
            draft.reason = result
            if isinstance(result, _REPEATABLE) and "offset" not in result.fields:
                draft.repeated = True
                again.append(draft)
            else:
                draft.fail(result)
                self._settled(draft)
        if pending:
            self._tasks.start(self._judge(pending))
        return again

    async def _judge(self, pending: list[tuple[BatchBuilder, OutcomesPart]]) -> None:
        """Ask what became of batches that are in the log, for as long as somebody waits for it."""
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        try:
            while pending:
                waiting = [(draft, part, draft.callers.last_deadline()) for draft, part in pending]
                pending = [(draft, part) for draft, part, deadline in waiting if deadline is not None]
                if not pending:
                    return
                remaining = max(deadline for _, _, deadline in waiting if deadline is not None) - self._loop.time()
                results: Sequence[WriteResult | DuramenError]
                try:
                    results = await self._connection.outcomes(
                        [part for _, part in pending], timeout=remaining - min(_MARGIN_S, remaining / 10)
                    )
                except DuramenError as error:
                    results = [error] * len(pending)
                again: list[tuple[BatchBuilder, OutcomesPart]] = []
                for (draft, part), result in zip(pending, results, strict=True):
                    if isinstance(result, WriteResult):
                        self._session.saw(draft.table, draft.partition, draft.answer(result))
                    elif result.retryable and not isinstance(result, DeadlineExceeded):
                        again.append((draft, part))
                    else:
                        draft.fail(result if isinstance(result, WriteUnknown) else outcome_unknown(part, result))
                pending = again
                if pending:
                    await backoff.pause()
        except BaseException as error:
            # Closed meanwhile, or a bug of ours: nobody may wait for what will not come.
            reason = _closed() if isinstance(error, asyncio.CancelledError) else DuramenError(f"a bug: {error!r}")
            for draft, part in pending:
                draft.fail(outcome_unknown(part, reason))
            raise

    async def close(self) -> None:
        """Give what is under way a moment to end, then give it up."""
        await self._tasks.wait(timeout_s=_CLOSE_PATIENCE_S)
        self._closed = True
        await self._tasks.close()
        for queue in self._drafts.values():
            for draft in queue:
                draft.fail(_closed())
        self._drafts.clear()


def _closed() -> DatabaseClosed:
    return DatabaseClosed("the database was closed before the write was sent; connect or open again")


def _may_be_written(error: DuramenError) -> bool:
    """Could a copy be in the log after this answer? Of an error that says nothing, the worst is assumed."""
    if isinstance(error, Disconnected):
        return error.fields.get("sent", 1) != 0
    return isinstance(error, (WriteUnknown, DeadlineExceeded, DatabaseClosed)) or type(error) is DuramenError

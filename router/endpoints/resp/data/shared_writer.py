"""The writes of all connections, gathered: one batch per partition, one sync for all of them.

While one request is under way new records gather, and leave as one batch per partition when it has ended; a connection
that is alone is not delayed. A batch carries this endpoint's producer id and a sequence, so that one whose reply was
lost is sent again with the same bytes, and takes effect once.

**How long they gather.** Clients that were just answered usually write again within a fraction of a sync's time. Were
the next request to leave at once with the others, the clients would fall into two halves that take turns, and each sync
would serve half of them. So when a request has ended, the next one waits until as many writers are there as were
lately, but at most a third of the time that the last one took; a single writer waits for nobody.

    W1  A partition's batches are sent in order, the next only when the place of the one before is known or given up: so
        what one connection wrote in an order is in the log in that order.
    W2  `settle` comes after the records are on stable storage, and after the table was told of their keys
        (`ServedTable.wrote`): from then on every read of them by this endpoint shows them.
    W3  A batch that was given up is never sent again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence, Set
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import TaskSet
from log_tier.model.batch import BATCH_RECORDS_MAX, encode_batch
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    LimitExceeded,
    Overloaded,
    Rejected,
    ShuttingDown,
    WriteUnknown,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.record import PLAIN_PUT
from router.data.requests import Connection, OutcomesPart, WritePart, WriteResult
from router.endpoints.resp.data.drafts import Draft, Record, Sent, Waiter
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S

__all__ = ["Record", "SharedWriter", "Waiter"]

# A batch's content, well below the format's limit, so that headers and columns fit beside it.
_BATCH_CONTENT_MAX: Final = 8 * 1024 * 1024

# Content that waits here over all connections. Beyond it clients write faster than the log can sync.
_PENDING_BYTES_MAX: Final = 256 * 1024 * 1024

# Requests under way at once: with two, one is filled while the log syncs the other.
_IN_FLIGHT_MAX: Final = 2

# See "How long they gather"; a sync that takes longer than 3 ms is on a disk where a millisecond more is no matter.
_GATHER_SHARE: Final = 0.34
_GATHER_MAX_S: Final = 0.001

# Verdicts that come with the write are waited for so long, and then asked for: a replica that does not keep up delays
# those who wait for it, and not the partition's next batch.
_VERDICT_PATIENCE_S: Final = 0.05

_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5

# How long closing waits for what is under way: a write is over in milliseconds.
_CLOSE_PATIENCE_S: Final = 1.0

# After these the same bytes may be sent again: nothing is known against them.
_REPEATABLE: Final = (Disconnected, Overloaded, WriteUnknown)


class SharedWriter:
    """Gathers and sends. Belongs to one event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._producer_id = secrets.randbits(62) + 1
        self._sequences: dict[tuple[TableId, Partition], int] = {}
        self._drafts: dict[tuple[TableId, Partition], deque[Draft]] = {}
        self._under_way: dict[tuple[TableId, Partition], Draft] = {}
        self._in_flight = 0
        self._scheduled = False
        self._waiting = 0
        """Writers whose records gather."""
        self._lately = 0
        """Writers that were served or waiting when the last request ended."""
        self._leave_by_s = 0.0
        """When the next request leaves, whoever is missing."""
        self._pending_bytes = 0
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskSet()
        self.batches = 0
        self.records = 0

    def put(
        self, table: ServedTable, partition: Partition, keys: Sequence[bytes], values: Sequence[bytes], waiter: Waiter
    ) -> None:
        """Write values, whatever was there. About 2 µs, however many."""
        count = len(keys)
        draft = self._draft(table, partition, sum(map(len, keys)) + sum(map(len, values)), count)
        draft.firsts.append(len(draft.keys))
        draft.keys += keys
        draft.values += values
        if draft.attributes is not None:
            draft.attributes += [PLAIN_PUT] * count
            draft.versions += [0] * count
            draft.expiries += [0] * count
        draft.waiters.append(waiter)

    def put_one(self, table: ServedTable, partition: Partition, key: bytes, value: bytes, waiter: Waiter) -> None:
        """Write one value, whatever was there. About 1 µs."""
        draft = self._draft(table, partition, len(key) + len(value), 1)
        draft.firsts.append(len(draft.keys))
        draft.keys.append(key)
        draft.values.append(value)
        if draft.attributes is not None:
            draft.attributes.append(PLAIN_PUT)
            draft.versions.append(0)
            draft.expiries.append(0)
        draft.waiters.append(waiter)

    def submit(
        self, table: ServedTable, partition: Partition, records: Sequence[Record], waiter: Waiter, *, judged: bool
    ) -> None:
        """Write records of one partition, side by side in one batch. `judged`: the waiter is told a rejection."""
        size = sum(len(record.key) + len(record.value) for record in records)
        if len(records) > BATCH_RECORDS_MAX or (size > _BATCH_CONTENT_MAX and len(records) > 1):
            raise LimitExceeded(
                f"{len(records)} changes of {size} bytes do not fit in one batch of {BATCH_RECORDS_MAX} records and "
                f"{_BATCH_CONTENT_MAX} bytes: use several commands",
                limit=_BATCH_CONTENT_MAX,
                size=size,
            )
        draft = self._draft(table, partition, size, len(records))
        first = len(draft.keys)
        if draft.attributes is None:
            draft.attributes, draft.versions, draft.expiries = [PLAIN_PUT] * first, [0] * first, [0] * first
        for key, value, attribute, version, expiry_ms in records:
            draft.keys.append(key)
            draft.values.append(value)
            draft.attributes.append(attribute)
            draft.versions.append(version)
            draft.expiries.append(expiry_ms)
        if judged:
            draft.judged.append((first, len(records), waiter))
        else:
            draft.firsts.append(first)
            draft.waiters.append(waiter)

    async def settled(self, table: ServedTable, partition: Partition, keys: Set[bytes]) -> None:
        """Return when no record of these keys that was gathered before this call is still on its way. O(records)."""
        place = (table.ref.id, partition)
        flying = self._under_way.get(place)
        for draft in [*([] if flying is None else [flying]), *self._drafts.get(place, ())]:
            if not keys.isdisjoint(draft.keys):
                await draft.landed()

    def _draft(self, table: ServedTable, partition: Partition, size: int, records: int) -> Draft:
        """The draft that takes so much more. Raises `Overloaded`, `ShuttingDown`."""
        if self._closed:
            raise ShuttingDown("this server is stopping and takes no more writes")
        if self._pending_bytes + size > _PENDING_BYTES_MAX:
            raise Overloaded(
                f"{self._pending_bytes} bytes wait for the log; write more slowly", limit=_PENDING_BYTES_MAX
            )
        place = (table.ref.id, partition)
        queue = self._drafts.get(place)
        if queue is None:
            queue = self._drafts[place] = deque()
        if not queue or queue[-1].size + size > _BATCH_CONTENT_MAX or len(queue[-1].keys) + records > BATCH_RECORDS_MAX:
            queue.append(Draft(table, partition))
        draft = queue[-1]
        draft.size += size
        self._pending_bytes += size
        self._waiting += 1
        if not self._scheduled and place not in self._under_way:
            self._schedule()
        return draft

    def _schedule(self) -> None:
        # Not at once but at the end of this round of the loop: commands of the same round leave together.
        if not self._scheduled and self._in_flight < _IN_FLIGHT_MAX:
            self._scheduled = True
            self._loop.call_soon(self._launch)

    def _launch(self) -> None:
        """Send the oldest draft of every partition that has none under way."""
        if self._waiting < self._lately and self._loop.time() < self._leave_by_s and not self._in_flight:
            # Timers tick in milliseconds, which is longer than all of this: look again in the loop's next round.
            self._loop.call_soon(self._launch)
            return
        self._scheduled = False
        sent: list[Sent] = []
        for place in [place for place in self._drafts if place not in self._under_way]:
            queue = self._drafts[place]
            draft = queue.popleft()
            if not queue:
                del self._drafts[place]
            sequence = self._sequences.get(place, 0)
            try:
                batch = encode_batch(draft.columns(), producer_id=self._producer_id, sequence=sequence)
            except DuramenError as error:
                self._pending_bytes -= draft.size
                self._waiting -= len(draft.waiters) + len(draft.judged)
                draft.fail(error)
                continue
            self._sequences[place] = sequence + len(draft.keys)
            self._under_way[place] = draft
            self._waiting -= len(draft.waiters) + len(draft.judged)
            sent.append(Sent(draft, WritePart(*place, batch, gathered=not self._in_flight)))
        if all(each.draft.judged and not each.draft.waiters for each in sent):
            # Nobody here waits for the disk alone: the verdicts come with the places.
            sent = [each._replace(part=each.part._replace(outcomes=True)) for each in sent]
        if sent:
            self._in_flight += 1
            self.batches += len(sent)
            self.records += sum(len(each.draft.keys) for each in sent)
            self._tasks.start(self._fly(sent))

    async def _fly(self, sent: list[Sent]) -> None:
        left, in_flight = sent, True
        began_s = self._loop.time()
        deadline = began_s + REQUEST_TIMEOUT_S
        writers = sum(len(each.draft.waiters) + len(each.draft.judged) for each in sent)
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        landed: list[tuple[Draft, WriteResult]] = []
        unknown: set[int] = set()
        try:
            while True:
                left = await self._try(left, landed, unknown, deadline)
                if in_flight:
                    self._in_flight -= 1
                    in_flight = False
                    now_s = self._loop.time()
                    self._lately = writers + self._waiting
                    self._leave_by_s = now_s + min((now_s - began_s) * _GATHER_SHARE, _GATHER_MAX_S)
                if self._drafts:
                    self._schedule()
                for draft, result in landed:
                    await self._tell(draft, result, deadline)
                landed.clear()
                if not left:
                    return
                await backoff.pause()
        except BaseException as error:
            # Closed meanwhile, or a bug of ours: nobody may wait for what will not come.
            reason = WriteUnknown(f"this server stopped before the write was answered ({error!r}): read the key")
            for draft in (*(draft for draft, _ in landed), *(each.draft for each in left)):
                draft.fail(reason)
            self._in_flight -= in_flight
            raise

    async def _try(
        self, sent: list[Sent], landed: list[tuple[Draft, WriteResult]], unknown: set[int], deadline: float
    ) -> list[Sent]:
        """Send once; return what is to be sent again."""
        remaining = max(0.001, deadline - self._loop.time())
        results: Sequence[WriteResult | DuramenError]
        try:
            results = await self._connection.write(
                [each.part for each in sent], timeout=remaining, patience=_VERDICT_PATIENCE_S
            )
        except DuramenError as error:
            results = [error] * len(sent)
        again: list[Sent] = []
        for each, result in zip(sent, results, strict=True):
            draft = each.draft
            if isinstance(result, WriteUnknown) and each.part.outcomes and "offset" in result.fields:
                # It is in the log; only the verdict is missing, and somebody else may know it.
                result = WriteResult(Offset(int(str(result.fields["offset"]))), 0, pending=True)
            if isinstance(result, WriteResult):
                draft.table.wrote(draft.partition, draft.keys, Offset(result.base_offset + len(draft.keys) - 1))
                draft.end()
                landed.append((draft, result if each.part.outcomes else result._replace(pending=True)))
            else:
                if isinstance(result, WriteUnknown) or result.fields.get("sent") == 1:
                    unknown.add(id(draft))
                if isinstance(result, _REPEATABLE) and self._loop.time() < deadline:
                    again.append(each)
                    continue
                if id(draft) in unknown and not isinstance(result, WriteUnknown):
                    result = WriteUnknown(
                        f"no reply came in time ({result.message}): the write is in the log once or not at all; read "
                        "the key to know"
                    )
                draft.fail(result)
            self._pending_bytes -= draft.size
            self._under_way.pop((each.part.table_id, each.part.partition), None)
        return again

    async def _tell(self, draft: Draft, result: WriteResult, deadline: float) -> None:
        """It is on stable storage: tell everybody what came of it; some have to wait for a verdict."""
        waiters, draft.waiters = draft.waiters, []
        for waiter, first in zip(waiters, draft.firsts, strict=True):
            waiter.settle(None, Offset(result.base_offset + first))
        if not draft.judged:
            return
        verdict: WriteResult | DuramenError = result
        if result.pending:
            asked = OutcomesPart(
                draft.table.ref.id, draft.partition, result.base_offset, result.timestamp_ms, len(draft.keys)
            )
            remaining = max(0.001, deadline - self._loop.time())
            try:
                (verdict,) = await self._connection.outcomes([asked], timeout=remaining)
            except DuramenError as error:
                verdict = error
        rejected: dict[int, Rejected] = {}
        places: dict[int, Offset] = {}
        if isinstance(verdict, WriteResult):
            rejected = {each.record: each.rejected for each in verdict.outcomes if each.rejected is not None}
            places = {each.record: each.original for each in verdict.outcomes if each.original > NOTHING}
        judged, draft.judged = draft.judged, []
        for first, count, waiter in judged:
            if isinstance(verdict, DuramenError):
                waiter.settle(_not_judged(result, verdict), NOTHING)
            else:
                refused = next((rejected[n] for n in range(first, first + count) if n in rejected), None)
                waiter.settle(refused, places.get(first, Offset(result.base_offset + first)))

    async def close(self) -> None:
        """Take nothing more; give what is under way a moment, then give it up."""
        self._closed = True
        await self._tasks.close(patience_s=_CLOSE_PATIENCE_S)
        for queue in self._drafts.values():
            for draft in queue:
                draft.fail(ShuttingDown("this server stopped before the write was sent"))
        self._drafts.clear()


def _not_judged(result: WriteResult, reason: DuramenError) -> DuramenError:
    if isinstance(reason, WriteUnknown):
        return reason
    said = "no replica has applied it in time" if isinstance(reason, DeadlineExceeded) else reason.message
    return WriteUnknown(
        f"the write is in the log at offset {result.base_offset}, what became of it is not known ({said}): read the "
        "key",
        offset=result.base_offset,
    )

"""The writes of all connections, gathered: one batch per partition, one sync for all of them.

The data plane's gatherer (`router/data/gather`) decides what leaves when, what is sent again and when it is given up.
Its invariants W1 to W4 hold here. What this endpoint adds:

- Waiters are callbacks, and not futures: a plain SET costs about 1 µs here, and creates no task.
- A waiter is settled after its records are on stable storage, and after the table has noted their keys
  (`Floors.wrote`). From then on every read of them by this endpoint shows them.
- Calls gather a little longer than a request takes (`Rules.gather_share`), because clients that were just answered
  usually write again at once.
- Verdicts come with the write only where nobody waits for stable storage alone.
- A verdict that is known before the fold has decided is not waited for: where what a record is judged by holds at an
  offset, and all that lies between that and the record's place is this endpoint's own
  (`router/data/gather/own_offsets.py`). That the endpoint's own writes leave it alone is what `rounds/` sees to (C4).
  Not where entries expire, the table has a definition, or the batch was sent more than once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final, Protocol

from log_tier.model.batch import Columns
from log_tier.model.errors import DuramenError, Rejected, ShuttingDown
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from log_tier.tracing.passing import joined
from log_tier.tracing.span import TRACING, Span, Tracing
from router.data.gather.batch_builder import BatchBuilder
from router.data.gather.batch_progress import BatchProgress
from router.data.gather.columns_builder import ColumnsBuilder
from router.data.gather.rounds import Rules
from router.data.gather.write_gatherer import WriteGatherer
from router.data.requests import WriteResult
from router.data.seam import Connection
from router.endpoints.resp.data.key_views import DraftRecord
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S

__all__ = ["RESP_RULES", "SharedWriter", "WriteWaiter"]

RESP_RULES: Final = Rules(gather_share=0.34, verdicts_apart=True, verdict_patience_s=0.05)

# Keys of a large batch that its table notes in one turn of the event loop: 2 ms, where reader processes are to know.
_NOTED_AT_ONCE: Final = 4096


class WriteWaiter(Protocol):
    """A caller that wants to know what became of its records."""

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """They are on stable storage and have taken effect, the first of them at `offset`; or why not. Called once.

        For judged records that is the place of the copy that counts, which is their keys' version; for others of a
        batch that was sent again, the place of the last copy. After `put` and `put_one` it is `NOTHING`.
        """
        ...


class Waiters:
    """The waiters for the records of one batch: see `Callers`. No waiter has a deadline of its own; the batch has one
    from its first try on.
    """

    __slots__ = ("_columns", "_deadline_s", "_landed", "_own", "_partition", "_table", "judging", "placing", "plain")

    def __init__(self, table: ServedTable, partition: Partition, columns: ColumnsBuilder) -> None:
        self.plain: list[WriteWaiter] = []
        """Waiters that need no more than stable storage."""
        self.placing: list[tuple[int, WriteWaiter]] = []
        """First record and waiter of those that also need its place."""
        self.judging: list[tuple[int, int, WriteWaiter, Offset | None]] = []
        """First record, count and waiter of those that need the verdict; and `holds_at` (`submit_columns`)."""
        self._table: ServedTable | None = table
        """None once the batch's fate is known: the table has noted its keys, or nothing was written."""
        self._own = table.floors.own[partition]
        self._partition = partition
        self._columns = columns
        self._deadline_s = 0.0
        self._landed: asyncio.Future[None] | None = None

    def add(self, records: Columns, waiter: WriteWaiter, *, judged: bool, holds_at: Offset | None) -> None:
        """Add records to the batch, and who waits for them. `judged`, `holds_at`: see `submit_columns`."""
        first = self._columns.add(records)
        if judged:
            self.judging.append((first, len(records.keys), waiter, holds_at))
        else:
            self.placing.append((first, waiter))

    def want_verdict(self, *, repeated: bool) -> bool:
        if repeated:
            return bool(self.judging)
        return None in [holds_at for *_, holds_at in self.judging]

    @property
    def want_place(self) -> bool:
        return bool(self.plain or self.placing)

    def last_deadline(self, now_s: float) -> float | None:
        """See `Callers`. O(1)."""
        if not self._deadline_s:
            self._deadline_s = now_s + REQUEST_TIMEOUT_S
        return self._deadline_s if now_s < self._deadline_s else None

    def noting(self, result: WriteResult) -> Iterable[None]:
        """The table notes the keys some at a time. A key that is noted before the batch is acknowledged makes a read of
        it wait, at worst.
        """
        table, self._table = self._table, None
        if table is None:
            return
        partition, keys = self._partition, self._columns.keys
        last = Offset(result.base_offset + len(keys) - 1)
        for at in range(0, len(keys), _NOTED_AT_ONCE):
            replica = table.replicas[partition]
            applied = None if replica is None else replica.index.applied
            table.floors.wrote(partition, keys[at : at + _NOTED_AT_ONCE], last, applied)
            yield
        self._end()

    def placed(self, result: WriteResult, *, repeated: bool) -> bool:
        """The table notes the keys before any caller is answered: every later read at this endpoint shows them."""
        self._land(result)
        granted: list[tuple[int, WriteWaiter]] = []
        if result.pending or repeated:
            self._own.forget()
        else:
            granted = self._take_granted(result.base_offset)
        if result.pending:
            self._judge_all()
        self._answer_placed(result)
        for first, waiter in granted:
            waiter.settle(None, Offset(result.base_offset + first))
        return bool(self.judging)

    def _take_granted(self, base: Offset) -> list[tuple[int, WriteWaiter]]:
        """The log has placed the batch at `base`: take out those who need not wait for the fold, which grants them."""
        own, judging, self.judging = self._own, self.judging, []
        granted = []
        for each in judging:
            first, _, waiter, holds_at = each
            if holds_at is not None and own.reach(holds_at, base):
                granted.append((first, waiter))
            else:
                self.judging.append(each)
        own.wrote(base, len(self._columns.keys))
        return granted

    def _answer_placed(self, result: WriteResult) -> None:
        plain, self.plain = self.plain, []
        for waiter in plain:
            waiter.settle(None, NOTHING)
        placing, self.placing = self.placing, []
        for first, waiter in placing:
            waiter.settle(None, Offset(result.base_offset + first))

    def _judge_all(self) -> None:
        """The batch holds what does not fit its table, as somebody has seen who knows its definition: nobody is
        answered before the fold has judged it. A group has one verdict, which its first record has.
        """
        self.judging += [(first, 1, waiter, None) for first, waiter in self.placing]
        self.placing = []

    def judged(self, result: WriteResult) -> None:
        if result.outcomes:
            self._judge_all()
        self._land(result)
        self._own.forget()
        self._answer_placed(result)
        rejected: dict[int, Rejected] = {}
        places: dict[int, Offset] = {}
        for each in result.outcomes:
            if each.rejected is not None:
                rejected[each.record] = each.rejected
            if each.original > NOTHING:
                places[each.record] = each.original
        judging, self.judging = self.judging, []
        for first, count, waiter, _ in judging:
            refused = None
            if rejected:
                refused = next((rejected[n] for n in range(first, first + count) if n in rejected), None)
            waiter.settle(refused, places.get(first, Offset(result.base_offset + first)))

    def fail(self, error: DuramenError) -> None:
        everybody = [*self._everybody()]
        self.plain, self.placing, self.judging = [], [], []
        for waiter in everybody:
            waiter.settle(copy(error), NOTHING)
        self._table = None
        self._end()

    def _everybody(self) -> Iterable[WriteWaiter]:
        yield from self.plain
        for _, waiter in self.placing:
            yield waiter
        for _, _, waiter, _ in self.judging:
            yield waiter

    def _land(self, result: WriteResult) -> None:
        table, self._table = self._table, None
        if table is not None:
            keys, replica = self._columns.keys, table.replicas[self._partition]
            last, applied = (
                Offset(result.base_offset + len(keys) - 1),
                None if replica is None else replica.index.applied,
            )
            table.floors.wrote(self._partition, keys, last, applied)
            if self._landed is not None:
                self._end()

    async def landed(self) -> None:
        """Return when the batch's fate is known: its table has noted its keys, or its writers have got an error."""
        if self._landed is None:
            self._landed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._landed)

    def _end(self) -> None:
        if self._landed is not None and not self._landed.done():
            self._landed.set_result(None)


class SharedWriter:
    """Gathers the writes of one endpoint. Belongs to one event loop."""

    def __init__(self, connection: Connection, rules: Rules = RESP_RULES) -> None:
        self._gatherer: WriteGatherer[ServedTable, Waiters] = WriteGatherer(
            connection, secrets.randbits(62) + 1, rules, new=_new_batch, closed=_closed
        )
        self._rounds = self._gatherer.rounds
        self._tracing = TRACING.get()

    @property
    def batches(self) -> int:
        """Batches sent so far."""
        return self._gatherer.batches

    @property
    def records(self) -> int:
        """Records in the batches sent so far."""
        return self._gatherer.records

    def put(
        self,
        table: ServedTable,
        partition: Partition,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        waiter: WriteWaiter,
    ) -> None:
        """Write values, whatever was there. About 2 µs, however many. Raises `Overloaded`, `ShuttingDown`."""
        size = sum(map(len, keys)) + sum(map(len, values))
        batch = self._rounds.batch_for(table.ids[partition], table, size, len(keys))
        batch.columns.put_all(keys, values)
        if self._tracing is not None:
            waiter = _traced(self._tracing, batch, table, waiter)
        batch.callers.plain.append(waiter)

    def put_one(self, table: ServedTable, partition: Partition, key: bytes, value: bytes, waiter: WriteWaiter) -> None:
        """Write one value, whatever was there. About 1 µs. Raises `Overloaded`, `ShuttingDown`."""
        batch = self._rounds.batch_for(table.ids[partition], table, len(key) + len(value), 1)
        batch.columns.put(key, value)
        if self._tracing is not None:
            waiter = _traced(self._tracing, batch, table, waiter)
        batch.callers.plain.append(waiter)

    def submit(
        self,
        table: ServedTable,
        partition: Partition,
        records: Sequence[DraftRecord],
        waiter: WriteWaiter,
        *,
        judged: bool,
    ) -> None:
        """Write records of one partition, side by side in one batch. `judged`: the waiter learns of a rejection.

        Raises `LimitExceeded` where they fit in no batch, `Overloaded`, `ShuttingDown`.
        """
        self.submit_columns(table, partition, Columns(*map(list, zip(*records, strict=True))), waiter, judged=judged)

    def submit_columns(
        self,
        table: ServedTable,
        partition: Partition,
        records: Columns,
        waiter: WriteWaiter,
        *,
        judged: bool,
        holds_at: Offset | None = None,
    ) -> None:
        """`submit` for records in columns: 0.1 µs a record. `holds_at`: what they are judged by holds in the state at
        this offset, whatever the time is, and no other write of this endpoint changes that before they are judged.
        """
        size, count = sum(map(len, records.keys)) + sum(map(len, records.values)), len(records.keys)
        self._rounds.check_size(count, size)
        batch = self._rounds.batch_for(table.ids[partition], table, size, count)
        if self._tracing is not None:
            waiter = _traced(self._tracing, batch, table, waiter)
        if table.form is not None:
            holds_at = None  # the fold may know a newer definition, which they do not fit
        batch.callers.add(records, waiter, judged=judged, holds_at=holds_at)

    def under_way(self, table: ServedTable, partition: Partition, keys: Iterable[bytes] | None) -> list[Waiters]:
        """The waiters of the batches that hold records of these keys and are still on their way; None: of any keys.
        O(records) for keys.
        """
        place, rounds = table.ids[partition], self._rounds
        if not rounds.waiting and not rounds.under_way:
            return []
        if keys is None:
            return [batch.callers for batch in rounds.at(place)]
        asked = frozenset(keys)
        return [batch.callers for batch in rounds.at(place) if not asked.isdisjoint(batch.columns.keys)]

    async def settled(self, table: ServedTable, partition: Partition, keys: Iterable[bytes] | None) -> None:
        """Return when no record of these keys that was gathered before this call is still on its way. O(records). None:
        of any keys, as to look for many takes longer than to wait.
        """
        for waiters in self.under_way(table, partition, keys):
            await waiters.landed()

    async def close(self) -> None:
        """Take nothing more; wait shortly for what is under way, then give it up."""
        await self._gatherer.close()


class _TracedWaiter:
    """A waiter whose write is traced: its span ends before the waiter learns what became of it."""

    __slots__ = ("_partition", "_span", "_waiter")

    def __init__(self, span: Span, partition: Partition, waiter: WriteWaiter) -> None:
        self._span = span
        self._partition = partition
        self._waiter = waiter

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        if error is not None:
            self._span.fail(error.code)
        elif offset > NOTHING:
            self._span.place(self._partition, offset)
        self._span.end()
        self._waiter.settle(error, offset)


def _traced(tracing: Tracing, batch: BatchBuilder[Waiters], table: ServedTable, waiter: WriteWaiter) -> WriteWaiter:
    """The waiter to add to a batch: itself, nearly always."""
    span = tracing.command("RESP/write", table.ref.name)
    if span is None:
        return waiter
    batch.traced = joined(batch.traced, (span,))
    return _TracedWaiter(span, batch.place.partition, waiter)


def _new_batch(place: PartitionId, table: ServedTable) -> BatchBuilder[Waiters]:
    columns = ColumnsBuilder()
    return BatchBuilder(place, columns, BatchProgress(), Waiters(table, place.partition, columns))


def _closed() -> ShuttingDown:
    return ShuttingDown("this server is stopping: the write was not sent")

"""The writes of all connections, gathered: one batch per partition, one sync for all of them.

The data plane's gatherer (`router/data/gather`) decides what leaves when, what is sent again and when it is given up.
Its invariants W1 to W4 hold here. What this endpoint adds:

- Waiters are callbacks, and not futures: a plain SET costs about 1 µs here, and creates no task.
- A waiter is settled after its records are on stable storage, and after the table has noted their keys
  (`ServedTable.wrote`). From then on every read of them by this endpoint shows them.
- Calls gather a little longer than a request takes (`Rules.gather_share`), because clients that were just answered
  usually write again at once.
- Verdicts come with the write only where nobody waits for stable storage alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence, Set
from typing import Final

from log_tier.model.batch import Columns
from log_tier.model.errors import ShuttingDown
from log_tier.model.identifiers import Partition, PartitionId
from router.data.gather.batch_builder import BatchBuilder
from router.data.gather.columns_builder import ColumnsBuilder
from router.data.gather.progress import Progress
from router.data.gather.rounds import Rules
from router.data.gather.writes import WriteGatherer
from router.data.seam import Connection
from router.endpoints.resp.data.drafts import Waiter, Waiters
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.data.views import Record

__all__ = ["RESP_RULES", "SharedWriter", "Waiter"]

RESP_RULES: Final = Rules(gather_share=0.34, verdicts_apart=True, verdict_patience_s=0.05)


class SharedWriter:
    """Gathers the writes of one endpoint. Belongs to one event loop."""

    def __init__(self, connection: Connection, rules: Rules = RESP_RULES) -> None:
        self._gatherer: WriteGatherer[ServedTable, Waiters] = WriteGatherer(
            connection, secrets.randbits(62) + 1, rules, new=_new_batch, closed=_closed
        )
        self._rounds = self._gatherer.rounds

    @property
    def batches(self) -> int:
        """How many were sent so far."""
        return self._gatherer.batches

    @property
    def records(self) -> int:
        """How many were in them."""
        return self._gatherer.records

    def put(
        self, table: ServedTable, partition: Partition, keys: Sequence[bytes], values: Sequence[bytes], waiter: Waiter
    ) -> None:
        """Write values, whatever was there. About 2 µs, however many. Raises `Overloaded`, `ShuttingDown`."""
        size = sum(map(len, keys)) + sum(map(len, values))
        batch = self._rounds.batch_for(table.ids[partition], table, size, len(keys))
        callers = batch.callers
        callers.firsts.append(batch.columns.put_all(keys, values))
        callers.plain.append(waiter)

    def put_one(self, table: ServedTable, partition: Partition, key: bytes, value: bytes, waiter: Waiter) -> None:
        """Write one value, whatever was there. About 1 µs. Raises `Overloaded`, `ShuttingDown`."""
        batch = self._rounds.batch_for(table.ids[partition], table, len(key) + len(value), 1)
        callers = batch.callers
        callers.firsts.append(batch.columns.put(key, value))
        callers.plain.append(waiter)

    def submit(
        self, table: ServedTable, partition: Partition, records: Sequence[Record], waiter: Waiter, *, judged: bool
    ) -> None:
        """Write records of one partition, side by side in one batch. `judged`: the waiter learns of a rejection.

        Raises `LimitExceeded` where they fit in no batch, `Overloaded`, `ShuttingDown`.
        """
        size = sum(len(record.key) + len(record.value) for record in records)
        batch = self._batch_of(table, partition, size, len(records))
        self._wait(batch, batch.columns.add_rows(records), len(records), waiter, judged=judged)

    def submit_columns(
        self, table: ServedTable, partition: Partition, records: Columns, waiter: Waiter, *, judged: bool
    ) -> None:
        """`submit` for records in columns: 0.1 µs a record."""
        size, count = sum(map(len, records.keys)) + sum(map(len, records.values)), len(records.keys)
        batch = self._batch_of(table, partition, size, count)
        self._wait(batch, batch.columns.add(records), count, waiter, judged=judged)

    def _batch_of(self, table: ServedTable, partition: Partition, size: int, records: int) -> BatchBuilder[Waiters]:
        self._rounds.check_size(records, size)
        return self._rounds.batch_for(table.ids[partition], table, size, records)

    @staticmethod
    def _wait(batch: BatchBuilder[Waiters], first: int, count: int, waiter: Waiter, *, judged: bool) -> None:
        callers = batch.callers
        if judged:
            callers.judging.append((first, count, waiter))
        else:
            callers.firsts.append(first)
            callers.plain.append(waiter)

    async def settled(self, table: ServedTable, partition: Partition, keys: Set[bytes]) -> None:
        """Return when no record of these keys that was gathered before this call is still on its way. O(records)."""
        for batch in self._rounds.at(table.ids[partition]):
            if not keys.isdisjoint(batch.columns.keys):
                await batch.callers.landed()

    async def close(self) -> None:
        """Take nothing more; wait shortly for what is under way, then give it up."""
        await self._gatherer.close()


def _new_batch(place: PartitionId, table: ServedTable) -> BatchBuilder[Waiters]:
    columns = ColumnsBuilder()
    return BatchBuilder(place, columns, Progress(), Waiters(table, place.partition, columns))


def _closed() -> ShuttingDown:
    return ShuttingDown("this server is stopping: the write was not sent")

"""A writer that can be interrupted at any time and run again, and still writes every record exactly once.

Its producer id is derived from a name that the caller chooses, and its sequences count the records per partition. Who
runs it again with the same name feeds it the same records in the same order; it asks the table how far its producer
had come, and skips that much. What the interruption left in doubt is settled by the log: a record that is written
twice is void the second time.

    async with table.writer("flights.csv of 2013-01-01") as writer:
        for key, value in rows:                 # the same rows in the same order as last time
            await writer.put(key, value)
        done = await writer.flush()
        print(writer.skipped, writer.written)
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, NamedTuple

from duramen.client.context import ClientContext
from duramen.client.lookup import TableLookup
from duramen.client.model.call_records import check_key, check_value
from duramen.client.model.results import ManyDone
from duramen.client.transport.retry import ask_until
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.sized_work import Turn
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import HEADER_BYTES
from log_tier.model.errors import DatabaseForked, DuramenError, InvalidRequest, WriteUnknown
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from log_tier.model.table_ref import TableRef
from router.data.gather.acknowledged import NOTED_MAX
from router.data.gather.batch_progress import may_be_written
from router.data.outcomes import write_unknown
from router.data.requests import WritePart, WriteResult

__all__ = ["Flight", "TableWriter", "producer_id_of"]

# A flush leaves when this much has gathered: large enough that a sync is shared by thousands of records.
_FLUSH_RECORDS: Final = 16_384
_FLUSH_BYTES: Final = 4 * 1024 * 1024

# How long a batch that was sent again waits for its verdict; without it, its place is known to be there or below.
_OUTCOMES_PATIENCE_S: Final = 1.0

# Between two tries of the same bytes; the tries last as long as one call may, a server's restart included.
_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5


def producer_id_of(name: str) -> int:
    """The producer id of a name: 63 bits of its BLAKE2b hash, never 0."""
    return (int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 1) | 1


class Flight(NamedTuple):
    """The records of one partition that leave together."""

    columns: Columns
    sequence: int
    """Of the first one."""


def _last_of(result: WriteResult, records: int) -> Offset:
    """The last offset of a batch: of the copy that counts, where that is known."""
    for outcome in result.outcomes:
        if outcome.record == records - 1 and outcome.original > NOTHING:
            return outcome.original
    return Offset(result.base_offset + records - 1)


class TableWriter:
    """Writes a stream of puts, resumable by its producer's name. Use it with `with`, one at a time per name.

    A run that was interrupted is repeated with the same rows in the same order; rows that are in the log are skipped.
    While one flush is under way the next one gathers. There is never a second flush under way, so each partition's
    sequences arrive in order. An endless stream needs bounded memory: a flush leaves at 16,384 records or 4 MiB.
    """

    def __init__(self, lookup: TableLookup, producer: str) -> None:
        self._lookup = lookup
        self._producer_id = producer_id_of(producer)
        self._ref: TableRef | None = None
        self._next: list[int] = []
        """The sequence of the next record, by partition."""
        self._resume: list[int] = []
        """Below this sequence, records were written by an earlier run."""
        self._keys: list[list[bytes]] = []
        self._values: list[list[bytes]] = []
        self._waiting = 0
        self._waiting_bytes = 0
        self._flight: asyncio.Task[None] | None = None
        self._failure: DuramenError | None = None
        """Once something could not be written, nothing after it is: the next run would skip the hole."""
        self._offsets: dict[Partition, Offset] = {}
        self._process = os.getpid()
        self.written = 0
        """Records that this run wrote and that are on stable storage."""
        self.skipped = 0
        """Records that an earlier run had written."""

    async def __aenter__(self) -> TableWriter:
        lookup, context = self._lookup, self._lookup.context
        deadline = context.deadline(None)
        self._ref = ref = lookup.ref or await lookup.resolve(deadline)
        found = await ask_until(
            deadline,
            lambda remaining: context.connection.producer(ref.id, self._producer_id, timeout=remaining),
        )
        self._next = [0] * ref.partitions
        self._resume = [found.get(Partition(number), -1) + 1 for number in range(ref.partitions)]
        self._keys = [[] for _ in range(ref.partitions)]
        self._values = [[] for _ in range(ref.partitions)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.flush()
        elif self._process != os.getpid():
            return  # the parent's
        elif self._flight is not None:
            await asyncio.wait((self._flight,))
            if not self._flight.cancelled():
                self._flight.exception()  # the block's own error is the one that counts

    async def put(self, key: bytes, value: bytes) -> None:
        """Add one record. Sends what has gathered at 16,384 records or 4 MiB. Raises what `flush` does."""
        await self.put_rows(((key, value),))

    async def put_rows(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Add many records: about 1 µs each, and the wait for the last flush but one. Raises what `flush` does."""
        ref = self._opened()
        partition_of, following, resume = ref.partition_of, self._next, self._resume
        keys, values = self._keys, self._values
        turn = Turn()
        for key, value in rows:
            if turn.is_full():
                await turn.end()
            partition = partition_of(check_key(key))
            check_value(value)
            sequence = following[partition]
            following[partition] = sequence + 1
            if sequence < resume[partition]:
                self.skipped += 1
                continue
            keys[partition].append(key)
            values[partition].append(value)
            self._waiting += 1
            self._waiting_bytes += len(key) + len(value)
            if self._waiting >= _FLUSH_RECORDS or self._waiting_bytes >= _FLUSH_BYTES:
                await self._depart(ref)

    async def flush(self) -> ManyDone:
        """Send what has gathered and wait until it is on stable storage.

        Repeats a failed request for up to the database's timeout. Raises what `Table.put` does; after an error the
        writer writes nothing more, and the next run resumes at the first record that is not in the log.
        """
        ref = self._opened()
        await self._depart(ref)
        await self._land()
        return ManyDone(ref.id, self.written, dict(self._offsets))

    def _opened(self) -> TableRef:
        if self._process != os.getpid():
            raise DatabaseForked(
                "this writer goes on in the process that was forked: one writer has one producer's name"
            )
        if self._ref is None:
            raise InvalidRequest("use the writer with `async with`")
        return self._ref

    async def _depart(self, ref: TableRef) -> None:
        """Let what has gathered leave, once what left before has arrived."""
        await self._land()
        groups: dict[Partition, Flight] = {}
        for number in map(Partition, range(ref.partitions)):
            keys = self._keys[number]
            if keys:
                groups[number] = Flight(Columns(keys, self._values[number]), self._next[number] - len(keys))
                self._keys[number], self._values[number] = [], []
        self._waiting = self._waiting_bytes = 0
        if groups:
            self._flight = asyncio.create_task(self._send(self._lookup.context, ref, groups))

    def _encoded(self, ref: TableRef, groups: Mapping[Partition, Flight], compress: bool) -> list[WritePart]:
        return [
            WritePart(
                PartitionId(ref.id, number),
                encode_batch(columns, producer_id=self._producer_id, sequence=sequence, compress=compress),
            )
            for number, (columns, sequence) in groups.items()
        ]

    async def _land(self) -> None:
        """Wait for the flight under way. Raises what kept it, or an earlier one, from arriving."""
        flight = self._flight
        if flight is not None:
            # Not `await flight`: a caller who is cancelled here must not tear a hole into the sequences.
            await asyncio.wait((flight,))
            self._flight = None
            try:
                flight.result()
            except DuramenError as error:
                self._failure = error
                raise
        if self._failure is not None:
            raise self._failure

    async def _send(self, context: ClientContext, ref: TableRef, groups: Mapping[Partition, Flight]) -> None:
        """Send until everything is written; the same bytes again after an error that allows it."""
        # 4 MiB take 2 ms, 20 when they are compressed, and a thousand partitions as long.
        parts = await asyncio.to_thread(self._encoded, ref, groups, context.compress)
        failure: DuramenError | None = None
        misfit: DuramenError | None = None
        unknown = False
        noted = context.acknowledged.noted
        loop = asyncio.get_running_loop()
        deadline_s = context.deadline(None)
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=deadline_s)
        while parts:
            try:
                results = await context.connection.write(
                    parts, timeout=max(0.0, deadline_s - loop.time()), patience=_OUTCOMES_PATIENCE_S
                )
            except DuramenError as error:
                results = [error] * len(parts)
            left: list[WritePart] = []
            final: DuramenError | None = None
            for part, result in zip(parts, results, strict=True):
                if isinstance(result, WriteResult):
                    records = len(groups[part.partition.partition].columns.keys)
                    last = _last_of(result, records)
                    head = part.batch[:HEADER_BYTES]
                    noted.append((part.partition, head, result.base_offset, result.timestamp_ms, part.outcomes))
                    self._offsets[part.partition.partition] = max(
                        self._offsets.get(part.partition.partition, NOTHING), last
                    )
                    context.session.saw(ref, part.partition.partition, last)
                    refused = [each.rejected for each in result.outcomes if each.rejected is not None]
                    self.written += records - len(refused)
                    if refused and misfit is None:
                        misfit = refused[0]
                    continue
                # A part that is sent again asks for its verdict, which names the place of the copy that counts.
                left.append(part._replace(outcomes=True))
                failure = result
                unknown |= may_be_written(result)
                if not (result.retryable or isinstance(result, WriteUnknown)):
                    final = result
            parts = left
            if len(noted) > NOTED_MAX:
                context.acknowledged.count()
            if misfit is not None:
                raise misfit  # it is in the log, and void there: the next run goes on behind it
            if final is not None:
                raise write_unknown(final.message) if unknown else final
            if parts:
                assert failure is not None, "what is left has failed"
                if not await backoff.pause():
                    raise failure

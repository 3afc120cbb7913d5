"""Appending what a task writes: records gather per partition, leave as final batches, one round at a time.

A **round** is at most one batch of each partition, appended together. The next one leaves when all of this one is on
stable storage, so within a partition the sequences of a task reach the log in their order, whatever is lost and sent
again: a batch that overtook an earlier one would make that one look like a second copy, and void. While a round is
under way the next rows are encoded.

A batch that fails and may succeed later, or of which no reply came, is appended again with the same bytes, until the
time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import WriteUnknown
from log_tier.model.identifiers import Partition, PartitionId, TableId
from log_tier.model.log import Appended, Log
from log_tier.model.record import PLAIN_PUT
from spark_bulk.source.writes.drafted_rows import Drafted
from spark_bulk.source.writes.identities import TaskIdentity

__all__ = ["AppendLimits", "Appender"]


@dataclass(frozen=True, slots=True)
class AppendLimits:
    """The size of a batch, what may wait, and the pauses between attempts."""

    batch_records_max: int = 8_192
    """Large enough to share its sync, small enough to be applied in some 20 ms."""
    batch_bytes_max: int = 2 << 20
    waiting_bytes_max: int = 64 << 20
    """What waits in all partitions together; beyond it a round leaves with batches that are not full."""
    pause_first_s: float = 0.05
    pause_max_s: float = 2.0


_LIMITS: Final = AppendLimits()


@dataclass(slots=True)
class _Waiting:
    """Records of one partition that have not left."""

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    attributes: list[int] | None = None
    expiries: list[int] | None = None
    bytes: int = 0
    written: int = 0
    """Rows that have left."""

    def add(self, drafted: Drafted) -> None:
        columns, before = drafted.columns, len(self.keys)
        self.keys += columns.keys
        self.values += columns.values
        after = len(columns.keys)
        self.attributes = _joined(self.attributes, columns.attributes, before, after, PLAIN_PUT)
        self.expiries = _joined(self.expiries, columns.expiries, before, after, 0)
        self.bytes += drafted.bytes

    def is_full(self, limits: AppendLimits) -> bool:
        return len(self.keys) >= limits.batch_records_max or self.bytes >= limits.batch_bytes_max

    def take(self, limits: AppendLimits) -> Columns:
        """The next batch."""
        count = min(len(self.keys), limits.batch_records_max)
        if self.bytes > limits.batch_bytes_max:
            size = 0
            for place in range(count):
                size += len(self.keys[place]) + len(self.values[place])
                if size > limits.batch_bytes_max:
                    count = max(place, 1)
                    break
        taken = Columns(
            self.keys[:count],
            self.values[:count],
            None if self.attributes is None else self.attributes[:count],
            None,
            None if self.expiries is None else self.expiries[:count],
        )
        self.bytes -= sum(map(len, taken.keys)) + sum(map(len, taken.values))
        del self.keys[:count], self.values[:count]
        self.attributes = None if self.attributes is None or not self.keys else self.attributes[count:]
        self.expiries = None if self.expiries is None or not self.keys else self.expiries[count:]
        self.written += count
        return taken


def _joined(old: list[int] | None, new: Sequence[int] | None, before: int, after: int, usual: int) -> list[int] | None:
    """A column that is None while all of it is usual."""
    if old is None and new is None:
        return None
    return [*(old if old is not None else [usual] * before), *(new if new is not None else [usual] * after)]


class Appender:
    """Takes drafted records of one task, in order, then `finish()`. Use it in a `with`: it has a thread and a log."""

    def __init__(
        self,
        opening: Callable[[], Awaitable[Log]],
        table: TableId,
        identity: TaskIdentity,
        *,
        compress: bool,
        timeout_s: float,
        limits: AppendLimits = _LIMITS,
    ) -> None:
        """`opening` gives a log of our own, in the thread that appends."""
        self._table = table
        self._identity = identity
        self._compress = compress
        self._timeout_s = timeout_s
        self._limits = limits
        self._waiting: dict[Partition, _Waiting] = {}
        self._bytes = 0
        self._under_way: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="duramen-append")
        self._runner = asyncio.Runner()
        self._opening = opening
        self._log: Log | None = None
        self.records = 0
        """Taken so far."""

    def add(self, drafted: Drafted) -> None:
        """Take records; full batches leave. Raises what an earlier round met."""
        waiting = self._waiting.setdefault(drafted.partition, _Waiting())
        waiting.add(drafted)
        self._bytes += drafted.bytes
        self.records += len(drafted.columns.keys)
        while waiting.is_full(self._limits):
            self._send(all_of_them=False)
        while self._bytes >= self._limits.waiting_bytes_max:
            self._send(all_of_them=True)

    def finish(self) -> None:
        """Append what is left; return when all of it is on stable storage."""
        while any(waiting.keys for waiting in self._waiting.values()):
            self._send(all_of_them=True)
        self._settle()

    def _send(self, *, all_of_them: bool) -> None:
        """Encode a round, and let it leave when the one before it is done."""
        parts: dict[Partition, bytes] = {}
        for partition, waiting in self._waiting.items():
            if not waiting.keys or not (all_of_them or waiting.is_full(self._limits)):
                continue
            first = self._identity.sequence(waiting.written)
            before = waiting.bytes
            parts[partition] = encode_batch(
                waiting.take(self._limits),
                producer_id=self._identity.producer_id(partition),
                sequence=first,
                compress=self._compress,
            )
            self._bytes -= before - waiting.bytes
        self._settle()
        self._under_way = self._thread.submit(self._append, parts)

    def _settle(self) -> None:
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()

    def _append(self, parts: Mapping[Partition, bytes]) -> None:
        self._runner.run(self._append_all(parts))

    async def _append_all(self, parts: Mapping[Partition, bytes]) -> None:
        """Append a round, and again what did not succeed."""
        if self._log is None:
            self._log = await self._opening()
        deadline_s = asyncio.get_running_loop().time() + self._timeout_s
        backoff = Backoff(self._limits.pause_first_s, self._limits.pause_max_s, deadline_s=deadline_s)
        left = dict(parts)
        while left:
            results = await self._log.append_many(
                [(PartitionId(self._table, each), batch) for each, batch in left.items()]
            )
            for partition, result in zip(list(left), results, strict=True):
                if isinstance(result, Appended):
                    del left[partition]
                elif not (result.retryable or isinstance(result, WriteUnknown)):
                    raise result
                else:
                    failure = result
            if left and not await backoff.pause():
                raise failure

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what is under way, and close the log; what had not left is forgotten."""

        def close() -> None:
            with self._runner:
                if self._log is not None:
                    self._runner.run(self._log.close())

        try:
            self._thread.submit(close).result()
        finally:
            self._thread.shutdown()

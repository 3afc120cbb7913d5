"""One table, for a program with an event loop. The blocking face (`duramen.blocking`) calls these same methods."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from itertools import islice
from typing import Literal

from duramen.client.atomic import AtomicBatch
from duramen.client.bulk import WINDOW_RECORDS, get_many, put_window
from duramen.client.context import ClientContext
from duramen.client.lookup import TableLookup
from duramen.client.model.consistency import SESSION, Level
from duramen.client.model.requests import check_key, number_of, record_of, update_of
from duramen.client.model.results import Change, Done, Entry, ManyDone, Number
from duramen.client.scan import ScanRange, scan_table
from duramen.client.transport.resp_fast_path import FastPathTable, Lost
from duramen.client.watch import Watch, watch_table
from duramen.client.writer import TableWriter
from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidRequest, TableNotFound
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import Operation
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.direct_reads import DirectReads
from router.data.requests import ReadResult, TableDescription

__all__ = ["Level", "Table"]


class Table:
    """Keys and values of one table.

    Every call takes `timeout` in seconds (default: the database's) and raises errors of `duramen.DuramenError`.
    Reads take `level`:

    - `"session"` (default): sees everything that this client wrote or saw before (read-your-writes, monotonic reads);
    - `"eventual"`: whatever the replica has;
    - `"strong"`: everything that anybody had been told is written when the read began;
    - `duramen.bounded(max_lag)`: everything that had been written `max_lag` seconds before, and what this client saw;

    and `after`, a token from another process, whose writes the read then sees as well.
    """

    def __init__(self, context: ClientContext, name: str, ref: TableRef | None = None) -> None:
        self.lookup = TableLookup(context, name, ref)
        self.name = name
        self._context = context

    def __reduce__(self) -> tuple[object, ...]:
        return Table, (self._context, self.name)

    def __repr__(self) -> str:
        return f"<duramen table {self.name!r}>"

    # --- reading

    async def get(
        self,
        key: bytes,
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> bytes | None:
        """The value of `key`, or None where it is absent."""
        result = await self._read_one(key, after, level, timeout)
        return result.values[0]

    async def get_entry(
        self,
        key: bytes,
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> Entry | None:
        """The value of `key` with its version and expiry, or None where it is absent."""
        result = await self._read_one(key, after, level, timeout)
        value = result.values[0]
        if value is None:
            return None
        return Entry(value, Offset(result.versions[0]), result.expiries[0] if result.expiries else 0)

    async def _read_one(self, key: bytes, after: str | Token | None, level: Level, timeout: float | None) -> ReadResult:
        check_key(key)
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        asked = SESSION
        if after is not None or level != "session":
            ref, asked = await self.lookup.asked(ref, after, level, deadline)
        partition = ref.partition_of(key)
        call = self._context.reads.submit(
            ref,
            partition,
            (key,),
            after=asked.after(partition),
            strong=asked.strong,
            seen=asked.seen,
            lag_max_ms=asked.lag_max_ms,
            deadline=deadline,
        )
        return await self.lookup.noticing_drops(call)

    async def get_many(
        self,
        keys: Iterable[bytes],
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> list[bytes | None]:
        """The values of `keys`, in their order; None where a key is absent."""
        wanted = [check_key(key) for key in keys]
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        asked = SESSION
        if after is not None or level != "session":
            ref, asked = await self.lookup.asked(ref, after, level, deadline)
        return await self.lookup.noticing_drops(get_many(self._context, ref, wanted, asked, deadline))

    async def scan(
        self,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Keys and values in key order: of a `prefix`, or from `start` (inclusive) to `end` (exclusive).

        It is read page by page; each page is consistent per partition and never older than the page before it. To
        resume a scan, begin at its last key + b"\\x00" (in reverse: end at its last key). `timeout` is per page.
        """
        pages = self.scan_pages(
            prefix=prefix, start=start, end=end, reverse=reverse, limit=limit, after=after, level=level, timeout=timeout
        )
        try:
            async for page in pages:
                for pair in page:
                    yield pair
        finally:
            await pages.aclose()

    async def scan_pages(
        self,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
        """The same as `scan`, page by page."""
        asked_range = ScanRange.of(prefix=prefix, start=start, end=end, reverse=reverse, limit=limit)
        seconds = self._context.timeout(timeout)
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        ref, asked = await self.lookup.asked(ref, after, level, deadline)
        pages = scan_table(self._context, ref, asked_range, asked, seconds)
        try:
            async for page in pages:
                yield list(zip(page.keys, page.values, strict=True))
        except TableNotFound as error:
            raise self.lookup.gone(error) from error
        finally:
            await pages.aclose()

    def watch(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> Watch:
        """Every change, once, in order within each partition, until the caller stops: `async for change in …`.

        Begins `after` a token (which has seen nothing of the partitions that it does not name), else at `start`. From
        "now" on, everything is shown that is acknowledged, at whatever node, after `await table.watch()` has returned;
        a watch that is not awaited fixes its position in its first step. The blocking `watch()` returns when the
        position is fixed.

        It goes on by itself when the server restarts. Where the table goes over to another version of its content, that
        is a change too: operation BARRIER, without a key; what was seen before is then of another version. Raises
        `OffsetTrimmed` where the log no longer holds what comes after the token. `timeout` bounds how long a lost
        server is waited for.
        """
        return Watch(self.watch_runs(after=after, start=start, timeout=timeout))

    async def watch_runs(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[Change], None]:
        """The same as `watch`, in runs of what arrived together. The first one is empty: the position is fixed."""
        if start not in ("now", "earliest"):
            raise InvalidRequest(f'start is "now" or "earliest", not {start!r}')
        seconds = self._context.timeout(timeout)
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        positions = None
        if after is not None:
            ref, asked = await self.lookup.asked(ref, after, "eventual", deadline)
            positions = asked.offsets
        runs = watch_table(self.lookup, ref, positions, start, seconds)
        try:
            async for run in runs:
                yield run
        except TableNotFound as error:
            raise self.lookup.gone(error) from error
        finally:
            await runs.aclose()

    # --- writing

    async def put(
        self,
        key: bytes,
        value: bytes,
        *,
        ttl: float | None = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Write a value; returns when it is on stable storage.

        `ttl`: seconds until it expires. The conditions are decided once, by the log's order: `ConditionFailed` carries
        the version that was there. Raises `WriteUnknown` where no reply came: the write happened once or not at all.
        """
        record = record_of(
            Operation.PUT,
            key,
            value,
            ttl=ttl,
            keep_ttl=keep_ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
        )
        return await self._write(record, if_absent or if_present or if_version is not None, timeout)

    async def delete(
        self,
        key: bytes,
        *,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Remove a key. Deleting an absent one is no error unless `if_present` says so."""
        record = record_of(Operation.DELETE, key, b"", if_present=if_present, if_version=if_version)
        return await self._write(record, if_present or if_version is not None, timeout)

    async def update(
        self,
        key: bytes,
        *,
        add: Number | None = None,
        multiply: Number | None = None,
        min: Number | None = None,  # noqa: A002 - the operation's name
        max: Number | None = None,  # noqa: A002 - the operation's name
        append: bytes | None = None,
        ttl: float | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Change a value where it is: `Done.value` is the new number, or after `append` the new length.

        Numbers are stored as text, whole ones of 64 bits or floats; an absent key counts as 0 (`min` and `max` take
        the operand), and as empty for `append`. An expiry stays unless `ttl` sets a new one. Raises `NotANumber`,
        `NumberOverflow`, `ConditionFailed`.
        """
        operation, operand = update_of({"add": add, "multiply": multiply, "min": min, "max": max, "append": append})
        record = record_of(
            operation,
            key,
            operand,
            ttl=ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
        )
        return await self._write(record, True, timeout)

    async def _write(self, record: Columns, outcomes: bool, timeout: float | None) -> Done:
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        partition = ref.partition_of(record.keys[0])
        call = self._context.writes.submit(ref, partition, record, outcomes=outcomes, deadline=deadline)
        written = await self.lookup.noticing_drops(call)
        value = number_of(written.results[0]) if outcomes and written.results else None
        return Done(ref.id, partition, written.offset, value)

    async def put_many(
        self,
        pairs: Iterable[tuple[bytes, bytes]] | Mapping[bytes, bytes],
        *,
        ttl: float | None = None,
        timeout: float | None = None,
    ) -> ManyDone:
        """Write many pairs; returns when all are on stable storage. Not atomic: see `batch()` for that.

        Takes any iterable, also an endless one, in windows of bounded memory; `timeout` is per window. On an error,
        windows before it are written, and some of its own pairs may be.
        """
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        stream = iter(pairs.items() if isinstance(pairs, Mapping) else pairs)
        offsets: dict[Partition, Offset] = {}
        records = 0
        while window := list(islice(stream, WINDOW_RECORDS)):
            deadline = self._context.deadline(timeout)
            await self.lookup.noticing_drops(put_window(self._context, ref, window, ttl, deadline, offsets))
            records += len(window)
        return ManyDone(ref.id, records, offsets)

    def batch(self) -> AtomicBatch:
        """An atomic batch: all its records take effect, or none. Its keys must share a partition (a `{tag}`)."""
        return AtomicBatch(self.lookup)

    def writer(self, producer: str) -> TableWriter:
        """A writer that goes on where it was interrupted: see `duramen.client.writer`."""
        return TableWriter(self.lookup, producer)

    # --- about the table

    def direct_reads(self) -> DirectReads | None:
        """For the blocking face: reads in the caller's thread, where the index is in this process."""
        return self._context.direct_reads(self.name)

    def fast_path(self) -> FastPathTable | None:
        """For the blocking face: gets and puts by the server's RESP endpoint."""
        fast_path = self._context.fast_path
        return None if fast_path is None else fast_path.table(self.lookup)

    async def repeat(self, lost: Lost) -> Done:
        """Send again what the RESP endpoint did not answer. Raises what `put` does."""
        deadline = self._context.deadline(None)
        call = self._context.writes.repeat(lost.ref, lost.partition, lost.records, lost.batch, deadline=deadline)
        written = await self.lookup.noticing_drops(call)
        return Done(lost.ref.id, lost.partition, written.offset)

    async def describe(self, *, timeout: float | None = None) -> TableDescription:
        """How the table's partitions stand."""
        return await self.lookup.describe(timeout=timeout)

    async def end_token(self, *, timeout: float | None = None) -> str:
        """A token of everything that is in the table's log now, in every partition."""
        description = await self.describe(timeout=timeout)
        return str(Token({description.table.id: {part.partition: part.latest for part in description.partitions}}))

"""One table, for a program with an event loop. `duramen.blocking` calls these same methods."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from itertools import islice

from duramen.client.atomic import AtomicBatch
from duramen.client.context import ClientContext
from duramen.client.key_reads import read_key, read_past, read_present, read_versions
from duramen.client.lookup import TableLookup
from duramen.client.many_keys import WINDOW_RECORDS, get_many, put_window
from duramen.client.model.call_records import check_key, iterator_of, number_of, record_of, update_of
from duramen.client.model.consistency import SESSION, AsOf, Level
from duramen.client.model.pages import items_of
from duramen.client.model.results import Done, Entry, KeyVersion, ManyDone, Number
from duramen.client.model.scan_range import ScanRange
from duramen.client.past.table_states import TableStates
from duramen.client.scan import scanned_pages, search_table, table_pages
from duramen.client.table_writer import TableWriter
from duramen.client.transport.resp_fast_path import FastPathTable, Lost
from duramen.client.watch import WatchedTable
from log_tier.model.batch import Columns
from log_tier.model.errors import PermissionDenied, TableNotFound
from log_tier.model.identifiers import Offset, Partition, partition_id
from log_tier.model.record import Operation
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.rows.finding.found_range import FindPlan
from router.data.requests import ScanResult, TextSearch
from router.data.seam import CallerReads

__all__ = ["Level", "Table"]


class Table(WatchedTable, TableStates):
    """Keys and values of one table.

    Every call takes `timeout` in seconds (default: the database's) and raises errors of `duramen.DuramenError`.
    Reads take `level`:

    - `"session"` (default): sees everything that this client wrote or read before (read-your-writes, monotonic reads);
    - `"eventual"`: sees what the replica has applied, also of a damaged log;
    - `"strong"`: sees every write that was acknowledged, to any client, before the read began; it costs a request to
      the log;
    - `duramen.bounded(max_lag)`: sees every write that was acknowledged `max_lag` seconds ago, and what this client
      saw.

    Reads also take `after`, a token from any process: the read sees all writes that the token names. A read that needs
    a later state than the replica has waits; at its timeout it raises `ReplicaBehind`. A token beyond the log's end
    raises `TokenAhead`, one of another table `InvalidToken`. A table that is not there raises `TableNotFound`.
    """

    def __init__(self, context: ClientContext, name: str, ref: TableRef | None = None) -> None:
        self.lookup: TableLookup = TableLookup(context, name, ref)
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
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> bytes | None:
        """The value of `key`, or None if it is absent.

        `at`: the value that it had at a token, or at a time with a time zone, of a table with `history=`; the token
        names the key's partition. A time costs a question to the log, as `strong` does.

        Concurrent calls share one request. Cost at the server: one LMDB lookup, O(log keys). Raises `InvalidKey`,
        `TableNotFound`, `ReplicaBehind`, `InvalidToken`, `TokenAhead`; with `at` also `HistoryGone`, which names the
        earliest offset that is kept, and `InvalidRequest` where the table keeps no history.
        """
        if at is not None:
            return (await read_past(self.lookup, key, at, after, level, timeout)).values[0]
        result = await read_present(self.lookup, key, after, level, timeout)
        return result.values[0]

    async def get_entry(
        self,
        key: bytes,
        *,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> Entry | None:
        """The value of `key` with its version and expiry, or None if it is absent. Cost and errors: as `get`."""
        result = await read_key(self.lookup, key, at, after, level, timeout)
        value = result.values[0]
        if value is None:
            return None
        return Entry(value, Offset(result.versions[0]), result.expiries[0] if result.expiries else 0)

    async def history(
        self, key: bytes, *, at: AsOf | None = None, limit: int = 100, timeout: float | None = None
    ) -> list[KeyVersion[bytes]]:
        """The versions of `key`, the newest first: at most `limit` of them, 1 to 10,000, up to `at` (a token, or a time
        with a time zone; None: now). A deletion is a version without a value.

        For tables with `history=`. The last version may be older than what the table keeps: it is what the key had
        then. One request; cost at the server: two lookups for each version. Raises what `get` does with `at`.
        """
        return await read_versions(self.lookup, key, at, limit, timeout)

    async def get_many(
        self,
        keys: Iterable[bytes],
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> list[bytes | None]:
        """The values of `keys`, in their order; None for each absent key.

        Takes any number of keys; one request carries up to 10,000. The keys of one partition are read in one
        transaction; several partitions are not read at one time. Raises what `get` does.
        """
        wanted = [check_key(key) for key in iterator_of(keys, "get_many takes keys")]
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        asked = SESSION
        if after is not None or level != "session":
            ref, asked = await self.lookup.asked(ref, after, level, deadline)
        return await self.lookup.noticing_drops(get_many(self._context, ref, wanted, asked, deadline))

    def scan(
        self,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Keys and values in key order: of a `prefix`, or from `start` (inclusive) to `end` (exclusive).

        `reverse` begins at the largest key. `limit` is the number of entries, None: all. The scan is read page by page;
        each page is consistent per partition and never older than the page before it. To resume a scan, begin at its
        last key + b"\\x00" (in reverse: end at its last key). `timeout` is per page. Cost: one request per page of up
        to 10,000 entries. Raises what `get` does, and `InvalidRequest` for a range that cannot be.

        `at`: the table as it was at a token, or at a time with a time zone, of a table with `history=`. Each partition
        is read at its own offset, which the token has to name, and each page at the same ones.
        """
        return items_of(
            self.scan_pages(
                prefix=prefix,
                start=start,
                end=end,
                reverse=reverse,
                limit=limit,
                at=at,
                after=after,
                level=level,
                timeout=timeout,
            )
        )

    async def scan_pages(
        self,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
        """Scan as `scan` does, and yield whole pages."""
        asked_range = ScanRange.of(prefix=prefix, start=start, end=end, reverse=reverse, limit=limit)
        async with aclosing(scanned_pages(self.lookup, asked_range, at, after, level, timeout)) as pages:
            async for page in pages:
                yield page

    def find_pages(
        self, plan: FindPlan, *, limit: int | None, after: str | Token | None, level: Level, timeout: float | None
    ) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
        """For tables of rows: the entries and values of a plan's range, page by page."""
        return table_pages(self.lookup, ScanRange.of_plan(plan, limit), after, level, timeout)

    async def search_page(
        self, search: TextSearch, limit: int, *, after: str | Token | None, level: Level, timeout: float | None
    ) -> ScanResult:
        """For tables of rows: the rows that a text index finds."""
        return await search_table(self.lookup, search, limit, after=after, level=level, timeout=timeout)

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
        """Write a value; return when it is on stable storage.

        `ttl`: seconds until it expires; `keep_ttl` leaves the expiry of the value that is replaced. `if_absent`,
        `if_present` and `if_version` (an offset from `Done` or `Entry`) are conditions; the log decides them once.
        Cost: one append, whose sync is shared with concurrent writes; a write under a condition also waits until a
        replica has applied it.

        Raises `ConditionFailed` with the version found in `fields["actual"]`; `InvalidKey`, `InvalidValue`,
        `TableNotFound`, `DiskFull`, `LogStopped`; `WriteUnknown` if no reply came, or the log stopped under
        the write: it is in the log once or not at all.
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
        """Remove a key; return when the delete is on stable storage. Deleting an absent key is allowed.

        Conditions, cost and errors are those of `put`: with `if_present` an absent key raises `ConditionFailed`.
        """
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
        """Change a value in place, by exactly one operation.

        `Done.value` is the new number; after `append`, the new length. Numbers are stored as text, integers of 64 bits
        or floats. An absent key counts as 0 (`min` and `max` take the operand), and as empty for `append`. The expiry
        stays unless `ttl` (seconds) sets a new one. Cost: one append, and the wait until a replica has applied it.
        Raises `NotANumber`, `NumberOverflow`, `ResultTooLarge`, and what `put` does.
        """
        operation, operand = update_of({"add": add, "multiply": multiply, "min": min, "max": max, "append": append})
        record = record_of(
            operation, key, operand, ttl=ttl, if_absent=if_absent, if_present=if_present, if_version=if_version
        )
        return await self.write_record(record, timeout=timeout)

    async def write_record(self, record: Columns, *, timeout: float | None = None) -> Done:
        """For tables of rows: write a record, and wait for its outcome. Raises what `update` does."""
        return await self._write(record, True, timeout)

    async def _write(self, record: Columns, outcomes: bool, timeout: float | None) -> Done:
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        number = ref.partition_of(record.keys[0]) if ref.partitions > 1 else Partition(0)
        partition = partition_id(ref.id, number)
        try:
            written = await self._context.writes.submit(ref, partition, record, outcomes=outcomes, deadline=deadline)
        except (TableNotFound, PermissionDenied) as error:
            raise self.lookup.gone(error) from error
        value = number_of(written.results[0]) if outcomes and written.results else None
        return Done(*partition, written.offset, value)

    async def put_many(
        self,
        pairs: Iterable[tuple[bytes, bytes]] | Mapping[bytes, bytes],
        *,
        ttl: float | None = None,
        timeout: float | None = None,
    ) -> ManyDone:
        """Write many pairs; return when all are on stable storage. It is not atomic; `batch()` is.

        Takes any iterable, also an endless one, in windows of bounded memory; `timeout` is per window. `ttl`: seconds.
        After an error, all windows before the failed one are written, and some pairs of that one may be. Raises what
        an unconditional `put` does.
        """
        deadline = self._context.deadline(timeout)
        ref = self.lookup.ref or await self.lookup.resolve(deadline)
        given = pairs.items() if isinstance(pairs, Mapping) else pairs
        stream = iterator_of(given, "put_many takes pairs (key, value), or a mapping")
        offsets: dict[Partition, Offset] = {}
        records = 0
        while window := list(islice(stream, WINDOW_RECORDS)):
            writing = put_window(self._context, ref, window, ttl, deadline, offsets, begin=records)
            await self.lookup.noticing_drops(writing)
            records += len(window)
            deadline = self._context.deadline(timeout)
        return ManyDone(ref.id, records, offsets)

    def batch(self) -> AtomicBatch:
        """An atomic batch: all its records take effect, or none. Its keys must share a partition (a `{tag}`)."""
        return AtomicBatch(self.lookup)

    def writer(self, producer: str) -> TableWriter:
        """A resumable stream of puts: a program that is run again with the same rows writes each exactly once.

        `producer`: the stream's name, the same in every run. See `TableWriter`.
        """
        return TableWriter(self.lookup, producer)

    # --- about the table

    def direct_reads(self) -> CallerReads | None:
        """For the blocking API: reads in the caller's thread, if the index is in this process."""
        return self._context.direct_reads(self.name)

    def fast_path(self) -> FastPathTable | None:
        """For the blocking API: gets and puts over the server's RESP endpoint."""
        fast_path = self._context.fast_path
        return None if fast_path is None else fast_path.table(self.lookup)

    async def repeat(self, lost: Lost) -> Done:
        """Send again what the RESP endpoint did not answer. Raises what `put` does."""
        deadline = self._context.deadline(None)
        call = self._context.writes.repeat(lost.ref, lost.partition, lost.records, lost.batch, deadline=deadline)
        written = await self.lookup.noticing_drops(call)
        return Done(*lost.partition, written.offset)

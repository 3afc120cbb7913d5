"""A table of rows, for a program with an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

from duramen.client.atomic import AtomicBatch
from duramen.client.model.call_records import iterator_of
from duramen.client.model.results import Change, Done, ManyDone
from duramen.client.rows.asked_definition import AskedDefinition
from duramen.client.rows.encoded_rows import encoded_rows, numbered_rows
from duramen.client.rows.opened import OpenedCodec
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.row_results import TypedChange, TypedEntry
from duramen.client.table import Level, Table
from duramen.client.table_writer import TableWriter
from duramen.client.watch import Watch
from log_tier.model.errors import InvalidKey
from log_tier.model.record import Operation
from log_tier.model.tokens import Token
from router.data.requests import TableDescription

__all__ = ["AtomicRows", "RowTable", "RowWriter", "change_of", "keys_of"]

R = TypeVar("R")


class AtomicRows(Generic[R]):
    """Collects rows; `commit()` writes them. If one row's condition fails, none takes effect. Calls can be chained.

    Rows are checked and encoded by `commit`, before anything leaves.
    """

    def __init__(
        self, batch: AtomicBatch, opened: Callable[[float | None], Awaitable[tuple[RowCodec[R], float | None]]]
    ) -> None:
        self._batch = batch
        self._opened = opened
        self._calls: list[Callable[[RowCodec[R]], Callable[[], object]]] = []
        """From a codec to what adds a record; first all are encoded."""

    def __len__(self) -> int:
        return len(self._calls) or len(self._batch)

    def put(
        self,
        row: R,
        *,
        ttl: float | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
    ) -> AtomicRows[R]:
        """Add a row; arguments as for `RowTable.put`."""

        def call(codec: RowCodec[R]) -> Callable[[], object]:
            put = partial(self._batch.put, ttl=ttl, if_absent=if_absent, if_present=if_present, if_version=if_version)
            return partial(put, *codec.encode(row))

        self._calls.append(call)
        return self

    def delete(self, *key: Any, if_present: bool = False, if_version: int | None = None) -> AtomicRows[R]:
        """Add a delete; arguments as for `RowTable.delete`."""

        def call(codec: RowCodec[R]) -> Callable[[], object]:
            stored = codec.key.of_fields(key)
            return partial(self._batch.delete, stored, if_present=if_present, if_version=if_version)

        self._calls.append(call)
        return self

    async def commit(self, *, timeout: float | None = None) -> list[Done]:
        """Write the rows; return one `Done` for each, in order. As `AtomicBatch.commit`; raises also `InvalidRow`, and
        nothing was written then.
        """
        codec, timeout = await self._opened(timeout)
        adds = [call(codec) for call in self._calls]
        self._calls = []
        for add in adds:
            add()
        return await self._batch.commit(timeout=timeout)


class RowWriter(Generic[R]):
    """A stream of rows, resumable by its producer's name: `TableWriter` for rows. Use it with `async with`.

    A row that does not fit raises `InvalidRow` with its place in the stream, before it leaves. It takes no place among
    the records, so the stream can go on behind it, and a later run that leaves it out meets the same records.
    """

    def __init__(
        self, stored: TableWriter, opened: Callable[[float | None], Awaitable[tuple[RowCodec[R], float | None]]]
    ) -> None:
        self.stored = stored
        """The same stream, in bytes: `written`, `skipped`."""
        self._opened = opened
        self._rows = 0

    async def __aenter__(self) -> RowWriter[R]:
        await self._opened(None)
        await self.stored.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stored.__aexit__(kind, error, trace)

    async def put(self, row: R) -> None:
        """Add one row. As `TableWriter.put`; raises also `InvalidRow`."""
        await self.put_rows((row,))

    async def put_rows(self, rows: Iterable[R]) -> None:
        """Add many rows. As `TableWriter.put_rows`; raises also `InvalidRow`, and rows before that one are added."""
        codec, _ = await self._opened(None)
        await self.stored.put_rows(numbered_rows(codec, self._counted(rows), "the writer", self._rows))

    def _counted(self, rows: Iterable[R]) -> Iterator[R]:
        for row in iterator_of(rows, "put_rows takes rows"):
            self._rows += 1
            yield row

    async def flush(self) -> ManyDone:
        """Send what has gathered and wait until it is on stable storage. As `TableWriter.flush`."""
        return await self.stored.flush()


class RowTable(Generic[R]):
    """A table whose values are rows, and whose keys are fields of them: `create_table(…, row=Flight, key=(…))`.

    Calls, levels, tokens, timeouts and errors are those of `Table`; `stored` is the same table in bytes. Besides, each
    call raises `InvalidSchema`, which names the field, where the type of rows is not the table's. The first call asks
    for the table's definition.
    """

    def __init__(self, stored: Table, asked: AskedDefinition) -> None:
        assert asked.shape is not None, "a table of rows has a type of rows"
        shape = asked.shape
        self.stored = stored
        """The same table, in bytes."""
        self.name = stored.name
        self.asked = asked
        """What it was opened as."""
        self.codec: OpenedCodec[RowCodec[R]] = OpenedCodec(stored.lookup, asked, lambda found: RowCodec(found, shape))
        """For the blocking API."""

    def __reduce__(self) -> tuple[object, ...]:
        return RowTable, (self.stored, self.asked)

    def __repr__(self) -> str:
        assert self.asked.shape is not None, "a table of rows has a type of rows"
        return f"<duramen table {self.name!r} of {self.asked.shape.name}>"

    async def _opened(self, timeout: float | None) -> tuple[RowCodec[R], float | None]:
        codec = self.codec.now()
        return (codec, timeout) if codec is not None else await self.find_codec(timeout)

    async def find_codec(self, timeout: float | None) -> tuple[RowCodec[R], float]:
        """For the blocking API: the codec, and how many seconds of the call are left."""
        return await self.codec.find(self.stored.lookup.context.deadline(timeout))

    # --- reading

    async def get(
        self,
        *key: Any,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> R | None:
        """The row with these key fields, or None if there is none: `get("UA", 1545)`.

        Cost and errors: as `Table.get`, and `InvalidKey`, which names the field, for what is no key of the table.
        """
        codec, timeout = await self._opened(timeout)
        value = await self.stored.get(codec.key.of_fields(key), after=after, level=level, timeout=timeout)
        return None if value is None else codec.decode(value)

    async def get_entry(
        self,
        *key: Any,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> TypedEntry[R] | None:
        """The row with its version and expiry, or None. Cost and errors: as `get`."""
        codec, timeout = await self._opened(timeout)
        found = await self.stored.get_entry(codec.key.of_fields(key), after=after, level=level, timeout=timeout)
        return None if found is None else TypedEntry(codec.decode(found.value), found.version, found.expires_at_ms)

    async def get_many(
        self,
        keys: Iterable[tuple[Any, ...]],
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> list[R | None]:
        """The rows with these keys, tuples of fields, in their order; None for each that is not there. As
        `Table.get_many`.
        """
        codec, timeout = await self._opened(timeout)
        wanted = [codec.key.of_fields(each) for each in keys_of(keys)]
        values = await self.stored.get_many(wanted, after=after, level=level, timeout=timeout)
        return [None if value is None else codec.decode(value) for value in values]

    async def scan(
        self,
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        reverse: bool = False,
        limit: int | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
        **key_fields: Any,
    ) -> AsyncGenerator[R, None]:
        """The rows with these key fields, in the order of the key: `scan(carrier="UA", flight=(1500, 1600))`.

        Fields are given from the first one of the key on. The last of them may be a range, (start, end): from `start`
        (inclusive) to `end` (exclusive), None for an open end; None sorts first. `fields` is the same as a mapping, for
        names that a parameter has (`limit`). One value for each field of `partition_by` asks one partition, anything
        else all of them. The rest is as for `Table.scan`. Raises what it does, `InvalidRequest` for fields that are
        none of the key's or leave one out, and `InvalidKey` for values of other types.
        """
        asked = {**(fields or {}), **key_fields}
        pages = self.scan_pages(asked, reverse=reverse, limit=limit, after=after, level=level, timeout=timeout)
        try:
            async for page in pages:
                for row in page:
                    yield row
        finally:
            await pages.aclose()

    async def scan_pages(
        self,
        fields: Mapping[str, Any],
        /,
        *,
        reverse: bool = False,
        limit: int | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[R], None]:
        """Scan as `scan` does, and yield whole pages."""
        codec, timeout = await self._opened(timeout)
        bounds = codec.key.bounds(fields)
        decode = codec.decode
        pages = self.stored.scan_pages(
            start=bounds.start,
            end=bounds.end,
            reverse=reverse,
            limit=limit,
            after=after,
            level=level,
            timeout=timeout,
        )
        try:
            async for page in pages:
                yield [decode(value) for _, value in page]
        finally:
            await pages.aclose()

    def watch(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> Watch[TypedChange[R]]:
        """Every change, once, in order within each partition: `change.after` is the row, None where it was deleted.

        Positions, reconnections and errors are those of `Table.watch`.
        """
        return Watch(self.watch_runs(after=after, start=start, timeout=timeout))

    async def watch_runs(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[TypedChange[R]], None]:
        """The same as `watch`, in runs of what arrived together. The first one is empty: the position is fixed."""
        codec, timeout = await self._opened(timeout)
        runs = self.stored.watch_runs(after=after, start=start, timeout=timeout)
        try:
            async for run in runs:
                yield [change_of(change, codec.key.fields_of, codec.decode) for change in run]
        finally:
            await runs.aclose()

    # --- writing

    async def put(
        self,
        row: R,
        *,
        ttl: float | None = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Write a row under its key; return when it is on stable storage.

        Arguments, cost and errors: as `Table.put`. A row that does not fit is refused before it leaves, by `InvalidRow`
        with the field, its value and the type that it should have.
        """
        codec, timeout = await self._opened(timeout)
        key, value = codec.encode(row)
        return await self.stored.put(
            key,
            value,
            ttl=ttl,
            keep_ttl=keep_ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
            timeout=timeout,
        )

    async def put_many(self, rows: Iterable[R], *, ttl: float | None = None, timeout: float | None = None) -> ManyDone:
        """Write many rows; return when all are on stable storage. It is not atomic; `batch()` is.

        Takes any iterable, as `Table.put_many`. A row that does not fit raises `InvalidRow` with its place; rows
        before it may be written.
        """
        codec, timeout = await self._opened(timeout)
        return await self.stored.put_many(encoded_rows(codec, rows), ttl=ttl, timeout=timeout)

    async def delete(
        self,
        *key: Any,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Remove the row with these key fields; deleting an absent one is allowed. As `Table.delete`."""
        codec, timeout = await self._opened(timeout)
        return await self.stored.delete(
            codec.key.of_fields(key), if_present=if_present, if_version=if_version, timeout=timeout
        )

    def batch(self) -> AtomicRows[R]:
        """An atomic batch: all its rows take effect, or none. Their keys must share a partition (`partition_by`)."""
        return AtomicRows(self.stored.batch(), self._opened)

    def writer(self, producer: str) -> RowWriter[R]:
        """A resumable stream of rows: a program that is run again with the same rows writes each exactly once.

        `producer`: the stream's name, the same in every run. See `RowWriter`.
        """
        return RowWriter(self.stored.writer(producer), self._opened)

    # --- about the table

    async def describe(self, *, timeout: float | None = None) -> TableDescription:
        """The state of each partition: offsets, keys, bytes, nodes. Raises `TableNotFound`."""
        return await self.stored.describe(timeout=timeout)

    async def end_token(self, *, timeout: float | None = None) -> str:
        """A token of everything that is in the table's log now, in every partition. Raises `TableNotFound`."""
        return await self.stored.end_token(timeout=timeout)


def keys_of(keys: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The keys of `get_many`. Raises `InvalidKey` for one that is no tuple: text would be taken apart."""
    for key in iterator_of(keys, "get_many takes keys, each a tuple of fields"):
        if not isinstance(key, (tuple, list)):
            raise InvalidKey(f"get_many takes keys, each a tuple of fields; this one is {type(key).__name__}")
        yield tuple(key)


def change_of(change: Change, key_of: Callable[[bytes], Any], value_of: Callable[[bytes], R]) -> TypedChange[R]:
    """A change with its key and its value decoded."""
    is_put = change.operation is Operation.PUT and change.value is not None
    return TypedChange(
        change.table_id,
        change.partition,
        change.offset,
        change.timestamp_ms,
        change.operation,
        None if change.operation is Operation.BARRIER else key_of(change.key),
        value_of(change.value) if is_put and change.value is not None else None,
        change.before,
    )

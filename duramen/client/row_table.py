"""A table of rows, for a program with an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar, overload

from duramen.client.model.consistency import AsOf
from duramen.client.model.pages import items_of
from duramen.client.model.results import Done, ManyDone
from duramen.client.past.befores import with_befores
from duramen.client.row_writes import AtomicRows, RowWriter
from duramen.client.rows.altering import alter_rows
from duramen.client.rows.arrow.given_frames import ArrowArray, ArrowStream, put_frames
from duramen.client.rows.arrow.row_frames import RowFrames
from duramen.client.rows.asked_definition import AskedDefinition
from duramen.client.rows.encoded_rows import encoded_rows
from duramen.client.rows.opened import OpenedCodec
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.row_finds import RowFinds
from duramen.client.rows.row_indexes import RowIndexes
from duramen.client.rows.row_patches import PatchedFields
from duramen.client.rows.row_results import RowHistory, TypedChange, TypedEntry, changes_of, keys_of, rows_of
from duramen.client.rows.shapes.arrow_schema import ArrowSchema
from duramen.client.rows.shapes.shape import shape_of
from duramen.client.rows.texts.row_searches import RowSearches
from duramen.client.table import Level, Table
from duramen.client.watch import Watch
from log_tier.model.errors import FieldAbsent, NumberOverflow, UnknownFormat
from log_tier.model.tokens import Token
from log_tier.rows.evolution import EvolutionMode, check_mode
from router.data.requests import TableDescription

__all__ = ["RowTable", "altered"]

R = TypeVar("R")
N = TypeVar("N")
T = TypeVar("T")


class RowTable(RowFinds[R], RowSearches[R], RowIndexes[R], RowFrames[R], RowHistory[R]):
    """A table whose values are rows, and whose keys are fields of them: `create_table(…, row=Flight, key=(…))`.

    Calls, levels, tokens, timeouts and errors are those of `Table`; `stored` is the same table in bytes. Besides, each
    call raises `InvalidSchema`, which names the field, where the type of rows is not the table's. The first call asks
    for the table's definition.
    """

    def __init__(self, stored: Table, asked: AskedDefinition) -> None:
        shape = asked.shape
        assert shape is not None, "a table of rows has a type of rows"
        self.stored = self._found_in = self._past_in = stored
        """The same table, in bytes."""
        self.name, self.asked = stored.name, asked
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

    async def _decoded(
        self, codec: RowCodec[R], work: Callable[[RowCodec[R]], T], timeout: float | None
    ) -> tuple[RowCodec[R], T]:
        """What `work` makes of stored rows, and the codec by which it did: a newer one, where a row has a schema that
        came after `codec` was made.
        """
        while True:
            try:
                return codec, work(codec)
            except UnknownFormat as unknown:
                codec = await self.newer_codec(unknown, timeout)

    async def newer_codec(self, unknown: UnknownFormat, timeout: float | None) -> RowCodec[R]:
        """For the blocking API: a codec that knows the schema which another one did not. Raises `unknown`."""
        return await self.codec.knowing(unknown, self.stored.lookup.context.deadline(timeout))

    async def renewed_codec(self, timeout: float | None) -> RowCodec[R]:
        return await self.codec.renew(self.stored.lookup.context.deadline(timeout))

    async def get(
        self,
        *key: Any,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> R | None:
        """The row with these key fields, or None if there is none: `get("UA", 1545)`. Cost and errors: as `Table.get`,
        and `InvalidKey`, which names the field, for what is no key of the table.
        """
        codec, timeout = await self._opened(timeout)
        value = await self.stored.get(codec.key.of_fields(key), at=at, after=after, level=level, timeout=timeout)
        if value is None:
            return None
        _, row = await self._decoded(codec, lambda codec: codec.decode(value), timeout)
        return row

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
        if found is None:
            return None
        _, row = await self._decoded(codec, lambda codec: codec.decode(found.value), timeout)
        return TypedEntry(row, found.version, found.expires_at_ms)

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
        _, rows = await self._decoded(
            codec, lambda codec: [None if value is None else codec.decode(value) for value in values], timeout
        )
        return rows

    def scan(
        self,
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        reverse: bool = False,
        limit: int | None = None,
        at: AsOf | None = None,
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
        return items_of(
            self.scan_pages(asked, reverse=reverse, limit=limit, at=at, after=after, level=level, timeout=timeout)
        )

    async def scan_pages(
        self,
        fields: Mapping[str, Any],
        /,
        *,
        reverse: bool = False,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[R], None]:
        """Scan as `scan` does, and yield whole pages."""
        codec, timeout = await self._opened(timeout)
        start, end = codec.key.bounds(fields)
        pages = self.stored.scan_pages(
            start=start, end=end, reverse=reverse, limit=limit, at=at, after=after, level=level, timeout=timeout
        )
        try:
            async for page in pages:
                codec, rows = await self._decoded(codec, partial(rows_of, page), timeout)
                yield rows
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
        Where the table keeps a history, `change.before` is the row that was there until then.

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
        watched = self.stored.change_runs(after=after, start=start, timeout=timeout)
        runs = with_befores(self.stored.lookup, watched, timeout, codec.definition.keeps is not None)
        try:
            async for run in runs:
                codec, changes = await self._decoded(codec, partial(changes_of, run), timeout)
                yield changes
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

    async def put_many(
        self, rows: Iterable[R] | ArrowStream | ArrowArray, *, ttl: float | None = None, timeout: float | None = None
    ) -> ManyDone:
        """Write many rows; return when all are on stable storage. It is not atomic; `batch()` is.

        Takes any iterable, as `Table.put_many`, or what streams Arrow: a `pyarrow.Table`, a frame of pandas (from 2.2
        on) or Polars, another table of rows. Its columns have the names of the fields; a field with a default may be
        left out. Columns of another type are cast where nothing is lost by it. A row that does not fit raises
        `InvalidRow` with its place; rows before it may be written. Raises also `InvalidSchema`, which names the column,
        before the first row.
        """
        codec, timeout = await self._opened(timeout)
        if not isinstance(rows, (ArrowStream, ArrowArray)):
            return await self.stored.put_many(encoded_rows(codec, rows), ttl=ttl, timeout=timeout)
        return await put_frames(self.stored.put_many, codec.definition, rows, ttl=ttl, timeout=timeout)

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

    async def update(
        self,
        *key: Any,
        set: PatchedFields = None,  # noqa: A002 - the operation's name
        add: PatchedFields = None,
        multiply: PatchedFields = None,
        min: PatchedFields = None,  # noqa: A002 - the operation's name
        max: PatchedFields = None,  # noqa: A002 - the operation's name
        append: PatchedFields = None,
        ttl: float | None = None,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Change fields of the row with these key fields: `update("UA", 7, set={"gate": "B7"}, add={"seats": -1})`.

        The log decides it in one piece, so two that update at once lose nothing. Each argument maps names of fields,
        dotted where they are inside of others (`"city.size"`), to values. `set` is for any field but those of the key;
        `add`, `multiply`, `min` and `max` for numbers and decimals, the last two for dates and times too; `append` for
        text, bytes and lists. Of a field that is None the last three make the value; `add` and `multiply` are refused.
        The product of decimals is rounded to their scale, half to even.

        The expiry stays unless `ttl` (seconds) sets a new one. Cost: as `Table.update`. A value that is not of its
        field is refused before it leaves, by `InvalidRow`. Raises `RowAbsent` where there is no row, `NumberOverflow`,
        `FieldAbsent`, `ResultTooLarge`, and what `put` does.
        """
        codec, timeout = await self._opened(timeout)
        fields = {"set": set, "add": add, "multiply": multiply, "min": min, "max": max, "append": append}
        record = codec.patch_record(key, fields, ttl=ttl, if_present=if_present, if_version=if_version)
        try:
            return await self.stored.write_record(record, timeout=timeout)
        except (FieldAbsent, NumberOverflow) as refused:
            raise codec.patches.named(refused, record.values[0]) from None

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

    @overload
    async def alter(
        self,
        *,
        row: type[N],
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[N]: ...

    @overload
    async def alter(
        self,
        *,
        row: Mapping[str, Any] | str | ArrowSchema,
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[dict[str, Any]]: ...

    async def alter(
        self,
        *,
        row: object,
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[Any]:
        """Give the table's rows another schema, that of `row`; returns the table with rows of that type.

        Nothing is rewritten: rows that are there are read with the new schema's defaults, and programs with the type of
        an earlier schema go on reading and writing. It may run while others write. The same schema again changes
        nothing, and waits for a change that is under way.

        `compatibility`: what is checked against each schema that the table has had. `"backward"`: who has the new one
        reads rows of the earlier ones; `"forward"`: who has an earlier one reads rows of the new one; `"full"`: both;
        `"none"`: neither. `if_definition`: only where the table's definition has this number (`Database.definition`);
        0: whichever it has.

        Raises `InvalidSchema` with the field and the reason where the schema may not follow, `CommandRejected` where
        another change came first, which it names, and `Unavailable` or `DeadlineExceeded` where it is not done in time;
        it then goes on by itself. Cost: one record in each partition's log, and some commits of the catalog.
        """
        return await altered(self.stored, row, compatibility, if_definition, timeout)


async def altered(
    stored: Table, row: object, compatibility: EvolutionMode, if_definition: int, timeout: float | None
) -> RowTable[Any]:
    """Give the rows of a table another schema; see `RowTable.alter`."""
    asked = AskedDefinition("row", (), shape_of(row))
    deadline, table = stored.lookup.context.deadline(timeout), RowTable[Any](stored, asked)
    await alter_rows(stored.lookup, asked, check_mode(compatibility), if_definition, deadline)
    await table.codec.find(deadline)
    return table

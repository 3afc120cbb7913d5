"""A table of rows, for a program without an event loop. Rows are encoded and decoded in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any, Final, Literal, TypeVar, cast, overload

from duramen.blocking.row_frames import FramedRows
from duramen.blocking.row_streams import AtomicRows, RowWriter
from duramen.blocking.table import Table
from duramen.blocking.wrapped import wrapped
from duramen.client import row_table
from duramen.client.model.consistency import AsOf
from duramen.client.model.results import Done, ManyDone
from duramen.client.model.scan_range import ScanRange
from duramen.client.rows.arrow.given_frames import ArrowArray, ArrowStream
from duramen.client.rows.asked_definition import AskedDefinition
from duramen.client.rows.encoded_rows import encoded_rows
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.row_finds import found_values
from duramen.client.rows.row_patches import PatchedFields
from duramen.client.rows.row_results import TypedChange, TypedEntry, keys_of
from duramen.client.rows.shapes.arrow_schema import ArrowSchema
from duramen.client.table import Level
from log_tier.model.errors import DuramenError, FieldAbsent, NumberOverflow, UnknownFormat
from log_tier.model.tokens import Token
from log_tier.rows.definition import TableDefinition
from log_tier.rows.evolution import EvolutionMode
from log_tier.rows.finding.found_range import FindPlan
from log_tier.rows.finding.row_filter import row_filter
from log_tier.rows.table_index import FieldCondition

__all__ = ["RowTable", "stored_rows"]

R = TypeVar("R")
N = TypeVar("N")
T = TypeVar("T")

_NONE: Final = object()
"""In place of a row that does not meet the conditions: a row of any type may be false, or None."""

_SHOW_TIMEOUT_S: Final = 2.0
"""A notebook shows a table whose server is away at once, and does not hang."""


class RowTable(FramedRows[R]):
    """A table whose values are rows. Calls return when they are done; `timeout` is in seconds."""

    def __init__(self, stored: Table, inner: row_table.RowTable[R]) -> None:
        self.stored = stored
        """The same table, in bytes."""
        self.name = stored.name
        self._inner = inner
        self._loop = stored.loop

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.stored, self._inner.asked)

    def __repr__(self) -> str:
        return repr(self._inner)

    def _repr_html_(self) -> str:
        """The first rows with their types, for notebooks. It waits for two seconds at most for each request."""
        from duramen.client.rows.html_table import HTML_ROWS, html_error, html_table

        try:
            codec, _ = self._opened(_SHOW_TIMEOUT_S)
            pairs = self.stored.scan(limit=HTML_ROWS + 1, timeout=_SHOW_TIMEOUT_S)
            return html_table(self.name, codec.definition, [value for _, value in pairs])
        except DuramenError as error:
            return html_error(repr(self), error)

    def _opened(self, timeout: float | None) -> tuple[RowCodec[R], float | None]:
        codec = self._inner.codec.now()
        return (codec, timeout) if codec is not None else self._loop.run(partial(self._inner.find_codec, timeout))

    def _decoded(
        self, codec: RowCodec[R], work: Callable[[RowCodec[R]], T], timeout: float | None
    ) -> tuple[RowCodec[R], T]:
        while True:
            try:
                return codec, work(codec)
            except UnknownFormat as unknown:
                codec = self._loop.run(partial(self._inner.newer_codec, unknown, timeout))

    def get(
        self,
        *key: Any,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> R | None:
        codec, timeout = self._opened(timeout)
        value = self.stored.get(codec.key.of_fields(key), at=at, after=after, level=level, timeout=timeout)
        return None if value is None else self._decoded(codec, lambda codec: codec.decode(value), timeout)[1]

    def get_entry(
        self,
        *key: Any,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> TypedEntry[R] | None:
        codec, timeout = self._opened(timeout)
        found = self.stored.get_entry(codec.key.of_fields(key), after=after, level=level, timeout=timeout)
        if found is None:
            return None
        _, row = self._decoded(codec, lambda codec: codec.decode(found.value), timeout)
        return TypedEntry(row, found.version, found.expires_at_ms)

    def get_many(
        self,
        keys: Iterable[tuple[Any, ...]],
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> list[R | None]:
        codec, timeout = self._opened(timeout)
        wanted = [codec.key.of_fields(each) for each in keys_of(keys)]
        values = self.stored.get_many(wanted, after=after, level=level, timeout=timeout)
        _, rows = self._decoded(
            codec, lambda codec: [None if value is None else codec.decode(value) for value in values], timeout
        )
        return rows

    def put(
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
        codec, timeout = self._opened(timeout)
        key, value = codec.encode(row)
        return self.stored.put(
            key,
            value,
            ttl=ttl,
            keep_ttl=keep_ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
            timeout=timeout,
        )

    def put_many(
        self, rows: Iterable[R] | ArrowStream | ArrowArray, *, ttl: float | None = None, timeout: float | None = None
    ) -> ManyDone:
        if isinstance(rows, (ArrowStream, ArrowArray)):
            return self._loop.run(partial(self._inner.put_many, rows, ttl=ttl, timeout=timeout))
        codec, timeout = self._opened(timeout)
        return self.stored.put_many(encoded_rows(codec, rows), ttl=ttl, timeout=timeout)

    def delete(
        self,
        *key: Any,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        codec, timeout = self._opened(timeout)
        return self.stored.delete(
            codec.key.of_fields(key), if_present=if_present, if_version=if_version, timeout=timeout
        )

    def update(
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
        codec, timeout = self._opened(timeout)
        fields = {"set": set, "add": add, "multiply": multiply, "min": min, "max": max, "append": append}
        record = codec.patch_record(key, fields, ttl=ttl, if_present=if_present, if_version=if_version)
        try:
            return self.stored.write_record(record, timeout=timeout)
        except (FieldAbsent, NumberOverflow) as refused:
            raise codec.patches.named(refused, record.values[0]) from None

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
    ) -> Generator[R, None, None]:
        asked = {**(fields or {}), **key_fields}
        codec, timeout = self._opened(timeout)
        start, end = codec.key.bounds(asked)
        pairs = self.stored.scan(
            start=start, end=end, reverse=reverse, limit=limit, at=at, after=after, level=level, timeout=timeout
        )
        return self._scanned(pairs, codec, timeout)

    def _scanned(
        self,
        pairs: Generator[tuple[bytes, bytes], None, None],
        codec: RowCodec[R],
        timeout: float | None,
        conditions: Sequence[FieldCondition] = (),
    ) -> Generator[R, None, None]:
        """The rows that meet all conditions."""
        meets = row_filter(conditions, codec.definition)
        try:
            for _, value in pairs:
                try:
                    row = codec.decode(value) if meets(value) else _NONE
                except UnknownFormat as unknown:
                    codec = self._loop.run(partial(self._inner.newer_codec, unknown, timeout))
                    meets = row_filter(conditions, codec.definition)
                    row = codec.decode(value) if meets(value) else _NONE
                if row is not _NONE:
                    yield cast("R", row)
        finally:
            pairs.close()

    def find(
        self,
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
        **conditions: Any,
    ) -> Generator[R, None, None]:
        codec, timeout = self._opened(timeout)
        asked = {**(fields or {}), **conditions}
        codec, plan = self._planned(codec, asked, order, limit, timeout)
        if plan.sort:
            how: dict[str, Any] = {"limit": limit, "after": after, "level": level, "timeout": timeout}
            return self._sorted_rows(codec, plan, **how)
        found_range = ScanRange.of_plan(plan, None if plan.rest else limit)
        pairs = self.stored.range_pairs(found_range, after=after, level=level, timeout=timeout)
        rows = self._scanned(pairs, codec, timeout, plan.rest)
        return _first(rows, limit) if plan.rest and limit is not None else rows

    def watch(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> Generator[TypedChange[R], None, None]:
        return self._loop.iterate_begun(self._inner.watch_runs(after=after, start=start, timeout=timeout))

    for _method in (
        get,
        get_entry,
        get_many,
        put,
        put_many,
        delete,
        update,
        scan,
        find,
        watch,
    ):
        _method.__doc__ = getattr(row_table.RowTable, _method.__name__).__doc__
    del _method

    def batch(self) -> AtomicRows[R]:
        """An atomic batch: all its rows take effect, or none. Their keys must share a partition (`partition_by`)."""
        return AtomicRows(self._inner.batch(), self._loop)

    def writer(self, producer: str) -> RowWriter[R]:
        """A resumable stream of rows. `producer`: the stream's name, the same in every run."""
        return RowWriter(self._inner.writer(producer), self._loop)

    @overload
    def alter(
        self,
        *,
        row: type[N],
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[N]: ...

    @overload
    def alter(
        self,
        *,
        row: Mapping[str, Any] | str | ArrowSchema,
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[dict[str, Any]]: ...

    def alter(
        self,
        *,
        row: object,
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[Any]:
        stored = self._inner.stored
        altering = partial(row_table.altered, stored, row, compatibility, if_definition, timeout)
        return RowTable(self.stored, self._loop.run(altering))

    alter.__doc__ = row_table.RowTable.alter.__doc__

    explain = wrapped(row_table.RowTable.explain)
    describe = wrapped(row_table.RowTable.describe)
    end_token = wrapped(row_table.RowTable.end_token)


def stored_rows(
    stored: Table,
    definition: TableDefinition,
    plan: FindPlan,
    *,
    limit: int | None,
    after: str | Token | None,
    level: Level,
    timeout: float | None,
) -> Generator[bytes, None, None]:
    """The stored rows that a plan finds, one after the other."""
    how = partial(found_values, stored.asynchronous, definition, plan)
    return stored.loop.iterate(how(limit=limit, after=after, level=level, timeout=timeout))


def _first(rows: Generator[R, None, None], limit: int) -> Generator[R, None, None]:
    """So many of them; what they come from is closed with it."""
    with closing(rows):
        yield from islice(rows, limit)


def _again(stored: Table, asked: AskedDefinition) -> RowTable[Any]:
    """A table that came from another process."""
    return RowTable(stored, row_table.RowTable(stored.asynchronous, asked))

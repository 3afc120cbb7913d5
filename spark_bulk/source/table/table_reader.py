"""Batch reads of a table: `spark.read.format("duramen")`. One Spark partition for each partition of the table.

The driver asks for the cluster's map and the log's ends, and gives each task one partition and the offset at which to
read it. A task gets an index at that offset (`index_copies.py`), maps its file, and turns pages into Arrow columns
(`closed_index_file.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.partitioner import partition_of, partition_of_prefix
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_index import FieldCondition
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.source.model.columns import TABLE_COLUMNS, check_schema, json_columns, typed
from spark_bulk.source.model.key_ranges import KeyRange
from spark_bulk.source.model.options import NEWEST_SNAPSHOT, ReadOptions
from spark_bulk.source.model.row_columns import check_row_columns
from spark_bulk.source.model.row_conditions import row_conditions
from spark_bulk.source.model.table_place import TablePlace, find_table, readable_bounds, token_offsets
from spark_bulk.source.table.closed_index_file import ClosedIndexFile, Rows
from spark_bulk.source.table.index_copies import WantedCopy, open_index_copy
from spark_bulk.source.table.row_pages import RowPages

__all__ = ["TablePart", "TableReader", "find_place", "plan_table_parts", "row_definition"]


class TablePart(InputPartition):
    """The partition, offset and key range that one task reads, and the conditions that it looks at."""

    def __init__(self, wanted: WantedCopy, keys: KeyRange, rest: tuple[FieldCondition, ...] = ()) -> None:
        super().__init__(wanted.partition)
        self.wanted = wanted
        self.keys = keys
        self.rest = rest


class TableReader(DataSourceReader):
    """Reads a table at one offset of each partition."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._place: TablePlace | None = None
        definition = None
        if options.values in (None, "rows"):
            self._place = wait_for(find_place(options))
            definition = row_definition(self._place, options)
        self._holds_rows = definition is not None
        if definition is not None:
            check_row_columns(schema, definition)
        else:
            check_schema(schema, TABLE_COLUMNS, fields=options.values == "json")

    def partitions(self) -> Sequence[InputPartition]:
        """Ask where everything is."""
        place, self._place = self._place, None  # each task gets its part of it
        return wait_for(plan_table_parts(self._options, place))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in key order."""
        if not isinstance(partition, TablePart):
            return  # Spark's placeholder for no partitions at all
        wanted = partition.wanted
        kinds = {field.name: field.type for field in self._schema}
        where = wanted.place.named(wanted.partition)
        from_json = self._options.values == "json"
        definition = wanted.place.row_definition if self._holds_rows else None
        pages = None if definition is None else RowPages(definition, self._schema, partition.rest, where)
        file, log_time_ms = wait_for(_opened(wanted))
        if file is None:
            return
        with file:
            for rows in file.rows(
                partition.keys,
                log_time_ms=log_time_ms,
                # A value that cannot be shown as text or JSON is named by its key.
                want_keys="key" in kinds or from_json or kinds.get("value") == pa.string(),
                want_values=from_json or "value" in kinds if pages is None else pages.want_values,
            ):
                fields: dict[str, pa.Array] = {}
                if pages is not None:
                    rows, fields = pages.read(rows)
                elif from_json:
                    fields = _json_fields(rows, self._schema, where)
                yield _batch(rows, self._schema, wanted.partition, where, fields)


async def find_place(options: ReadOptions) -> TablePlace:
    """Where the table is. Raises as `find_table`."""
    return await find_table(options.login, options.table, timeout_s=min(options.timeout_s, 30.0))


def row_definition(place: TablePlace, options: ReadOptions) -> TableDefinition | None:
    """The definition of a table whose rows are to be read as columns; None: its stored form is.

    Raises `InvalidRequest` where the options want rows of a table that has none, and for `where` without rows.
    """
    found = place.row_definition if options.values in (None, "rows") else None
    if found is None and (options.values == "rows" or options.where):
        what = "`values`=rows" if options.values == "rows" else "`where`"
        why = "which reads them as they are stored" if place.row_definition is not None else "whose values are no rows"
        raise InvalidRequest(f"{what} is for rows of a table with a schema, and not for {place.topic.name}, {why}")
    return found


async def plan_table_parts(options: ReadOptions, place: TablePlace | None = None) -> list[TablePart]:
    """A part for each partition that can hold keys of the range. `place`: where the table is, if it was found already.

    Raises `TableNotFound`, `InvalidToken`, `TokenAhead`, `Disconnected`, `InvalidRequest`.
    """
    place = place or await find_place(options)
    definition = row_definition(place, options)
    bounds = await readable_bounds(place, timeout_s=options.timeout_s)
    exact: Mapping[Partition, Offset] = {}
    if options.token == NEWEST_SNAPSHOT:
        exact = _newest_snapshots(place)
    elif options.token:
        exact = token_offsets(options.token, place, bounds)
    keys, only = options.range, None
    rest: tuple[FieldCondition, ...] = ()
    if options.where and definition is not None:
        keys, prefix, rest = row_conditions(options.where, definition)
        only = partition_of_prefix(prefix, place.topic.partitions, place.partitioner)
    elif keys.single is not None:
        only = partition_of(keys.single, place.topic.partitions, place.partitioner)
    return [
        TablePart(
            WantedCopy(
                place.only(partition),
                partition,
                Offset(exact.get(partition, bounds[partition].latest)),
                partition in exact,
                options.snapshots,
                options.folder,
                options.timeout_s,
            ),
            keys,
            rest,
        )
        for partition in place.partitions
        if only in (None, partition) and not keys.is_empty
    ]


def _newest_snapshots(place: TablePlace) -> dict[Partition, Offset]:
    """The offset of each partition's newest snapshot. Raises `InvalidRequest` if a partition has none."""
    for partition in place.partitions:
        if not place.snapshots[partition]:
            raise InvalidRequest(
                f"there is no snapshot of {place.named(partition)}: take one (duramen admin snapshot "
                f"{place.topic.name}), or read without token={NEWEST_SNAPSHOT}"
            )
    return {partition: place.snapshots[partition][-1].offset for partition in place.partitions}


async def _opened(wanted: WantedCopy) -> tuple[ClosedIndexFile | None, int]:
    """The file, mapped; what was fetched for it is gone from the folder already, so nothing can be left behind."""
    async with open_index_copy(wanted) as index:
        return None if index.data is None else ClosedIndexFile.open(index.data), index.log_time_ms


def _json_fields(rows: Rows, schema: pa.Schema, where: str) -> dict[str, pa.Array]:
    wanted = pa.schema([field for field in schema if field.name not in TABLE_COLUMNS or field.name == "value"])
    return dict(zip(wanted.names, json_columns(rows.values, wanted, keys=rows.keys, where=where), strict=True))


def _batch(
    rows: Rows, schema: pa.Schema, partition: Partition, where: str, fields: Mapping[str, pa.Array]
) -> pa.RecordBatch:
    def column(field: pa.Field) -> pa.Array:
        if field.name in fields:
            return fields[field.name]
        match field.name:
            case "key":
                return typed(rows.keys, field.type, what="key", keys=rows.keys, where=where)
            case "value":
                return typed(rows.values, field.type, what="value", keys=rows.keys, where=where)
            case "version":
                return pa.array(rows.versions)
            case "partition":
                return pa.repeat(pa.scalar(partition, pa.int32()), rows.count)
        if rows.expiries is None:
            return pa.nulls(rows.count, field.type)
        never: Any = rows.expiries == 0
        return pa.array(rows.expiries * 1000, mask=never).cast(field.type)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)

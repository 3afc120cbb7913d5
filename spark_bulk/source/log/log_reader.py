"""Reads of a table's log: a batch between two tokens, and the stream of its changes. One task for each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.log import Bounds
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.source.log.feed import FeedPart, read_feed
from spark_bulk.source.log.positions import Seen, check_covered, format_position, parse_position, share_limit
from spark_bulk.source.model.columns import LOG_COLUMNS, check_schema
from spark_bulk.source.model.options import ReadOptions
from spark_bulk.source.model.steps import stepped
from spark_bulk.source.model.table_place import TablePlace, all_bounds, find_table, readable_bounds, token_offsets

__all__ = ["LogPart", "LogReader", "LogStreamReader"]


class LogPart(InputPartition):
    """The range of one partition's log that one task reads."""

    def __init__(self, part: FeedPart) -> None:
        super().__init__(part.partition)
        self.part = part


async def _look(options: ReadOptions, *, to_read: bool = False) -> tuple[TablePlace, list[Bounds]]:
    """Where the table is, and what its log holds. `to_read`: tasks that read it will follow."""
    place = await find_table(options.login, options.table, timeout_s=min(options.timeout_s, 30.0))
    bounds_of = readable_bounds if to_read else all_bounds
    return place, await bounds_of(place, timeout_s=options.timeout_s)


def _beginning(options: ReadOptions, place: TablePlace, bounds: Sequence[Bounds]) -> dict[Partition, Offset]:
    """What counts as seen before the first record that is shown. A token that does not name a partition has seen
    nothing of it, as for a watch.
    """
    if options.start == "latest":
        return {each: bounds[each].latest for each in place.partitions}
    if options.start in ("", "earliest"):
        return {each: Offset(bounds[each].earliest - 1) for each in place.partitions}
    found = token_offsets(options.start, place, bounds)
    return {each: found.get(each, NOTHING) for each in place.partitions}


def _ending(options: ReadOptions, place: TablePlace, bounds: Sequence[Bounds]) -> dict[Partition, Offset]:
    """The last that is shown."""
    if options.end in ("", "latest"):
        return {each: bounds[each].latest for each in place.partitions}
    found = token_offsets(options.end, place, bounds)
    return {each: found.get(each, NOTHING) for each in place.partitions}


def _parts(options: ReadOptions, place: TablePlace, seen: Seen, until: Seen) -> list[LogPart]:
    return [
        LogPart(
            FeedPart(
                place.only(partition),
                partition,
                Offset(max(seen[partition] + 1, place.starts[partition])),
                until[partition],
                options.all_records,
                options.timeout_s,
            )
        )
        for partition in place.partitions
        if until[partition] > seen[partition]
    ]


def _read(partition: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, LogPart):  # else it is Spark's placeholder for no partitions at all
        yield from stepped(read_feed(partition.part, schema))


class LogReader(DataSourceReader):
    """The changes after one token, up to another: `log=true`."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        check_schema(schema, LOG_COLUMNS, fields=False)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Ask where everything is. Raises `OffsetTrimmed` where the log does not hold what is wanted."""
        place, bounds = wait_for(_look(self._options, to_read=True))
        seen = _beginning(self._options, place, bounds)
        check_covered(place, seen, bounds)
        return _parts(self._options, place, seen, _ending(self._options, place, bounds))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one partition, in order."""
        return _read(partition, self._schema)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The change feed: `spark.readStream`. What was shown is in Spark's checkpoint, and nowhere else."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        if not options.log:
            raise InvalidRequest("a stream reads the table's log: add .option('log', 'true')")
        if options.end:
            raise InvalidRequest("a stream has no end: leave `to` out, or read the log as a batch")
        check_schema(schema, LOG_COLUMNS, fields=False)
        self._options = options
        self._schema = schema
        self._target: dict[Partition, Offset] | None = None
        """Where a stream that is to end when it has shown what there was (AvailableNow) ends."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names
        """Where a stream without a checkpoint begins: the option `from`."""
        place, bounds = wait_for(_look(self._options, to_read=True))
        seen = _beginning(self._options, place, bounds)
        check_covered(place, seen, bounds)
        return format_position(place, seen)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The option `maxRecordsPerTrigger`."""
        return ReadMaxRows(self._options.records_max) if self._options.records_max else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The offsets at which the next micro-batch ends."""
        place, bounds = wait_for(_look(self._options))
        seen = parse_position(start, place)
        check_covered(place, seen, bounds)
        latest = self._target or {each: bounds[each].latest for each in place.partitions}
        latest = {each: Offset(max(latest[each], seen[each])) for each in place.partitions}
        if isinstance(limit, ReadMaxRows):
            latest = share_limit(seen, latest, limit.max_rows)
        return format_position(place, latest)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The log's end, for the progress of the query."""
        place, bounds = wait_for(_look(self._options))
        return format_position(place, {each: bounds[each].latest for each in place.partitions})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the log's end."""
        place, bounds = wait_for(_look(self._options))
        self._target = {each: bounds[each].latest for each in place.partitions}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch, the same ones whenever it is run again."""
        place, bounds = wait_for(_look(self._options, to_read=True))
        seen, until = parse_position(start, place), parse_position(end, place)
        check_covered(place, seen, bounds)
        return _parts(self._options, place, seen, until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one partition, in order."""
        return _read(partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: reading does not change what the log keeps."""

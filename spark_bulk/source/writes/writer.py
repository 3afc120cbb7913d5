"""Batch and stream writes: each task appends its rows straight to the log.

**Exactly once.** Every row has a sequence: its place among the rows that its task writes to that partition. A task that
is tried again, or runs twice at a time, writes the same sequences under the same producer id, and the log's readers
drop the second copy (`identities.py`). For a stream the micro-batch's number is part of the sequence, so what is run
again after a restart is dropped too.

**What that needs.** Every attempt of a task must meet the same rows in the same order. Files, tables and this source
read that way. What comes out of a shuffle (`groupBy`, `join`, `repartition`) does not: its rows arrive in the order in
which their pieces came over the network. Sort them within their tasks, by columns that differ between any two rows:

    df.sortWithinPartitions("key", "value").write.format("duramen")…

Random numbers, `uuid()` and the time of day in a column are different in every attempt; write them to a file first.

**What it does not promise.** Two rows of one key in two tasks have no order: make one row of them first. A job is not
one transaction: what a failed job had written stays written. A job that is *submitted* again is another job and writes
again, unless the option `job` gives both one name. A job does not wait for verdicts: it does not notice an update that
was rejected (arithmetic on a value that is no number).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from log_tier.model.errors import InvalidRequest
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.source.model.options import WriteOptions
from spark_bulk.source.model.table_place import TablePlace, find_table, open_place_log
from spark_bulk.source.writes.appender import Appender
from spark_bulk.source.writes.drafted_rows import check_write_schema, drafts
from spark_bulk.source.writes.encoded_rows import RowEncoder
from spark_bulk.source.writes.identities import TaskIdentity

__all__ = ["TableBatchWriter", "TableStreamWriter", "TaskCommit"]

# The names of what Spark passes to the tasks of a stream.
_QUERY = "sql.streaming.queryId"
_EPOCH = "streaming.sql.batchId"

_CLIENT: Final = "write it through a client"


@dataclass
class TaskCommit(WriterCommitMessage):
    """A task's report of what it appended."""

    records: int


class _Writing:
    """What the writers of batches and of streams share: the table, found once by the driver, and a task's work."""

    def __init__(self, options: WriteOptions, schema: pa.Schema, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest(
                "a table is not overwritten row by row: write with mode('append') (a stream: outputMode append or "
                "update), or build a new version and swap it in"
            )
        self._options = options
        self._schema = schema
        self._place: TablePlace | None = None
        self._job = options.job or secrets.token_hex(16)

    def find(self) -> None:
        """Ask where the table is, and look at the columns. Raises `TableNotFound`, `Disconnected`; `InvalidRequest`,
        `InvalidSchema` and what `check_write_schema` raises for columns that are none of the table's.
        """
        options = self._options
        self._place = wait_for(find_table(options.login, options.table, timeout_s=min(options.timeout_s, 30.0)))
        encoder = self._encoder(self._place)
        schema = self._schema if encoder is None else encoder.stored_schema(self._schema)
        check_write_schema(schema, json_values=options.values == "json")

    def _encoder(self, place: TablePlace) -> RowEncoder | None:
        """What makes stored rows of columns; None: the table has bytes."""
        definition, values = place.row_definition, self._options.values
        if definition is not None and values in (None, "rows"):
            return RowEncoder(definition, self._schema)
        if place.definition_text:
            what = "rows" if definition is not None else "a definition of its keys and values"
            fix = "leave the option `values` out, and give a column for each field" if definition else _CLIENT
            raise InvalidRequest(f"table {place.topic.name} has {what}: {fix}")
        if values == "rows":
            raise InvalidRequest(f"table {place.topic.name} has no schema: write `key` and `value`, or values=json")
        return None

    def write(self, iterator: Iterator[pa.RecordBatch], *, job: str, task: int, epoch: int) -> TaskCommit:
        """A task's work."""
        place, options = self._place, self._options
        assert place is not None, "the driver looks first"
        where = f"task {task} of the write to {place.topic.name}"
        first_row = 0
        encoder = self._encoder(place)
        identity = TaskIdentity(place.topic.id, job, task, epoch)
        with Appender(
            partial(open_place_log, place),
            place.topic.id,
            identity,
            compress=options.compress,
            timeout_s=options.timeout_s,
        ) as appender:
            for rows in iterator:
                stored = rows if encoder is None else encoder.stored(rows, where=where, first_row=first_row)
                for drafted in drafts(
                    stored,
                    partitions=place.topic.partitions,
                    partitioner=place.partitioner,
                    json_values=options.values == "json",
                    where=where,
                    first_row=first_row,
                ):
                    appender.add(drafted)
                first_row += rows.num_rows
            appender.finish()
            return TaskCommit(appender.records)

    def write_batch(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """A task of a job."""
        return self.write(iterator, job=self._job, task=_context().partitionId(), epoch=0)

    def write_epoch(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """A task of a micro-batch."""
        context = _context()
        query, epoch = context.getLocalProperty(_QUERY), context.getLocalProperty(_EPOCH)
        if not query or epoch is None:
            raise InvalidRequest(
                f"this Spark does not tell its tasks which micro-batch they are of ({_QUERY}={query!r}, "
                f"{_EPOCH}={epoch!r}): use a Spark 4.2 or newer, or foreachBatch with the option `job`"
            )
        return self.write(iterator, job=self._options.job or query, task=context.partitionId(), epoch=int(epoch))


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "writers run in Spark's tasks"
    return context


class TableBatchWriter(DataSourceArrowWriter):
    """`df.write.format("duramen")`."""

    def __init__(self, options: WriteOptions, schema: pa.Schema, *, overwrite: bool) -> None:
        self._writing = _Writing(options, schema, overwrite=overwrite)
        self._writing.find()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """A task's work."""
        return self._writing.write_batch(iterator)


class TableStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("duramen")`."""

    def __init__(self, options: WriteOptions, schema: pa.Schema, *, overwrite: bool) -> None:
        self._writing = _Writing(options, schema, overwrite=overwrite)
        self._writing.find()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """A task's work."""
        return self._writing.write_epoch(iterator)

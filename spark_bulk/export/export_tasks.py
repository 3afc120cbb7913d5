"""One partition of an export, as a task writes it; and what it reports to the driver."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from log_tier.model.identifiers import NOTHING, Offset, Partition
from spark_bulk.export.export_place import ExportPlace
from spark_bulk.export.manifest import ExportFile
from spark_bulk.export.row_checksum import RowTally
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.source.log.feed import FeedPart, read_feed
from spark_bulk.source.model.columns import typed
from spark_bulk.source.model.options import TextForm
from spark_bulk.source.model.steps import stepped
from spark_bulk.source.table.closed_index_file import ClosedIndexFile, Rows
from spark_bulk.source.table.index_copies import WantedCopy, open_index_copy

__all__ = ["OUTCOME_COLUMNS", "ExportOutcome", "ExportTarget", "change_schema", "export_content", "export_feed"]

OUTCOME_COLUMNS: Final = "partition INT, offset BIGINT, path STRING, rows BIGINT, bytes BIGINT, checksum STRING"
"""The columns of an outcome, as Spark's DDL."""

_OUTCOME: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("checksum", pa.string()),
    ]
)

_ATTEMPT_BYTES: Final = 4

_TIME: Final = pa.timestamp("us", "UTC")
_ARROW: Final = {"bytes": pa.binary(), "utf8": pa.string()}
_DDL: Final = {"bytes": "BINARY", "utf8": "STRING"}


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """The result of one partition's export."""

    partition: Partition
    until: Offset
    """The last offset whose effect, or which itself, is in the file."""
    file: ExportFile | None
    """None where there were no rows."""
    checksum: int = 0
    """Over the rows that were written."""

    def to_batch(self) -> pa.RecordBatch:
        """A row, for Spark."""
        row: dict[str, Any] = {"partition": self.partition, "offset": self.until, "checksum": f"{self.checksum:x}"}
        if self.file is not None:
            row |= {"path": self.file.path, "rows": self.file.rows, "bytes": self.file.bytes}
        return pa.RecordBatch.from_pylist([row], schema=_OUTCOME)

    @classmethod
    def of_row(cls, row: Any) -> ExportOutcome:
        """Read it back; `row` has the columns as fields or keys."""
        partition = Partition(row["partition"])
        file = None if row["path"] is None else ExportFile(row["path"], partition, row["rows"], row["bytes"])
        return cls(partition, Offset(row["offset"]), file, int(row["checksum"], 16))


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """Where the files of an export go, and in which form."""

    url: str = field(repr=False)
    folder: str
    keys: TextForm = "bytes"
    values: TextForm = "bytes"
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def table_columns(self) -> str:
        """The columns of a table's content, as Spark's DDL."""
        return f"key {_DDL[self.keys]}, value {_DDL[self.values]}, version BIGINT, expires_at TIMESTAMP"

    @property
    def change_columns(self) -> str:
        """The columns of changes, as Spark's DDL."""
        return f"offset BIGINT, timestamp TIMESTAMP, operation STRING, key {_DDL[self.keys]}, value {_DDL[self.values]}"

    def write(self, partition: Partition, until: Offset, batches: Iterator[pa.RecordBatch]) -> ExportOutcome:
        """Write a partition's file, under a name of this attempt's own, and count its rows on their way."""
        name = f"{self.folder}/partition={partition}/{secrets.token_hex(_ATTEMPT_BYTES)}.parquet"
        tally = RowTally()
        file = ExportPlace.open(self.url, self.storage_options).write_rows(name, partition, tally.passing(batches))
        assert tally.count.rows == (0 if file is None else file.rows), f"{tally.count} passed, {file} was written"
        return ExportOutcome(partition, until, file, tally.count.checksum)


def export_content(target: ExportTarget, wanted: WantedCopy) -> ExportOutcome:
    """Write what a partition holds. Raises as `open_index_copy`; `InvalidKey`, `InvalidValue` for what is no UTF-8."""
    partition = wanted.partition
    file, log_time_ms, applied = wait_for(_opened(wanted))
    until = Offset(max(applied, wanted.until))
    if file is None:
        return ExportOutcome(partition, until, None)
    schema = pa.schema(
        [
            ("key", _ARROW[target.keys]),
            ("value", _ARROW[target.values]),
            ("version", pa.int64()),
            ("expires_at", _TIME),
        ]
    )
    with file:
        where = wanted.place.named(partition)
        rows = (_table_batch(rows, schema, where) for rows in file.rows(log_time_ms=log_time_ms))
        return target.write(partition, until, rows)


async def _opened(wanted: WantedCopy) -> tuple[ClosedIndexFile | None, int, Offset]:
    """The state's file, mapped; its folder is gone already."""
    async with open_index_copy(wanted) as copy_found:
        file = None if copy_found.data is None else ClosedIndexFile.open(copy_found.data)
        return file, copy_found.log_time_ms, copy_found.applied


def _table_batch(rows: Rows, schema: pa.Schema, where: str) -> pa.RecordBatch:
    if rows.expiries is None:
        expires_at = pa.nulls(rows.count, _TIME)
    else:
        expires_at = pa.array(rows.expiries * 1000, mask=rows.expiries == 0).cast(_TIME)
    return pa.RecordBatch.from_arrays(
        [
            typed(rows.keys, schema.field("key").type, what="key", keys=rows.keys, where=where),
            typed(rows.values, schema.field("value").type, what="value", keys=rows.keys, where=where),
            pa.array(rows.versions),
            expires_at,
        ],
        schema=schema,
    )


def export_feed(target: ExportTarget, part: FeedPart) -> ExportOutcome:
    """Write a partition's changes. Raises as `read_feed`; `InvalidKey`, `InvalidValue` for what is no UTF-8."""
    if part.last < part.first:
        return ExportOutcome(part.partition, Offset(max(part.last, NOTHING)), None)
    schema = change_schema(target.keys, target.values)
    return target.write(part.partition, part.last, stepped(read_feed(part, schema)))


def change_schema(keys: TextForm, values: TextForm) -> pa.Schema:
    """The schema of exported changes."""
    return pa.schema(
        [
            ("offset", pa.int64()),
            ("timestamp", _TIME),
            ("operation", pa.string()),
            ("key", _ARROW[keys]),
            ("value", _ARROW[values]),
        ]
    )

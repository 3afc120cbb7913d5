"""What came of one partition of a build: a row that its task gives back to the driver.

A task that was given rows which no table can hold says so in its row, and does not fail: Spark would run it again, four
times, with the same end. What another attempt may heal, a store that was away or a full disk, is raised.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from log_tier.model.errors import DuramenError, error_from_code
from log_tier.model.identifiers import Partition
from serving_tier.snapshots.manifest import SnapshotManifest, format_manifest, parse_manifest

__all__ = ["OUTCOME_COLUMNS", "PartitionOutcome"]

OUTCOME_COLUMNS: Final = "partition INT, rows BIGINT, dropped BIGINT, manifest BINARY, error STRING"
"""The columns of the row, as Spark's DDL."""

_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("rows", pa.int64()),
        ("dropped", pa.int64()),
        ("manifest", pa.binary()),
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """Exactly one of `manifest` and `error` is there."""

    partition: Partition
    rows: int = 0
    """Rows that came to the partition."""
    dropped: int = 0
    """Rows that the rule for duplicates left out."""
    manifest: SnapshotManifest | None = None
    error: DuramenError | None = None

    def to_batch(self) -> pa.RecordBatch:
        """The row, for Spark."""
        error = self.error
        return pa.RecordBatch.from_pylist(
            [
                {
                    "partition": self.partition,
                    "rows": self.rows,
                    "dropped": self.dropped,
                    "manifest": None if self.manifest is None else format_manifest(self.manifest),
                    "error": None
                    if error is None
                    else json.dumps({"code": error.code, "message": error.message, "fields": dict(error.fields)}),
                }
            ],
            schema=_SCHEMA,
        )

    @classmethod
    def of_row(cls, row: Any) -> PartitionOutcome:
        """Read the row back; `row` has the columns as fields or keys. Raises `SnapshotDamaged`."""
        partition = Partition(row["partition"])
        error = None if row["error"] is None else json.loads(row["error"])
        return cls(
            partition,
            row["rows"],
            row["dropped"],
            None if row["manifest"] is None else parse_manifest(bytes(row["manifest"]), f"partition {partition}"),
            None if error is None else error_from_code(error["code"], error["message"], error["fields"]),
        )

"""One partition of a build, in whatever process it runs: rows in, a verified snapshot in the store out.

    folder of Spark's → an index, written row after row → a compact copy → the store → read back

Each attempt has a folder, and a snapshot, of its own: an attempt that is killed, or a second one at the same time,
disturbs no other. The driver decides which one counts, and names it in the version's manifest.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import pyarrow as pa

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Partition
from log_tier.model.log import Topic
from serving_tier.snapshots.snapshot_store import SnapshotStore
from spark_bulk.build.index_writer import Base, IndexWriter, store_index
from spark_bulk.build.outcome import PartitionOutcome
from spark_bulk.build.partition_rows import Duplicates, PartitionRows
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.runtime.work_folder import work_folder

__all__ = ["BuildPlan", "build_partition", "partition_builder"]

# Follows the build's id in a snapshot's: distinguishes the attempts at one partition.
_ATTEMPT_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The part of a build's plan that every task gets."""

    build_id: str
    """Hex digits; the id of every snapshot of this build begins with it."""
    table: Topic
    bases: tuple[Base, ...]
    """The base of each partition."""
    url: str = field(repr=False)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    duplicates: Duplicates = "error"
    key_name: str = "key"
    value_name: str = "value"

    def snapshot_id(self) -> str:
        """A new id for one attempt at one partition."""
        return self.build_id + secrets.token_hex(_ATTEMPT_BYTES)

    def store(self) -> SnapshotStore:
        """The store into which the build's snapshots are written."""
        return SnapshotStore.open(self.url, storage_options=self.storage_options)


def build_partition(
    plan: BuildPlan, partition: Partition, batches: Iterable[pa.RecordBatch], *, folder: Path
) -> PartitionOutcome:
    """Build one partition of sorted rows (see `spark_bulk.build.partition_rows`) in a new folder below `folder`, and
    store it.

    Raises what another attempt may heal: `SnapshotStoreUnavailable`, `DiskFull`.
    """
    base, table = plan.bases[partition], plan.table
    rows = PartitionRows(
        partition,
        table.partitions,
        duplicates=plan.duplicates,
        key_name=plan.key_name,
        value_name=plan.value_name,
    )
    work = Path(tempfile.mkdtemp(prefix="duramen-build-", dir=folder))
    try:
        index = work / "index"
        try:
            with IndexWriter.open(index, partition=table.partition(partition), base=base) as writer:
                for batch in batches:
                    taken = rows.take(batch)
                    if taken is not None:
                        writer.write(
                            taken.keys, taken.values, versions=taken.versions, expires_at_ms=taken.expires_at_ms
                        )
                rows.finish()
                writer.finish()
        except InvalidRequest as error:
            return PartitionOutcome(partition, rows.rows, rows.dropped, error=error)
        manifest = wait_for(
            store_index(
                index,
                plan.store(),
                partition=table.partition(partition),
                table_name=table.name,
                start=base.start,
                snapshot_id=plan.snapshot_id(),
            )
        )
    finally:
        rmtree(work, ignore_errors=True)
    assert manifest.keys == rows.rows - rows.dropped == writer.keys, (
        f"{rows.rows} rows came, {rows.dropped} were dropped, {writer.keys} written, {manifest.keys} are in the index"
    )
    return PartitionOutcome(partition, rows.rows, rows.dropped, manifest)


def partition_builder(plan: BuildPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` whose task n gets the rows of partition n, sorted."""

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this runs in a task of Spark's"
        yield build_partition(plan, Partition(context.partitionId()), batches, folder=work_folder()).to_batch()

    return build

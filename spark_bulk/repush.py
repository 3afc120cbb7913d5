"""A new version of a table from its own content: compacted, through a function, or cut into other partitions.

    take      every partition at one offset of its log, from a snapshot or a replica, as a fresh index at the new place:
              what expired is gone, pages are full, and nothing is known of writers and verdicts. Writes go on meanwhile
    change    with a function, or into another table: the rows of those indexes, changed, placed and sorted anew
    commit    as any build (`spark_bulk.build`)

Without a function, versions and expiries of the rows stay: a condition on a version that a client holds still means the
same row. With one they get the version of the base, so that a write which was thought up for the old value is refused.

Each partition's content has an exact offset, which becomes the partition's base: replicas replay later writes onto
it. The other table has a log of its own, whose end at the beginning becomes the base there; nothing of the first one's
log is replayed onto the second.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from log_tier.model.errors import InvalidValue
from log_tier.model.identifiers import Partition
from log_tier.model.tokens import Token
from serving_tier.names import DATA_FILE
from serving_tier.snapshots.install import install_snapshot
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.versions.manifest import VersionManifest
from spark_bulk.build.index_writer import Base, IndexWriter, store_index
from spark_bulk.build.outcome import OUTCOME_COLUMNS, PartitionOutcome
from spark_bulk.build.partition_build import BuildPlan
from spark_bulk.build.version_build import Built, build_rows, commit, plan_build
from spark_bulk.runtime.partition_tasks import each_partition
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.runtime.work_folder import work_folder
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.table_place import find_table
from spark_bulk.source.table.closed_index_file import ClosedIndexFile
from spark_bulk.source.table.index_copies import IndexCopy, WantedCopy, open_index_copy

__all__ = ["RowChange", "repush"]

RowChange = Callable[[bytes, bytes], tuple[bytes, bytes] | None]
"""Makes of a key and its value another pair, or None for a row that is left out. It runs in Spark's tasks, perhaps more
than once for a row."""

_TIMEOUT_S: Final = 600.0

ROW_COLUMNS: Final = "key BINARY, value BINARY, expires_at_ms BIGINT"
_ROWS: Final = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("expires_at_ms", pa.int64())])


def repush(
    spark: SparkSession,
    *,
    at: str,
    table: str,
    url: str,
    function: RowChange | None = None,
    into: str | None = None,
    token: str | Token | None = None,
    snapshots: str = "",
    storage_options: Mapping[str, Any] | None = None,
    ca: str | None = None,
    token_file: str | None = None,
    user: str | None = None,
    timeout: float = _TIMEOUT_S,
    report: Callable[[Built], None] | None = None,
) -> VersionManifest:
    """Build a version of `table`, or of the table `into`, from the content of `table`, and put it at `url`.

    `token`: the state to take, exactly; it names every partition. Without it, a state that is at least as new as the
    log's end now. `snapshots`: the URL of the cluster's snapshot store, where a state may be taken from as well.
    `timeout`: seconds in which every partition must have been found. `ca`, `token_file`, `user`: see
    `spark_bulk.source`.

    A function that maps two keys to one makes the build fail, as duplicates do. Otherwise raises as `build_index`, and
    `OffsetTrimmed` where nobody has the wanted state any more.
    """
    login = ClusterLogin.of(at, ca=ca, token_file=token_file, user=user)
    place = wait_for(find_table(login, table, timeout_s=timeout))
    place.check_bytes()
    how: dict[str, Any] = {"url": url, "storage_options": storage_options, "timeout": timeout}
    plan = plan_build(place, token=token, **how)

    def take(partition: Partition) -> Iterator[pa.RecordBatch]:
        wanted = WantedCopy(
            place.only(partition),
            partition,
            plan.bases[partition].offset,
            exact=token is not None,
            snapshots_url=snapshots,
            timeout_s=timeout,
        )
        yield take_partition(plan, wanted, folder=work_folder()).to_batch()

    def taken() -> list[PartitionOutcome]:
        rows = each_partition(spark, place.topic.partitions, take, OUTCOME_COLUMNS)
        return [PartitionOutcome.of_row(row) for row in rows.collect()]

    if function is None and into in (None, table):
        built = commit(plan, place, taken, source=f"repush of {table}")
    else:
        target, target_plan = place, plan
        if into not in (None, table):
            target = wait_for(find_table(login, into, timeout_s=timeout))
            target.check_bytes()
            target_plan = replace(plan_build(target, **how), build_id=plan.build_id)

        def changed() -> list[PartitionOutcome]:
            whole = sorted(taken(), key=lambda outcome: outcome.partition)
            manifests = [outcome.manifest for outcome in whole if outcome.manifest is not None]
            assert len(manifests) == place.topic.partitions, f"{len(manifests)} of {place.topic.partitions} were taken"
            rows = each_partition(
                spark, len(manifests), lambda each: changed_rows(plan, manifests[each], function), ROW_COLUMNS
            )
            bases = [
                Base(each.offset, each.log_time_ms, start) for each, start in zip(manifests, place.starts, strict=True)
            ]
            final = replace(target_plan, bases=tuple(bases)) if target is place else target_plan
            return build_rows(rows, target, final)

        built = commit(
            target_plan, target, changed, source=f"repush of {table}{' through a function' * bool(function)}"
        )
    if report is not None:
        report(built)
    return built.version


def take_partition(plan: BuildPlan, wanted: WantedCopy, *, folder: Path) -> PartitionOutcome:
    """Write what a partition holds as a fresh index, in a new folder below `folder`, and store it.

    Raises what `open_index_copy` and `store_index` raise.
    """
    partition, base = wanted.partition, plan.bases[wanted.partition]
    work = Path(tempfile.mkdtemp(prefix="duramen-repush-", dir=folder))
    try:
        file, copy_found = wait_for(_opened(replace(wanted, folder=str(work))))
        # Where less was applied, compaction has taken what came after: it is the state at the wanted offset.
        if copy_found.applied > base.offset:
            base = base._replace(offset=copy_found.applied)
        base = base._replace(log_time_ms=max(base.log_time_ms, copy_found.log_time_ms))
        index = work / "index"
        with IndexWriter.open(index, partition=plan.table.partition(partition), base=base) as writer:
            if file is not None:
                with file:
                    for rows in file.rows(log_time_ms=base.log_time_ms):
                        writer.write(
                            rows.keys,
                            rows.values,
                            versions=rows.versions.tolist(),
                            expires_at_ms=None if rows.expiries is None else rows.expiries.tolist(),
                        )
            writer.finish()
        manifest = wait_for(
            store_index(
                index,
                plan.store(),
                partition=plan.table.partition(partition),
                table_name=plan.table.name,
                start=base.start,
                snapshot_id=plan.snapshot_id(),
            )
        )
    finally:
        rmtree(work, ignore_errors=True)
    return PartitionOutcome(partition, manifest.keys, manifest=manifest)


async def _opened(wanted: WantedCopy) -> tuple[ClosedIndexFile | None, IndexCopy]:
    """The state's file, mapped; its folder is gone already."""
    async with open_index_copy(wanted) as copy_found:
        return None if copy_found.data is None else ClosedIndexFile.open(copy_found.data), copy_found


def changed_rows(plan: BuildPlan, manifest: SnapshotManifest, function: RowChange | None) -> Iterator[pa.RecordBatch]:
    """The rows of a snapshot of the build, changed by the function, as `ROW_COLUMNS`."""
    work = Path(tempfile.mkdtemp(prefix="duramen-repush-", dir=work_folder()))
    try:
        index = work / "index"
        wait_for(install_snapshot(plan.store(), manifest.path, index, partition=manifest.partition_id))
        file = ClosedIndexFile.open(index / DATA_FILE)
    finally:
        rmtree(work, ignore_errors=True)
    with file:
        for rows in file.rows(log_time_ms=manifest.log_time_ms):
            expiries = pa.nulls(rows.count, pa.int64()) if rows.expiries is None else pa.array(rows.expiries)
            batch = pa.RecordBatch.from_arrays([rows.keys, rows.values, expiries], schema=_ROWS)
            yield batch if function is None else _changed(batch, function)


def _changed(batch: pa.RecordBatch, function: RowChange) -> pa.RecordBatch:
    """A batch, each row through the function. Raises `InvalidValue` for what is neither a pair of bytes nor None."""
    found: list[tuple[bytes, bytes, int | None]] = []
    for key, value, due in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        pair = function(key, value)
        if pair is None:
            continue
        match pair:
            case (bytes() as new_key, bytes() as new_value):
                found.append((new_key, new_value, due))
            case _:
                raise InvalidValue(
                    f"the function made {str(pair)[:80]!r} of the key {key[:40]!r}: it is to return a pair of bytes, "
                    "key and value, or None to leave the row out"
                )
    columns = zip(*found, strict=True) if found else ((), (), ())
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _ROWS, strict=True)], schema=_ROWS
    )

"""Exports, as the driver sees them: planned, done by one task for each partition, committed by their manifest."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.errors import DuramenError, InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.log import Bounds
from log_tier.model.tokens import Token
from log_tier.privacy.masked_url import mask_url
from spark_bulk.export.export_place import ExportPlace
from spark_bulk.export.export_tasks import (
    OUTCOME_COLUMNS,
    ExportOutcome,
    ExportTarget,
    export_content,
    export_feed,
)
from spark_bulk.export.manifest import ExportKind, ExportManifest
from spark_bulk.runtime.partition_tasks import each_partition
from spark_bulk.runtime.spark_failures import named_failures
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.runtime.work_folder import work_folder
from spark_bulk.source.log.feed import FeedPart
from spark_bulk.source.log.positions import check_covered
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.options import TextForm
from spark_bulk.source.model.table_place import TablePlace, find_table, readable_bounds, token_offsets
from spark_bulk.source.table.index_copies import WantedCopy

__all__ = ["export_changes", "export_table"]

logger = logging.getLogger(__name__)

_ID_BYTES: Final = 8

_TIMEOUT_S: Final = 600.0


def export_table(
    spark: SparkSession,
    *,
    at: str,
    table: str,
    url: str,
    token: str | Token | None = None,
    keys: TextForm = "bytes",
    values: TextForm = "bytes",
    snapshots: str = "",
    storage_options: Mapping[str, Any] | None = None,
    ca: str | None = None,
    token_file: str | None = None,
    user: str | None = None,
    timeout: float = _TIMEOUT_S,
) -> ExportManifest:
    """Write what `table` holds as Parquet below `url`; return the manifest, whose token is what was read.

    `token`: the state to read, exactly; a partition that it does not name is read as of now. Without it, a state that
    is at least as new as the log's end now. `keys` and `values`: raw bytes, or text that must be UTF-8. `snapshots`:
    the URL of the cluster's snapshot store, where a state may be read from as well. `timeout`: seconds in which every
    partition must have been found. `ca`, `token_file`, `user`: what secures and proves calls, see `spark_bulk.source`.

    Raises `TableNotFound`, `Disconnected`, `InvalidToken`, `TokenAhead`, `OffsetTrimmed`, `InvalidKey`, `InvalidValue`,
    `SnapshotStoreUnavailable`; then nothing of this export is at `url`.
    """
    place, bounds = wait_for(_look(ClusterLogin.of(at, ca=ca, token_file=token_file, user=user), table, timeout))
    exact = {} if token is None else token_offsets(str(Token.parse(token)), place, bounds)

    def work(target: ExportTarget, partition: Partition) -> ExportOutcome:
        return export_content(
            target,
            WantedCopy(
                place.only(partition),
                partition,
                exact.get(partition, bounds[partition].latest),
                exact=partition in exact,
                snapshots_url=snapshots,
                folder=str(work_folder()),
                timeout_s=timeout,
            ),
        )

    target = _target(ExportPlace.open(url, storage_options), url, storage_options, keys, values)
    return _exported(
        spark, place, target, "table", dict.fromkeys(place.partitions, NOTHING), target.table_columns, work
    )


def export_changes(
    spark: SparkSession,
    *,
    at: str,
    table: str,
    url: str,
    from_token: str | Token | None = None,
    to_token: str | Token | None = None,
    keys: TextForm = "bytes",
    values: TextForm = "bytes",
    storage_options: Mapping[str, Any] | None = None,
    ca: str | None = None,
    token_file: str | None = None,
    user: str | None = None,
    timeout: float = _TIMEOUT_S,
) -> ExportManifest:
    """Write the changes of `table` behind `from_token`, up to `to_token` inclusive, as Parquet below `url`.

    Without `from_token` it goes on where the last export at `url` ended, be it of changes or of the table's content; at
    the log's earliest record where there is none. Without `to_token` it goes to the log's end now. A change is what
    `spark_bulk.source` says: a record that changed something. One export at a time goes on at one place.

    Raises as `export_table`; `InvalidRequest` where the last export is of another table, `OffsetTrimmed` where the log
    does not go on behind it.
    """
    place, bounds = wait_for(_look(ClusterLogin.of(at, ca=ca, token_file=token_file, user=user), table, timeout))
    exports = ExportPlace.open(url, storage_options)
    after = _beginning(place, bounds, exports, from_token)
    check_covered(place, after, bounds)
    until = {each: bounds[each].latest for each in place.partitions}
    if to_token is not None:
        named = token_offsets(str(Token.parse(to_token)), place, bounds)
        until = {each: named.get(each, NOTHING) for each in place.partitions}
    until = {each: Offset(max(until[each], after[each])) for each in place.partitions}

    def work(target: ExportTarget, partition: Partition) -> ExportOutcome:
        first = Offset(max(after[partition] + 1, place.starts[partition]))
        part = FeedPart(place.only(partition), partition, first, until[partition], all_records=False, timeout_s=timeout)
        return export_feed(target, part)

    target = _target(exports, url, storage_options, keys, values)
    return _exported(spark, place, target, "changes", after, target.change_columns, work)


async def _look(login: ClusterLogin, table: str, timeout_s: float) -> tuple[TablePlace, list[Bounds]]:
    place = await find_table(login, table, timeout_s=timeout_s)
    return place, await readable_bounds(place, timeout_s=timeout_s)


def _beginning(
    place: TablePlace, bounds: list[Bounds], exports: ExportPlace, from_token: str | Token | None
) -> dict[Partition, Offset]:
    """What counts as exported already."""
    if from_token is not None:
        named = token_offsets(str(Token.parse(from_token)), place, bounds)
        return {each: named.get(each, NOTHING) for each in place.partitions}
    last = exports.last()
    if last is None:
        return {each: Offset(bounds[each].earliest - 1) for each in place.partitions}
    if last.table != place.topic.id:
        raise InvalidRequest(
            f"{mask_url(exports.url)} has {last}, which is table {last.table}, and {place.topic.name} is "
            f"{place.topic.id}: export to a place of its own, or name from_token"
        )
    return {each: last.until[each] for each in place.partitions}


def _target(
    exports: ExportPlace,
    url: str,
    storage_options: Mapping[str, Any] | None,
    keys: TextForm,
    values: TextForm,
) -> ExportTarget:
    last = exports.last()
    number = 0 if last is None else last.number + 1
    folder = f"{number:06d}-{secrets.token_hex(_ID_BYTES)}"
    return ExportTarget(url, folder, keys, values, dict(storage_options or {}))


def _exported(
    spark: SparkSession,
    place: TablePlace,
    target: ExportTarget,
    kind: ExportKind,
    after: Mapping[Partition, Offset],
    columns: str,
    work: Callable[[ExportTarget, Partition], ExportOutcome],
) -> ExportManifest:
    """Have every partition written, and make the export exist; where it fails, remove what is there of it."""
    exports = ExportPlace.open(target.url, target.storage_options)

    def task(partition: Partition) -> Iterator[pa.RecordBatch]:
        yield work(target, partition).to_batch()

    try:
        exports.begin(target.folder)
        with named_failures():
            rows = each_partition(spark, place.topic.partitions, task, OUTCOME_COLUMNS).collect()
        manifest = _manifest(place, target, kind, after, columns, map(ExportOutcome.of_row, rows))
        exports.commit(manifest)
    except BaseException:
        try:
            exports.remove(target.folder)
        except DuramenError as error:
            logger.warning("what an export has left stays at %s/%s: %s", mask_url(target.url), target.folder, error)
        raise
    return manifest


def _manifest(
    place: TablePlace,
    target: ExportTarget,
    kind: ExportKind,
    after: Mapping[Partition, Offset],
    columns: str,
    outcomes: Iterable[ExportOutcome],
) -> ExportManifest:
    found = {outcome.partition: outcome for outcome in outcomes}
    assert sorted(found) == list(place.partitions), (
        f"outcomes of {sorted(found)} of {place.topic.partitions} partitions"
    )
    number, _, export_id = target.folder.partition("-")
    return ExportManifest(
        id=export_id,
        number=int(number),
        kind=kind,
        table=place.topic.id,
        table_name=place.topic.name,
        partitions=place.topic.partitions,
        after=tuple(after[each] for each in place.partitions),
        until=tuple(found[each].until for each in place.partitions),
        created_ms=SYSTEM_CLOCK.wall_ms(),
        columns=columns,
        files=tuple(file for each in place.partitions if (file := found[each].file) is not None),
        checksums=tuple(found[each].checksum for each in place.partitions),
    )

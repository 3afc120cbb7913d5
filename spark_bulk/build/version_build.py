"""The build of a version: planned and committed by the driver, done by Spark's tasks.

    plan      the table's place, and for each partition the offset where the build joins the live log
    build     rows placed and sorted, each partition written by the task that has it
    commit    one snapshot per partition, of the attempt that Spark counts; their list last: with it the version exists
    clean     what other attempts of this build left is removed, by its id; and where it fails, everything of it

A driver that is killed leaves snapshots that no version names, and no version: build again, and remove the folder.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.errors import DuramenError, InvalidRequest, InvalidToken, error_from_code
from log_tier.model.tokens import Token
from log_tier.privacy.masked_url import mask_url
from serving_tier.versions.manifest import VersionManifest, part_of
from serving_tier.versions.version_store import VersionStore
from spark_bulk.build.bases import find_bases
from spark_bulk.build.frame import ValueColumns, chosen_rows, placed_rows
from spark_bulk.build.outcome import OUTCOME_COLUMNS, PartitionOutcome
from spark_bulk.build.partition_build import BuildPlan, partition_builder
from spark_bulk.build.partition_rows import DUPLICATES, Duplicates
from spark_bulk.runtime.spark_failures import named_failures
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.table_place import TablePlace, find_table

__all__ = ["Built", "build_index", "build_rows", "commit", "plan_build"]

logger = logging.getLogger(__name__)

_ID_BYTES: Final = 8

_TIMEOUT_S: Final = 60.0

# Of the text in a version that says what it was made from.
_SOURCE_LENGTH_MAX: Final = 200


class Built(NamedTuple):
    """The result of a build."""

    version: VersionManifest
    rows: int
    """Rows that came."""
    dropped: int
    """Rows of them that the rule for duplicates left out."""


def build_index(
    df: DataFrame,
    *,
    at: str,
    table: str,
    key: str,
    value: ValueColumns = None,
    url: str,
    duplicates: Duplicates = "error",
    order_by: str | Sequence[str] | None = None,
    expires_at: str | None = None,
    token: str | Token | None = None,
    storage_options: Mapping[str, Any] | None = None,
    ca: str | None = None,
    token_file: str | None = None,
    user: str | None = None,
    timeout: float = _TIMEOUT_S,
    report: Callable[[Built], None] | None = None,
) -> VersionManifest:
    """Build a version of `table` from the rows of `df`, and put it at `url`, where no version may lie yet.

    `at`: host:port of any server of the cluster, which `timeout` (seconds) is for; duramens:// in front of it with TLS.
    `ca`, `token_file`, `user`: what secures and proves calls, see `spark_bulk.source`.
    `key`: a column of bytes, or of text, taken as UTF-8. `value`: see `ValueColumns`.
    `duplicates`: several rows of a key are an "error", or the "last" by `order_by` is kept (null is before everything;
    rows that are equal in it are ordered by their values).
    `expires_at`: a column with the time, by the log's clock, at which a row expires; null for never.
    `token`: where live writes go on, for data that was computed from what the log said up to there; it names every
    partition. Without it, the end of the log as it is now: what is written from now on comes on top of the build.
    An empty partition's log gets one no-op.
    `report` hears how many rows came and were dropped.

    One pass over `df`, one shuffle, one sort; each partition is one task. Raises `InvalidRequest` and its kinds for bad
    input, naming the column and the key; `TableNotFound`, `Disconnected`, `InvalidToken`, `TokenAhead`,
    `OffsetTrimmed`; `SnapshotStoreUnavailable`, `DiskFull` where Spark's own retries did not help. Then there is no
    version at `url`, and nothing of this build.
    """
    if duplicates not in DUPLICATES:
        raise InvalidRequest(f"duplicates is one of {', '.join(DUPLICATES)}, not {duplicates!r}")
    rows, value_name = chosen_rows(
        df, key=key, value=value, expires_at=expires_at, order_by=order_by, duplicates=duplicates
    )
    login = ClusterLogin.of(at, ca=ca, token_file=token_file, user=user)
    place = wait_for(find_table(login, table, timeout_s=timeout))
    place.check_bytes()
    plan = plan_build(
        place,
        url=url,
        token=token,
        storage_options=storage_options,
        duplicates=duplicates,
        key_name=key,
        value_name=value_name,
        timeout=timeout,
    )
    source = f"a data frame of {', '.join(df.columns)}"[:_SOURCE_LENGTH_MAX]
    built = commit(plan, place, lambda: build_rows(rows, place, plan), source=source)
    if report is not None:
        report(built)
    return built.version


def plan_build(
    place: TablePlace,
    *,
    url: str,
    token: str | Token | None = None,
    storage_options: Mapping[str, Any] | None = None,
    duplicates: Duplicates = "error",
    key_name: str = "key",
    value_name: str = "value",
    timeout: float = _TIMEOUT_S,
) -> BuildPlan:
    """Plan a build: everything that its tasks need. Raises as `find_bases`, and `InvalidRequest` where a version lies
    at `url`.
    """
    store = VersionStore.open(url, storage_options)
    there = wait_for(store.find())
    if there is not None:
        raise InvalidRequest(
            f"{mask_url(url)} has {there} already, and a version never changes: build to a place of its own"
        )
    if token is not None and not str(token):
        raise InvalidToken("the token is empty: leave it out for the end of the log")
    bases = wait_for(find_bases(place, None if token is None else str(token), timeout_s=timeout))
    return BuildPlan(
        build_id=secrets.token_hex(_ID_BYTES),
        table=place.topic,
        bases=bases,
        url=url,
        storage_options=dict(storage_options or {}),
        duplicates=duplicates,
        key_name=key_name,
        value_name=value_name,
    )


def build_rows(rows: DataFrame, place: TablePlace, plan: BuildPlan) -> list[PartitionOutcome]:
    """Build every partition from rows that have their columns (see `placed_rows`); what came of each."""
    placed = placed_rows(rows, place.topic.partitions, place.partitioner)
    built = placed.mapInArrow(partition_builder(plan), OUTCOME_COLUMNS)
    return [PartitionOutcome.of_row(row) for row in built.collect()]


def commit(plan: BuildPlan, place: TablePlace, build: Callable[[], list[PartitionOutcome]], *, source: str) -> Built:
    """Run a build, and make its version exist; where it fails, remove what is there of it."""
    store = VersionStore.open(plan.url, plan.storage_options)
    try:
        with named_failures():
            outcomes = build()
        built = _built(plan, place, outcomes, source)
        wait_for(store.put(built.version))
    except BaseException:
        _remove_leftovers(store, plan, keep=frozenset())
        raise
    _remove_leftovers(store, plan, keep=frozenset(part.path for part in built.version.parts))
    return built


def _built(plan: BuildPlan, place: TablePlace, outcomes: list[PartitionOutcome], source: str) -> Built:
    """The version of what came of each partition. Raises the first partition's error."""
    found = {outcome.partition: outcome for outcome in outcomes}
    assert len(found) == len(outcomes) == plan.table.partitions, (
        f"{len(outcomes)} outcomes of {len(found)} of {plan.table.partitions} partitions"
    )
    refused = [found[each] for each in sorted(found) if found[each].error is not None]
    if refused:
        first = refused[0].error
        assert first is not None, "it was refused by an error"
        others = f" (and {len(refused) - 1} more partitions were refused)" if len(refused) > 1 else ""
        raise error_from_code(
            first.code,
            f"partition {refused[0].partition} of {plan.table.name}: {first.message}{others}",
            {**first.fields, "partition": refused[0].partition},
        )
    parts = []
    for partition in sorted(found):
        manifest, base = found[partition].manifest, plan.bases[partition]
        assert manifest is not None, f"partition {partition} has neither a snapshot nor an error"
        said = (manifest.table, manifest.partition, manifest.id.startswith(plan.build_id))
        wanted = (plan.table.id, partition, True)
        assert said == wanted, f"partition {partition} is {said}, should be {wanted}"
        assert manifest.offset >= base.offset, f"partition {partition} is at {manifest.offset}, not {base.offset}"
        parts.append(part_of(manifest))
    version = VersionManifest(
        id=plan.build_id,
        table=plan.table.id,
        table_name=plan.table.name,
        partitions=plan.table.partitions,
        partitioner=place.partitioner,
        created_ms=SYSTEM_CLOCK.wall_ms(),
        source=source,
        parts=tuple(parts),
    )
    return Built(version, sum(each.rows for each in outcomes), sum(each.dropped for each in outcomes))


def _remove_leftovers(store: VersionStore, plan: BuildPlan, *, keep: frozenset[str]) -> None:
    """Remove the snapshots of this build that its version does not name. A store that is away keeps them."""

    async def remove() -> list[str]:
        snapshots = store.snapshots
        left = [*await snapshots.snapshots(), *await snapshots.unfinished()]
        paths = [one.path for one in left if one.id.startswith(plan.build_id) and one.path not in keep]
        for path in paths:
            await snapshots.delete(path)
        return paths

    try:
        paths = wait_for(remove())
    except DuramenError as error:
        logger.warning("leftovers of the build %s stay at %s: %s", plan.build_id, mask_url(plan.url), error)
    else:
        if paths:
            logger.info("removed what other attempts of the build had left: %s", ", ".join(paths))

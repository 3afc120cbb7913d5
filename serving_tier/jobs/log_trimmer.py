"""Retention at work: once a minute, a node has the logs of its partitions remove what their tables' bounds let go.

Every holder of a partition does it, so it needs no leader: the log carries out one call after another, and a call that
comes second finds nothing left to remove. Each round looks anew at the map, at the other holders and at the store, and
the log's own rule (`log_tier.model.retention`) decides within the limit (`trim_limit.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap, NodeEntry, TableEntry
from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import HISTORY_TABLE, Offset, PartitionId, PartitionName
from log_tier.model.log import Log
from serving_tier.jobs.trim_limit import TrimLimit, trim_limit
from serving_tier.node.hosting import Hosting
from serving_tier.snapshots.snapshot_store import SnapshotStore

__all__ = ["ROUND_S", "AskApplied", "LogTrimmer"]

logger = logging.getLogger(__name__)

# Bounds are hours to weeks; a minute more or less is not seen. A round costs a few small requests for each partition
# of a table that has a bound, and nothing for the others.
ROUND_S: Final = 60.0

AskApplied = Callable[[NodeEntry], Awaitable[Mapping[PartitionId, Offset]]]
"""Asks another node for the applied offset of each of its replicas. Raises a `DuramenError` if it does not answer."""


class LogTrimmer:
    """Shortens the logs of what one node holds. `open()` makes one, `close()` ends it."""

    def __init__(self, log: Log, catalog: Catalog, hosting: Hosting, store: SnapshotStore, ask: AskApplied) -> None:
        self._log, self._catalog, self._hosting, self._store, self._ask = log, catalog, hosting, store, ask
        self._held: dict[PartitionId, str] = {}
        """By partition of the last round: why its log keeps everything, as it was last logged."""
        self._ticker: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        log: Log,
        catalog: Catalog,
        hosting: Hosting,
        store: SnapshotStore,
        ask: AskApplied,
        *,
        round_s: float = ROUND_S,
        failed: Failed = only_logged,
    ) -> LogTrimmer:
        """Begin: a round every `round_s` seconds. `failed`: see `run_forever`."""
        trimmer = cls(log, catalog, hosting, store, ask)
        trimmer._ticker = run_forever(trimmer._tick(round_s), name="the retention of logs", failed=failed)
        return trimmer

    async def _tick(self, round_s: float) -> None:
        while True:
            await asyncio.sleep(round_s)
            await self.trim()

    async def trim(self) -> None:
        """One round. What fails is logged and tried again in the next one."""
        held = self._hosting.node.hosted()
        cluster = self._catalog.map
        bounded = [
            (table, partition)
            for partition in held
            if (table := cluster.tables.get(partition.table)) is not None and table.retention.is_bounded
        ]
        looked_at = {partition for _, partition in bounded}
        self._held = {partition: why for partition, why in self._held.items() if partition in looked_at}
        if not bounded:
            return
        on_others = await self._applied_on_others(cluster, bounded)
        for table, partition in bounded:
            applied = [held[partition].applied, *(said[partition] for said in on_others if partition in said)]
            try:
                await self._trim(partition, applied)
            except DuramenError as error:
                name = PartitionName(table.name, partition.partition)
                logger.warning("the log of %s is not shortened: %s", name, error)

    async def _applied_on_others(
        self, cluster: ClusterMap, bounded: Iterable[tuple[TableEntry, PartitionId]]
    ) -> list[Mapping[PartitionId, Offset]]:
        """The applied offsets of the other holders. A holder that does not answer comes back from a snapshot."""
        names = {replica.node for table, (_, number) in bounded for replica in table.assignments[number]}
        names.discard(self._hosting.node_id)
        found: list[Mapping[PartitionId, Offset]] = []
        for entry in (cluster.nodes[name] for name in sorted(names) if name in cluster.nodes):
            try:
                found.append(await self._ask(entry))
            except DuramenError as error:
                logger.info("node %s does not say what it has applied: %s", entry.id, error)
        return found

    async def _trim(self, partition: PartitionId, applied: list[Offset]) -> None:
        # The newest map: a job may have begun since the round did.
        cluster = await self._catalog.refresh()
        table = cluster.tables.get(partition.table)
        if table is None or not table.retention.is_bounded:
            return
        limit = trim_limit(cluster, partition, applied)
        name = PartitionName(table.name, partition.partition)
        self._note(partition, table, limit)
        earliest = (await self._log.bounds(partition)).earliest
        if limit.below <= earliest:
            return
        # A snapshot that is gone or damaged covers nothing, whatever the catalog says.
        newest = cluster.covering(partition)
        assert newest is not None, f"{name} may be shortened to {limit.below} without a snapshot"
        await self._store.read_manifest(newest.path)
        after = await self._log.retain(partition, table.retention, below=limit.below)
        if after > earliest:
            logger.info(
                "the log of %s begins at offset %d: its retention (%d ms, %d bytes) let %d offsets go",
                name,
                after,
                table.retention_ms,
                table.retention_bytes,
                after - earliest,
                extra={"offset": after},
            )

    def _note(self, partition: PartitionId, table: TableEntry, limit: TrimLimit) -> None:
        """Log once why nothing goes, and again when the reason is another one."""
        if limit.held_by != self._held.get(partition, ""):
            self._held[partition] = limit.held_by
            if limit.held_by:
                # Nobody here has asked for the retention of the servers' own history.
                level = logging.INFO if table.name == HISTORY_TABLE else logging.WARNING
                name = PartitionName(table.name, partition.partition)
                logger.log(level, "the log of %s keeps everything: %s", name, limit.held_by)

    async def close(self) -> None:
        """Stop. Idempotent."""
        await end_tasks(self._ticker)

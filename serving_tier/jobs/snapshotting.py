"""A node's snapshots: taken by a task or by the schedule, made known to the catalog, fetched, removed.

    take     copy → store → read back → AddSnapshot: only then it exists for others
    remove   ForgetSnapshots → delete from the store: nobody is sent to one that is about to go

What the store cannot remove then stays there, unknown to the catalog; the node's log names it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.catalog.commands import AddSnapshot, ForgetSnapshots
from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.tasks import end_tasks
from log_tier.concurrency.threads import Progress
from log_tier.measures.histogram import LONG_SECONDS, Histogram
from log_tier.model.barrier import LiveVersion
from log_tier.model.errors import CommandRejected, DuramenError
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from serving_tier.jobs.schedule import SnapshotSchedule
from serving_tier.names import SNAPSHOT_WORK_FOLDER
from serving_tier.node.hosting import Hosting
from serving_tier.replica.replica import Replica
from serving_tier.snapshots.contents import Contents
from serving_tier.snapshots.install import install_snapshot
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.snapshots.snapshot_retention import snapshots_to_remove
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.snapshots.take import take_snapshot

__all__ = ["KEEP_DEFAULT", "NodeSnapshots"]

logger = logging.getLogger(__name__)

# One may turn out bad on the night it is needed; a third costs space and rarely helps.
KEEP_DEFAULT: Final = 2

# How often the schedule is looked at. Intervals are minutes to hours.
_LOOK_S: Final = 1.0


class NodeSnapshots:
    """Takes and fetches the snapshots of one node. `open()` makes one, `close()` ends the schedule."""

    def __init__(
        self, catalog: Catalog, hosting: Hosting, store: SnapshotStore, *, keep: int, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._hosting = hosting
        self.store = store
        self._keep = keep
        self._work_folder = hosting.node.folder.with_name(SNAPSHOT_WORK_FOLDER)
        self._ticker: asyncio.Task[None] | None = None
        self._in_use: set[str] = set()
        self.taken_s = Histogram(LONG_SECONDS)
        """How long snapshots took until they were stored and read back."""

    @classmethod
    async def open(
        cls,
        catalog: Catalog,
        hosting: Hosting,
        store: SnapshotStore,
        *,
        keep: int = KEEP_DEFAULT,
        every_s: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        failed: Failed = only_logged,
    ) -> NodeSnapshots:
        """Begin; with `every_s` also by schedule. `keep`: the newest ones of each partition that stay.
        `failed`: see `run_forever`.
        """
        snapshots = cls(catalog, hosting, store, keep=keep, clock=clock)
        if every_s is not None:
            schedule = SnapshotSchedule(every_s)
            snapshots._ticker = run_forever(snapshots._tick(schedule), name="the snapshot schedule", failed=failed)
        return snapshots

    async def take(self, replica: Replica, *, progress: Progress | None = None) -> SnapshotEntry:
        """Take a snapshot of a replica and make it known. Raises what taking and storing raise."""
        copied: list[Contents] = []
        began_s = self._clock.monotonic_s()
        manifest = await take_snapshot(
            replica.reading,
            self.store,
            table_name=replica.topic.name,
            work_folder=self._work_folder,
            progress=progress,
            clock_ms=self._clock.wall_ms,
            described=copied.append,
        )
        self.taken_s.observe(self._clock.monotonic_s() - began_s)
        # The replica may have passed a barrier since.
        entry = _entry_of(manifest, self._hosting.node_id, copied[0].live)
        try:
            await self._catalog.submit(AddSnapshot(entry))
        except CommandRejected:
            with suppress(DuramenError):  # the table was dropped meanwhile
                await self.store.delete(entry.path)
            raise
        await self.remove_old(replica.id)
        return entry

    async def remove_old(self, partition: PartitionId) -> None:
        """Remove all snapshots but the newest `keep`. The log names those that the store does not remove."""
        known = self._catalog.map.snapshots_of(partition)
        old = snapshots_to_remove(known, keep=self._keep, in_use=self._in_use)
        if not old:
            return
        try:
            await self._catalog.submit(ForgetSnapshots(*partition, tuple(entry.id for entry in old)))
        except CommandRejected as error:
            logger.info("another node removes old snapshots: %s", error)
            return
        for entry in old:
            try:
                await self.store.delete(entry.path)
            except DuramenError as error:
                logger.warning("snapshot %s is forgotten and not removed: %s", entry.path, error)

    async def fetch(self, entry: SnapshotEntry, folder: Path, *, progress: Progress | None = None) -> None:
        """Bring a snapshot into `folder`, verified. Raises as `install_snapshot` does."""
        self._in_use.add(entry.id)
        try:
            await install_snapshot(self.store, entry.path, folder, partition=entry.partition_id, progress=progress)
        finally:
            self._in_use.discard(entry.id)

    async def _tick(self, schedule: SnapshotSchedule) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            hosted = self._hosting.node.hosted()
            schedule.keep(hosted)
            for partition, replica in list(hosted.items()):
                if replica.state != "ready":
                    continue
                known = self._catalog.map.snapshots_of(partition)
                newest = known[-1].offset if known else NOTHING
                # The catalog's newest snapshot does not hold the barrier that this replica has passed.
                overtaken = bool(known) and known[-1].swap != replica.index.live.job
                rank = self._hosting.node.rank(partition)
                if not schedule.is_due(
                    partition,
                    newest=Offset(newest),
                    applied=replica.applied,
                    rank=rank,
                    now_s=self._clock.monotonic_s(),
                    overtaken=overtaken,
                ):
                    continue
                began_s = self._clock.monotonic_s()
                try:
                    entry = await self.take(replica)
                    schedule.taken(partition)
                    took_ms = round(1000 * (self._clock.monotonic_s() - began_s), 3)
                    numbers = {"offset": entry.offset, "duration_ms": took_ms}
                    logger.info("snapshot %s of %s was taken by schedule", entry.path, replica.name, extra=numbers)
                except DuramenError as error:
                    logger.warning("%s: no snapshot could be taken: %s", replica.name, error)
                    schedule.forget(partition)

    async def close(self) -> None:
        """Stop the schedule. Idempotent."""
        await end_tasks(self._ticker)


def _entry_of(manifest: SnapshotManifest, node_id: str, live: LiveVersion) -> SnapshotEntry:
    return SnapshotEntry(
        id=manifest.id,
        table=manifest.table,
        partition=manifest.partition,
        offset=manifest.offset,
        log_time_ms=manifest.log_time_ms,
        keys=manifest.keys,
        bytes=manifest.bytes,
        path=manifest.path,
        node=node_id,
        version=live.version,
        swap=live.job,
    )

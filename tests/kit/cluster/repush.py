"""A version of a table that is the table's own content: its newest snapshots, at a place of their own."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import google_crc32c

from kit.cluster.operated import Operated
from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.identifiers import Partition
from router.admin.verbs import TakeSnapshots
from serving_tier.snapshots.manifest import format_manifest
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.versions.manifest import VersionManifest, VersionPart
from serving_tier.versions.version_store import VersionStore

__all__ = ["repushed"]


async def repushed(cluster: Operated, table: TableEntry, root: Path, number: int) -> str:
    """The table as its newest snapshots have it, as a version."""
    await cluster.done(TakeSnapshots(table.name))
    store = SnapshotStore.open(root / "snapshots")
    url = f"file://{root}/version{number}"
    parts: list[VersionPart] = []
    for partition in map(Partition, range(table.partitions)):
        entry = cluster.router.catalog.map.snapshots_of(table.partition(partition))[-1]
        manifest = await store.read_manifest(entry.path)
        await asyncio.to_thread(
            shutil.copytree, root / "snapshots" / entry.path, root / f"version{number}" / entry.path
        )
        check = google_crc32c.value(format_manifest(manifest))
        parts.append(VersionPart(entry.path, entry.offset, manifest.log_time_ms, manifest.keys, manifest.bytes, check))
    version = VersionManifest(
        f"{number:016x}", table.id, table.name, table.partitions, table.partitioner, 0, "a repush", tuple(parts)
    )
    await VersionStore.open(url).put(version)
    return url

"""Versions with a content of their own: built in a simulated cluster from snapshots, and removed from their place."""

from __future__ import annotations

import shutil
from pathlib import Path

import google_crc32c

from log_tier.catalog.cluster_map import ClusterMap, SnapshotEntry, TableEntry
from serving_tier.snapshots.manifest import format_manifest
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.versions.manifest import VersionManifest, VersionPart
from serving_tier.versions.version_store import VersionStore
from simulation.cluster_world import ClusterWorld

__all__ = ["Builds"]


class Builds:
    """What an operator has built for the table that clients use: each build holds what the table held."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._folder = world.machine.folder
        self._places: dict[str, tuple[Path, int]] = {}
        """By URL: the folder, and the last swap of the table when the snapshots were taken."""
        self._made = 0

    def source(self, cluster: ClusterMap, table: TableEntry) -> list[SnapshotEntry] | None:
        """The snapshots of which a version can be built now; None where a partition has none of the version that is
        live, or only one of before its first record.
        """
        found = [cluster.covering(place) for place in table.partition_ids()]
        entries = [entry for entry in found if entry is not None and entry.offset >= 0]
        return entries if len(entries) == len(found) else None

    async def build(self, cluster: ClusterMap, table: TableEntry) -> str | None:
        """Build a version of the newest snapshots; its URL, None where there is no `source`. The checker takes a build
        for what the table holds. Raises what the store raises.
        """
        entries = self.source(cluster, table)
        if entries is None:
            return None
        self._made += 1
        folder = self._folder / "builds" / str(self._made)
        store, parts = SnapshotStore.open((self._folder / "snapshots").as_uri()), list[VersionPart]()
        for entry in entries:
            manifest = await store.read_manifest(entry.path)
            shutil.copytree(self._folder / "snapshots" / entry.path, folder / entry.path)
            check = google_crc32c.value(format_manifest(manifest))
            parts.append(
                VersionPart(entry.path, entry.offset, manifest.log_time_ms, manifest.keys, manifest.bytes, check)
            )
        version = VersionManifest(
            f"{self._made:016x}", table.id, table.name, table.partitions, table.partitioner, 0, "a build", tuple(parts)
        )
        await VersionStore.open(folder.as_uri()).put(version)
        self._places[folder.as_uri()] = folder, table.last_swap
        self._world.story.met["version built"] += 1
        return folder.as_uri()

    def is_current(self, table: TableEntry, url: str) -> bool:
        """Does the version at `url` hold what the table holds?"""
        return url not in self._places or self._places[url][1] == table.last_swap

    def clean(self, cluster: ClusterMap, table: TableEntry) -> None:
        """Delete what was built of versions that are gone, as soon as no restore of the table needs them."""
        if any(cluster.covering(place) is None for place in table.partition_ids()):
            return
        kept = {version.url for version in table.versions}
        for url in [url for url in self._places if url not in kept]:
            folder, _ = self._places.pop(url)
            shutil.rmtree(folder, ignore_errors=True)
            self._world.story.tell("operator of versions", f"deletes {folder.name}")
            self._world.story.met["build deleted"] += 1

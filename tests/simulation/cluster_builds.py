"""Versions that are built in a simulated cluster, from snapshots or other data sets, and removed from their place."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, Final

import google_crc32c

from duramen.verification.history import BuiltPart
from log_tier.catalog.cluster_map import ClusterMap, SnapshotEntry, TableEntry
from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots.manifest import format_manifest
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.versions.manifest import VersionManifest, VersionPart
from serving_tier.versions.version_store import VersionStore
from simulation.cluster_data_sets import build_data_set
from simulation.cluster_world import ClusterWorld

__all__ = ["Builds"]

_PAGE_KEYS: Final = 10_000


class Builds:
    """What an operator has built for the table that clients use."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._folder = world.machine.folder
        self._places: dict[str, Path] = {}
        """By URL: the folder."""
        self._made = 0

    def source(self, cluster: ClusterMap, table: TableEntry) -> list[SnapshotEntry] | None:
        """The snapshots of which a version can be built now; None where a partition has none of the version that is
        live, or only one of before its first record.
        """
        found = [cluster.covering(place) for place in table.partition_ids()]
        entries = [entry for entry in found if entry is not None and entry.offset >= 0]
        return entries if len(entries) == len(found) else None

    async def build_other(self, table: TableEntry, target: str, chance: random.Random) -> str:
        """Build a version of another data set, of what `target` says of the table. Raises what the servers raise."""
        self._made += 1
        folder = self._folder / "builds" / str(self._made)
        self._places[folder.as_uri()] = folder
        with self._world.doing("build"):
            return await build_data_set(self._world, table, target, folder, self._made, chance)

    async def build(self, cluster: ClusterMap, table: TableEntry) -> str | None:
        """Build a version of the newest snapshots; its URL, None where there is no `source`. The checker is given what
        it holds, and compares that with the log in the end. Raises what the store raises.
        """
        entries = self.source(cluster, table)
        if entries is None:
            return None
        with self._world.doing("build"):
            return await self._build_of(entries, table)

    async def _build_of(self, entries: list[SnapshotEntry], table: TableEntry) -> str:
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
        built = VersionStore.open(folder.as_uri())
        await built.put(version)
        self._places[folder.as_uri()] = folder
        self._world.builds[folder.as_uri()] = [
            await self._content(built, version, place, folder.with_name(f"{folder.name}-work"))
            for place in table.partition_ids()
        ]
        self._world.snapshot_builds.add(folder.as_uri())
        self._world.story.met["version built"] += 1
        return folder.as_uri()

    async def _content(
        self, store: VersionStore, version: VersionManifest, place: PartitionId, folder: Path
    ) -> BuiltPart:
        manifest = await store.fetch(version, place.partition, folder)
        index = LmdbIndex.open(folder, partition=place)
        try:
            page = index.scan(b"", None, limit=_PAGE_KEYS)
            entries: dict[str, list[Any]] = {
                key.decode(): [int(entry.version), entry.value.decode()] for key, entry in page.entries
            }
            expires_ms = {key.decode(): entry.expires_at_ms for key, entry in page.entries if entry.expires_at_ms}
            return BuiltPart(int(manifest.offset), entries, expires_ms)
        finally:
            index.close(clean=False)
            shutil.rmtree(folder, ignore_errors=True)

    def clean(self, cluster: ClusterMap, table: TableEntry) -> None:
        """Delete what was built of versions that are gone, as soon as no restore of the table needs them."""
        if any(cluster.covering(place) is None for place in table.partition_ids()):
            return
        kept = {version.url for version in table.versions}
        for url in [url for url in self._places if url not in kept]:
            folder = self._places.pop(url)
            shutil.rmtree(folder, ignore_errors=True)
            self._world.story.tell("operator of versions", f"deletes {folder.name}")
            self._world.story.met["build deleted"] += 1

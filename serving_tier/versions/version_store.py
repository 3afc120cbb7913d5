"""Where a version lies: a snapshot store of its own, with the version's manifest at the top.

    <url>/version.json                                   written last: with it the version exists
    <url>/<table id>/<partition>/<offset>-<id>/…         a snapshot for each partition, see `serving_tier.snapshots`

The URL is any that a `SnapshotStore` takes: a folder, `s3://bucket/prefix?endpoint_url=…`. A version never changes once
it exists, so a place that has one takes no other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from log_tier.concurrency.threads import Progress
from log_tier.model.errors import InvalidRequest, SnapshotDamaged
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.privacy.masked_url import mask_url
from serving_tier.names import VERSION_FILE
from serving_tier.snapshots.install import check_identity, receiving
from serving_tier.snapshots.local_disk import Folders
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.versions.manifest import VERSION_BYTES_MAX, VersionManifest, format_version, parse_version

__all__ = ["VersionStore"]


class VersionStore:
    """The snapshot store of one version, with the version's manifest at the top. `VersionStore.open(url)`; there is
    nothing to close.

    Everything raises `SnapshotStoreUnavailable` where the store does not answer or refuses.
    """

    def __init__(self, snapshots: SnapshotStore) -> None:
        self.snapshots = snapshots
        """The store that holds the version's parts."""

    @property
    def url(self) -> str:
        """The URL that was given to `open`."""
        return self.snapshots.url

    @classmethod
    def open(cls, url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> VersionStore:
        """The place of a version, by its URL. Asks nobody anything yet. Raises `InvalidRequest`, as `SnapshotStore`."""
        return cls(SnapshotStore.open(url, storage_options=storage_options))

    async def find(self) -> VersionManifest | None:
        """The version that lies here; None where there is none yet. Raises `SnapshotDamaged`, `UnknownFormat`."""
        data = await self.snapshots.read_document(VERSION_FILE, bytes_max=VERSION_BYTES_MAX)
        return None if data is None else parse_version(data, self._name)

    async def get(self) -> VersionManifest:
        """The version that lies here. Raises `InvalidRequest` where there is none, and what `find` raises."""
        found = await self.find()
        if found is None:
            raise InvalidRequest(
                f"{self._name} is missing: the build of that version has not finished, or it lies somewhere else"
            )
        return found

    async def put(self, manifest: VersionManifest) -> None:
        """Make the version exist: its parts must be here already, verified. The same one again changes nothing.

        Raises `InvalidRequest` where another version lies here. Of two builds into one place at the same time, the last
        one wins unnoticed: give each a place of its own.
        """
        there = await self.find()
        if there is not None and there != manifest:
            raise InvalidRequest(
                f"{mask_url(self.url)} has {there} already, and a version never changes: build {manifest} somewhere "
                "else, or remove that one"
            )
        await self.snapshots.write_document(VERSION_FILE, format_version(manifest))

    async def fetch(
        self,
        version: VersionManifest,
        partition: Partition,
        folder: Path,
        *,
        number: int | None = None,
        progress: Progress | None = None,
        folders: Folders = Folders(),  # noqa: B008  (immutable)
    ) -> SnapshotManifest:
        """Fetch one partition and make it the index folder `folder`; return its snapshot's manifest.

        `number`: of the version in its table, which the index says by itself before `folder` appears; None: it says
        what it was built as. A node that ends right after the fetch, and loses its live index, must not serve this one
        in its place.

        Every byte is checked before `folder` appears; see `serving_tier.snapshots.install`. Raises `SnapshotDamaged`
        for a part that is not sound, not of this partition or not the one that the version names; `UnknownFormat`,
        `DiskFull`. What was in `folder` is then what it was.
        """
        manifest = await self._part(version, partition)
        async with receiving(folder, lambda: manifest, number=number, folders=folders) as incoming:
            await self.snapshots.fetch(manifest, incoming, progress=progress)
        return manifest

    async def verify(self, version: VersionManifest, *, progress: Progress | None = None) -> None:
        """Read every part and compare it with what the version says. Raises `SnapshotDamaged` naming the place."""
        for number in range(version.partitions):
            await self.snapshots.verify(await self._part(version, Partition(number)), progress=progress)

    async def _part(self, version: VersionManifest, partition: Partition) -> SnapshotManifest:
        """A part's own manifest, which is the one that the version means."""
        part = version.parts[partition]
        manifest, found = await self.snapshots.read_summed(part.path)
        check_identity(manifest, partition=PartitionId(version.table, partition))
        if found != part.check:
            raise SnapshotDamaged(
                f"{mask_url(self.url).partition('?')[0].rstrip('/')}/{part.path}: the manifest has the checksum "
                f"{found:08x}, {version} says {part.check:08x}: build the version again",
                file=part.path,
            )
        return manifest

    @property
    def _name(self) -> str:
        return f"{mask_url(self.url).partition('?')[0].rstrip('/')}/{VERSION_FILE}"

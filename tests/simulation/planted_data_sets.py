"""Bugs to plant that only a version shows which holds something else than the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from log_tier.model.identifiers import Offset, Partition
from serving_tier.fold.entry import stored_entry
from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, open_environment
from serving_tier.replica.standby import StandbyVersions
from serving_tier.versions.manifest import VersionManifest
from serving_tier.versions.version_store import VersionStore
from simulation.planted import Patches

__all__ = ["PLANTED_IN_DATA_SETS"]

_PAGE_KEYS: Final = 10_000


def _build_on_top_of_the_table() -> Patches:
    fetch, add = VersionStore.fetch, StandbyVersions.add
    bases: dict[Path, Offset] = {}
    """By folder: behind which offset the log goes on."""

    async def noted(
        self: VersionStore, version: VersionManifest, partition: Partition, folder: Path, **how: Any
    ) -> None:
        bases[folder] = (await fetch(self, version, partition, folder, **how)).offset

    async def on_top(self: StandbyVersions, number: int) -> None:
        folder = self.folder.version(number)
        if folder in bases:
            base = bases.pop(folder)
            page = self.live.scan(b"", None, limit=_PAGE_KEYS)
            env, databases = open_environment(folder, map_bytes=MAP_BYTES_MAX)
            with env.begin(write=True) as txn:
                for key, entry in page.entries:
                    if entry.version <= base:
                        txn.put(key, stored_entry(*entry), db=databases.data, overwrite=False)
            env.close()
        await add(self, number)

    return [(VersionStore, "fetch", noted), (StandbyVersions, "add", on_top)]


PLANTED_IN_DATA_SETS: Final[dict[str, Callable[[], Patches]]] = {
    "a build is put on top of what the table holds": _build_on_top_of_the_table,
}
